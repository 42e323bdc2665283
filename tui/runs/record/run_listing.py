"""List the runs of a home repeatedly, without reading unchanged runs again."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

from tui.runs.record.damaged_record import RUN_FILE, NoRecordError, unreadable_error
from tui.runs.record.keeper_file import KEEPER_FILE
from tui.runs.record.run_directory import EVENTS_FILE, RunDirectory
from tui.runs.record.run_index import newest_first, run_paths, try_open
from tui.runs.record.run_status import RunStatus, summary_status

Signature = tuple[int, int, int]
"""What identifies a version of a file: its inode, size in bytes and time of modification (ns)."""


class _Seen(NamedTuple):
    """A run as it was last read, with the versions of its record and of the files that determine its state."""

    directory: RunDirectory
    record: Signature | None
    files: tuple[Signature | None, ...]
    status: RunStatus


class RunListing:
    """The runs of a home."""

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
        before, self._seen = self._seen, {}
        for path in run_paths(self.runs_home)[:newest]:
            entry = _read_again(path, before.get(path), problems)
            if entry is not None:
                self._seen[path] = entry
        order = newest_first(entry.directory for entry in self._seen.values())
        self._directories = {directory.id: directory for directory in order}
        return [self._seen[directory.path].status for directory in order]

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
