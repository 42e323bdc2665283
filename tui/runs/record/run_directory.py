"""The run directory: a run's record on this machine, and the only thing that consoles, commands and reports read.

Every file is append-only or replaced whole, so a reader never needs a lock: a torn last line of `events.jsonl` or
`arrivals` is left for the next read.
"""

from __future__ import annotations

import errno
import os
import shutil
import weakref
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from io import FileIO
from pathlib import Path
from typing import Any

from tui.errors import UsageError
from tui.pod.run import Run
from tui.runs.record.boot_clock import uptime
from tui.runs.record.damaged_record import RUN_FILE, unreadable_error
from tui.runs.record.event_log import (
    LONGEST_ARRIVAL_BYTES,
    Arrival,
    Event,
    event_line,
    parse_arrival,
    parse_events,
    to_bytes,
    utc_now,
    without_workers_parts,
)
from tui.runs.record.keeper_file import KEEPER_FILE, KeeperStatus, read_keeper_status
from tui.settings.home import distrust, make_private, open_regular, read_regular, replace_file
from tui.text.bounded_json import parse_json

EVENTS_FILE = "events.jsonl"
ARRIVALS_FILE = "arrivals"
KEEPER_LOG = "keeper.log"
_NEWEST_ARRIVALS_BYTES = 4096
"""Bytes read at once when `arrivals` is read backwards."""
_BLOCK_BYTES = 1024 * 1024
RESERVE_FILE = "reserve"
RESERVE_BYTES = 64 * 1024
"""Size of the file that is deleted to make room for events when the disk is full."""


def _to_lines(document: Mapping[str, Any]) -> bytes:
    """Return JSON with a line for each member and each element of its list, so that people can read the file."""

    def shown(value: Any) -> bytes:
        if not (isinstance(value, list) and value):
            return to_bytes(value)
        return b"[\n  " + b",\n  ".join(map(to_bytes, value)) + b"\n ]"

    return (
        b"{\n " + b",\n ".join(to_bytes(name) + b": " + shown(value) for name, value in document.items()) + b"\n}\n"
    )


class RunExistsError(UsageError):
    """The run's directory exists already."""


class ForeignRunError(UsageError):
    """A run's directory may be another person's work, so it is only read."""

    def __init__(self, path: Path, why: str, remedy: str) -> None:
        super().__init__(f"{path} is only read", why=why, remedy=remedy)


class RunDirectory:
    """One run's directory: `<home>/runs/<run-id>`, 0700, its files 0600.

    `foreign` says why a run is only read: it lies outside the home, or others can change it. Then its record is
    data: it names no machine to connect to, no host key to trust and no command to run.
    """

    def __init__(self, path: Path, run: Run, *, foreign: ForeignRunError | None = None) -> None:
        self.path = path
        self.run = run if foreign is None else _without_authority(run)
        self.foreign = foreign
        self.is_reported_full: bool | None = None
        """Whether the last note about the disk here says that it is full; None until the mirrors have looked."""

    @cached_property
    def _events(self) -> _AppendedLines:
        self.require_own()
        return _AppendedLines(self.path / EVENTS_FILE)

    @cached_property
    def _arrivals(self) -> _AppendedLines:
        self.require_own()
        return _AppendedLines(self.path / ARRIVALS_FILE, unfinished=b" unfinished")

    @property
    def id(self) -> str:
        """Return the run's id."""
        return self.run.id

    @property
    def was_deleted(self) -> bool:
        """Return whether the directory was deleted or renamed since it was opened."""
        return not self.path.exists()

    def require(self) -> None:
        """Raise UsageError if the directory is gone: it would look like a run that has not begun."""
        if self.was_deleted:
            remedy = f"tpu-tui attach {self.id} finds the run on its workers, where it may still be running"
            raise UsageError(f"the directory of {self.id} is gone", why=str(self.path), remedy=remedy)

    def require_own(self) -> None:
        """Raise ForeignRunError where the run is only read."""
        if self.foreign is not None:
            raise self.foreign

    @classmethod
    def create(cls, home_runs: Path, run: Run) -> RunDirectory:
        """Make the directory with run.json (secret values masked); to other processes it appears in one step.

        Raises RunExistsError when the run exists, and OSError where there is no room; nothing is left behind then.
        """
        path = home_runs / run.id
        make_private(home_runs)
        unnamed = cls(home_runs / f".new-{run.id}-{os.urandom(4).hex()}", run)
        unnamed.path.mkdir(mode=0o700)
        try:
            unnamed._write_record(run)
            unnamed.reserve_space()
            for name in (EVENTS_FILE, ARRIVALS_FILE):
                os.close(open_regular(unnamed.path / name, os.O_CREAT | os.O_WRONLY))
            unnamed.path.rename(path)
        except OSError:
            shutil.rmtree(unnamed.path, ignore_errors=True)
            if path.exists():
                raise RunExistsError(f"cannot make run {run.id}", why=f"{path} exists already") from None
            raise
        return cls(path, run.without_secrets())

    def update_run(self, run: Run) -> None:
        """Replace run.json, when more is known about the run, such as the hash of its code."""
        self.require_own()
        self.run = run.without_secrets()
        self._write_record(run)

    @classmethod
    def open(cls, path: Path) -> RunDirectory:
        """Open an existing run directory. Raises NoRecordError when it has no readable run.json."""
        try:
            run = Run.from_json(parse_json(read_regular(f"{path}/{RUN_FILE}")))
            doubts = (distrust(part, part.stat(), path.parent) for part in (path, path / RUN_FILE))
            doubt = next(filter(None, doubts), None)
        except (OSError, ValueError) as error:
            raise unreadable_error(path, error) from error
        return cls(path, run, foreign=ForeignRunError(path, *doubt) if doubt else None)

    def log_path(self, worker: int) -> Path:
        """Return the path of the mirror of a worker's log."""
        return self.path / f"worker-{worker:03d}.log"

    def log_size(self, worker: int) -> int:
        """Return the length in bytes of the mirror of a worker's log, 0 if there is none."""
        try:
            return self.log_path(worker).stat().st_size
        except OSError:
            return 0

    def attempt_path(self, attempt: int) -> Path:
        """Return the directory of an earlier attempt's logs (attempts count from 0)."""
        return self.path / "attempts" / str(attempt)

    def reserve_space(self) -> None:
        """Reserve a little space, so that the events can still record a full disk. Raises OSError."""
        with os.fdopen(open_regular(self.path / RESERVE_FILE, os.O_CREAT | os.O_WRONLY), "wb") as file:
            file.write(bytes(RESERVE_BYTES))

    def release_space(self) -> None:
        """Free the reserved space for the next writes."""
        with suppress(OSError):
            (self.path / RESERVE_FILE).unlink()

    # -- events ----------------------------------------------------------------------------------------------------

    def append_event(self, kind: str, *, worker: int | None = None, **fields: Any) -> Event:
        """Append one event with the time now. Several processes may append; each line is one write."""
        if kind == "state":
            fields.update(uptime())
        event = Event(utc_now(), kind, worker, fields)
        self._events.append(event_line(event))
        return event

    def append_phases(self, workers: Iterable[int], **fields: Any) -> None:
        """Append the same `phase` event for several workers, in one write."""
        now = utc_now()
        self._events.append(b"".join(event_line(Event(now, "phase", worker, fields)) for worker in workers))

    def events_size(self) -> int:
        """Return the size of the events in bytes; it grows with every event."""
        try:
            return (self.path / EVENTS_FILE).lstat().st_size
        except FileNotFoundError:
            return 0

    def events(self, offset: int = 0) -> tuple[list[Event], int]:
        """Return the events from a byte offset on, and the offset to continue from, before an unfinished line."""
        lines, end = _whole_lines(f"{self.path}/{EVENTS_FILE}", offset)
        return parse_events(lines), end

    def events_of_run(self) -> list[Event]:
        """Return the events that are not about a single worker's part: a small share of all."""
        return parse_events(without_workers_parts(_whole_lines(f"{self.path}/{EVENTS_FILE}", 0)[0]))

    # -- arrivals --------------------------------------------------------------------------------------------------

    def append_arrival(self, worker: int, end: int, when: float) -> None:
        """Note that a worker's mirror now ends at byte `end`; called after the bytes were written."""
        self._arrivals.append(b"%d %d %.6f\n" % (worker, end, when))

    def arrivals(self, offset: int = 0, size: int | None = None) -> tuple[list[Arrival], int]:
        """Return the arrivals in `size` bytes (by default all) from an offset on, and the offset to continue from."""
        lines, end = _whole_lines(f"{self.path}/{ARRIVALS_FILE}", offset, size)
        return [arrival for arrival in map(parse_arrival, lines) if arrival is not None], end

    def newest_arrivals(self) -> Iterator[Arrival]:
        """Yield the arrivals from the newest to the oldest; none if the file does not exist."""
        lines = _lines_backwards(f"{self.path}/{ARRIVALS_FILE}", LONGEST_ARRIVAL_BYTES)
        return (arrival for arrival in map(parse_arrival, lines) if arrival is not None)

    def last_arrival(self) -> float | None:
        """Return when the newest byte of any worker's log came (Unix time), None before there was one."""
        return next((arrival.time for arrival in self.newest_arrivals() if arrival.end), None)

    def archived_logs(self) -> Counter[int]:
        """Return how many logs of each worker were archived, by the arrivals with end 0, which begin the next log."""
        counts: Counter[int] = Counter()
        offset, has_more = 0, True
        while has_more:
            lines, end = _whole_lines(f"{self.path}/{ARRIVALS_FILE}", offset, _BLOCK_BYTES)
            arrivals = (parse_arrival(line) for line in lines if b" 0 " in line)
            counts.update(arrival.worker for arrival in arrivals if arrival is not None and not arrival.end)
            offset, has_more = end, end > offset
        return counts

    # -- keeper ----------------------------------------------------------------------------------------------------

    def keeper_status(self) -> KeeperStatus:
        """Return the state of the run's keeper."""
        return read_keeper_status(f"{self.path}/{KEEPER_FILE}")

    def _write_record(self, run: Run) -> None:
        with replace_file(self.path / RUN_FILE, durable=True) as file:
            file.write(_to_lines(run.to_json()))


def _without_authority(run: Run) -> Run:
    """Return the run without host keys, which vouch for machines, and without actions at its end."""
    workers = tuple(replace(worker, host_keys=()) for worker in run.workers)
    return replace(run, workers=workers, job=replace(run.job, on_end=()))


class _AppendedLines:
    """A file to which several processes append lines, each line in one write; kept open from the first line on."""

    def __init__(self, path: Path, *, unfinished: bytes = b"") -> None:
        """Set up; `unfinished` is appended to a torn line that could otherwise pass for a whole one."""
        self._path = path
        self._mark = unfinished + b"\n"
        self._whole = 0
        """Where the last line of this process ended."""

    def append(self, line: bytes) -> None:
        """Append a line; first end one that a killed writer left unfinished, so that only that one is lost."""
        descriptor = self._descriptor
        size = os.fstat(descriptor).st_size
        torn = size not in (0, self._whole) and os.pread(descriptor, 1, size - 1) != b"\n"
        data = self._mark + line if torn else line
        if os.write(descriptor, data) < len(data):
            raise OSError(errno.ENOSPC, "no room to append", str(self._path))
        self._whole = size + len(data)

    @cached_property
    def _descriptor(self) -> int:
        descriptor = open_regular(self._path, os.O_CREAT | os.O_APPEND | os.O_RDWR)
        weakref.finalize(self, os.close, descriptor)
        return descriptor


def _whole_lines(path: str, offset: int, size: int | None = None) -> tuple[list[bytes], int]:
    """Return the lines that end within `size` bytes from an offset on, and where the next one begins.

    A line longer than `size` is damaged: its bytes are skipped.
    """
    try:
        data = read_regular(path, offset, size)
    except FileNotFoundError:
        return [], offset
    end = data.rfind(b"\n") + 1
    if not end:
        return [], offset + (len(data) if len(data) == size else 0)
    return data[:end].split(b"\n")[:-1], offset + end


def _lines_backwards(path: str, longest: int) -> Iterator[bytes]:
    """Yield the whole lines of a file from the last to the first, those longer than `longest` bytes cut short."""
    try:
        file = FileIO(open_regular(path))
    except OSError:
        return
    with file:
        start, begun, is_last = file.seek(0, os.SEEK_END), b"", True
        while start:
            start, end = max(0, start - _NEWEST_ARRIVALS_BYTES), start
            file.seek(start)
            first, *others = (file.read(end - start) + begun).split(b"\n")
            if others:
                yield from reversed(others[:-1] if is_last else others)
                is_last = False
            begun = first[: longest + 1]
        if not is_last:
            yield begun


def iterate_log(path: Path) -> Iterator[bytes]:
    """Yield a mirror's bytes in blocks, up to its present end."""
    with FileIO(open_regular(path)) as handle:
        while data := handle.read(_BLOCK_BYTES):
            yield data
