"""List the runs of a home, without reading unchanged ones again, and resolve a run's id, a part of one or `last`."""

from __future__ import annotations

import os
from collections.abc import Iterable
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

from tui.errors import UsageError, near_matches
from tui.pod.log_refs import LAST
from tui.pod.run import is_run_id
from tui.runs.record.damaged_record import RUN_FILE, NoRecordError, unreadable_error
from tui.runs.record.keeper_file import KEEPER_FILE
from tui.runs.record.run_directory import EVENTS_FILE, ForeignRunError, RunDirectory
from tui.runs.record.run_status import RunStatus, summary_status

_STAMP_LENGTH = len("YYYYmmdd-HHMMSS-xxxx")
_SECOND_LENGTH = len("YYYYmmdd-HHMMSS")
_MAX_CANDIDATES = 8
Signature = tuple[int, int, int]
"""What identifies a version of a file: its inode, size in bytes and time of modification (ns)."""


def list_runs(runs_home: Path, problems: list[NoRecordError] | None = None) -> list[RunDirectory]:
    """Return every run of a home, newest first; unreadable directories are added to `problems` instead."""
    opened = [try_open(path, problems) for path in run_paths(runs_home)]
    return newest_first(directory for directory in opened if directory is not None)


def newest_first(directories: Iterable[RunDirectory]) -> list[RunDirectory]:
    """Return runs in the order of lists."""
    return sorted(directories, key=lambda directory: (stamp_of(directory.id), directory.run.created), reverse=True)


def try_open(path: Path, problems: list[NoRecordError] | None) -> RunDirectory | None:
    """Open a run's directory; return None, and add to `problems`, if its record cannot be read."""
    try:
        return RunDirectory.open(path)
    except NoRecordError as error:
        if problems is not None and error.listed:
            problems.append(error)
        return None


def run_paths(runs_home: Path) -> list[Path]:
    """Return the directories of a home's runs, newest first; the order within a second is arbitrary."""
    try:
        with os.scandir(runs_home) as entries:
            names = [entry.name for entry in entries if not entry.name.startswith(".") and _is_directory(entry)]
    except FileNotFoundError:
        return []
    return [runs_home / name for name in sorted(names, key=stamp_of, reverse=True)]


def _is_directory(entry: os.DirEntry[str]) -> bool:
    """Return whether an entry is a directory or a link to one; False for a link that may not be followed."""
    try:
        return entry.is_dir()
    except OSError:
        return False


class NoSuchRunError(UsageError):
    """No run has that name; the remedy names similar ones."""


def resolve(runs_home: Path, text: str) -> RunDirectory:
    """Return the run with an id, a unique part of one, `last`, or a run directory's path.

    Raises UsageError when none or several match; the remedy names the candidates.
    """
    as_path = Path(text).expanduser()
    if (os.sep in text or text in (".", "..")) and _holds_record(as_path):
        return _open_at(runs_home, as_path)
    if text == LAST:
        return _newest(runs_home)
    if is_run_id(text) and (runs_home / text).is_dir():
        return RunDirectory.open(runs_home / text)
    names = [path.name for path in run_paths(runs_home)]
    matches = [name for name in names if text == name] or [name for name in names if text and text in name]
    if len(matches) == 1:
        return RunDirectory.open(runs_home / matches[0])
    if matches:
        raise UsageError(f"{text!r} is part of {len(matches)} runs", remedy="one of: " + _some(matches))
    if _holds_record(as_path):
        return _open_at(runs_home, as_path)
    if renamed := find_by_record(runs_home, text):
        return renamed
    raise NoSuchRunError(f"no run {text!r} in {runs_home}", remedy=_suggest(text, names))


def _open_at(runs_home: Path, path: Path) -> RunDirectory:
    """Open a run's directory by its path; outside the home, where no keeper writes it, it is only read."""
    directory = RunDirectory.open(path.resolve())
    absolute = Path.cwd() / path
    if directory.foreign or runs_home.resolve() in (absolute.parent.resolve(), directory.path.parent):
        return directory
    remedy = "set TPU_TUI_HOME to the home that it belongs to; attach with the run's ID finds it on its workers"
    foreign = ForeignRunError(directory.path, f"it lies outside {runs_home}", remedy)
    return RunDirectory(directory.path, directory.run, foreign=foreign)


def _holds_record(path: Path) -> bool:
    """Return whether the path is a directory with a run's record, or one of a run that only its owner may read."""
    try:
        return (path / RUN_FILE).exists()
    except PermissionError:
        return is_run_id(path.name)
    except OSError:
        return False


def find_by_record(runs_home: Path, run_id: str) -> RunDirectory | None:
    """Return the run whose record has that id: its directory may have been renamed."""
    if not is_run_id(run_id):
        return None
    opened = (try_open(path, None) for path in run_paths(runs_home))
    return next((directory for directory in opened if directory is not None and directory.id == run_id), None)


def _newest(runs_home: Path) -> RunDirectory:
    """Return the run that was launched last; among runs of the same second, their records decide."""
    paths = run_paths(runs_home)
    for _, of_one_second in groupby(paths, key=lambda path: stamp_of(path.name)[:_SECOND_LENGTH]):
        opened = [try_open(path, None) for path in of_one_second]
        directories = [directory for directory in opened if directory is not None]
        if directories:
            return max(directories, key=lambda directory: directory.run.created)
    raise UsageError(f"there is no run in {runs_home} yet", remedy="start one with `tpu-tui launch`")


def _suggest(text: str, names: list[str]) -> str:
    """Return a hint: the runs with similar names, ignoring their times, or else all runs."""
    stems = {name: name[: -_STAMP_LENGTH - 1] for name in names}
    matches = near_matches(text[: -_STAMP_LENGTH - 1] if is_run_id(text) else text, stems.values())
    candidates = [name for name in names if stems[name] in matches]
    return f"did you mean {_some(candidates)}?" if candidates else "runs here: " + (_some(names) or "none yet")


def _some(names: list[str]) -> str:
    more = len(names) - _MAX_CANDIDATES
    return ", ".join(names[:_MAX_CANDIDATES]) + (f" and {more} more" if more > 0 else "")


def stamp_of(run_id: str) -> str:
    """Return the date, time and suffix of an id, by which runs are ordered."""
    return run_id[-_STAMP_LENGTH:]


class _Seen(NamedTuple):
    """A run as it was last read, with the versions of its record and of the files that determine its state."""

    directory: RunDirectory
    record: Signature | None
    files: tuple[Signature | None, ...]
    status: RunStatus


class RunListing:
    """The runs of a home. Several threads may list them at the same time."""

    def __init__(self, runs_home: Path) -> None:
        self.runs_home = runs_home
        self._seen: dict[Path, _Seen] = {}
        self._directories: dict[str, RunDirectory] = {}

    def read_statuses(
        self, problems: list[NoRecordError] | None = None, *, newest: int | None = None
    ) -> list[RunStatus]:
        """Return the statuses of all or of the newest runs, newest first; add unreadable records to `problems`.

        A run that is over and has no keeper is read again only when its files have changed.
        """
        before, seen = self._seen, {}
        for path in run_paths(self.runs_home)[:newest]:
            entry = _read_again(path, before.get(path), problems)
            if entry is not None:
                seen[path] = entry
        order = newest_first(entry.directory for entry in seen.values())
        self._seen, self._directories = seen, {directory.id: directory for directory in order}
        return [seen[directory.path].status for directory in order]

    def directory(self, run: str) -> RunDirectory:
        """Return the directory of a listed run, which may have another name than its id. Raises KeyError."""
        return self._directories[run]


def _read_again(path: Path, before: _Seen | None, problems: list[NoRecordError] | None) -> _Seen | None:
    record = _signature(f"{path}/{RUN_FILE}")
    files = _signature(f"{path}/{EVENTS_FILE}"), _signature(f"{path}/{KEEPER_FILE}")
    same_record = before is not None and before.record == record
    if before is not None and same_record and before.files == files and _is_settled(before.status):
        return before
    directory = before.directory if before is not None and same_record else try_open(path, problems)
    if directory is None:
        return None
    try:
        return _Seen(directory, record, files, summary_status(directory))
    except OSError as error:
        if problems is not None:
            problems.append(unreadable_error(path, error, EVENTS_FILE))
        return None


def _is_settled(status: RunStatus) -> bool:
    """Return whether the status changes only with the files: while there is a keeper, it can end without writing."""
    return status.state.is_over and status.attended.state == "gone"


def _signature(path: str) -> Signature | None:
    try:
        file_stat = os.stat(path)  # noqa: PTH116 - three for each of thousands of runs
    except OSError:
        return None
    return file_stat.st_ino, file_stat.st_size, file_stat.st_mtime_ns
