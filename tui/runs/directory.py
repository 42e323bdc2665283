"""The run directory: a run's record on this machine, and the only thing that consoles, commands and reports read.

Every file is append-only or replaced whole, so a reader never needs a lock: a torn last line of `events.jsonl` or
`arrivals` is left for the next look.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import socket
import time
import weakref
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timezone
from functools import cached_property
from io import FileIO
from pathlib import Path
from typing import Any

from tui.errors import UsageError
from tui.pod.run import Run
from tui.runs.unreadable import RUN_FILE, unreadable
from tui.runs.uptime import uptime

EVENTS_FILE = "events.jsonl"
ARRIVALS_FILE = "arrivals"
KEEPER_FILE = "keeper"
KEEPER_LOG = "keeper.log"
RESERVE_FILE = "reserve"
RESERVE = 64 * 1024
"""Bytes, and a file, held back for what is to be told when the disk here is full."""
HEARTBEAT = 5.0
"""Seconds between two touches of the keeper file."""
STALE_HEARTBEAT = 4 * HEARTBEAT
"""A keeper on another machine is taken for dead after this many seconds without a touch."""


@dataclass(frozen=True, slots=True)
class Event:
    """One line of events.jsonl: what changed, when (RFC 3339), on which worker; the rest by kind in `fields`."""

    time: str
    kind: str
    worker: int | None = None
    fields: Mapping[str, Any] = field(default_factory=dict)

    def get(self, name: str, default: Any = None) -> Any:
        """One of the event's own fields."""
        return self.fields.get(name, default)


@dataclass(frozen=True, slots=True)
class Arrival:
    """A batch of one worker's log was written: the mirror then ended at byte `end`, at Unix time `time` (seconds)."""

    worker: int
    end: int
    time: float


@dataclass(frozen=True, slots=True)
class Attendance:
    """Whether a keeper looks after the run; `since` is its last sign of life (Unix time), None if none ever was."""

    alive: bool
    since: float | None = None
    pid: int | None = None


def utc_now() -> str:
    """The time as RFC 3339 with microseconds, in UTC."""
    return datetime.now(timezone.utc).isoformat(timespec="microseconds")


_ENCODER = json.JSONEncoder(ensure_ascii=False)
"""Made once: `json.dumps` makes one at each call, which costs as much as an event's text."""


def to_bytes(document: Any) -> bytes:
    """JSON in UTF-8; what is not Unicode (an argument's stray byte) is escaped, so that it reads back exactly."""
    try:
        return _ENCODER.encode(document).encode()
    except UnicodeEncodeError:
        return json.dumps(document).encode()


def _to_lines(document: Mapping[str, Any]) -> bytes:
    """JSON as `to_bytes` makes it, a line for each member and for each element of a list: for people who look in."""

    def shown(value: Any) -> bytes:
        if not (isinstance(value, list) and value):
            return to_bytes(value)
        return b"[\n  " + b",\n  ".join(map(to_bytes, value)) + b"\n ]"

    return (
        b"{\n " + b",\n ".join(to_bytes(name) + b": " + shown(value) for name, value in document.items()) + b"\n}\n"
    )


class RunDirectory:
    """One run's directory: `<home>/runs/<run-id>`, 0700, its files 0600."""

    def __init__(self, path: Path, run: Run) -> None:
        self.path = path
        self.run = run

    @cached_property
    def _events(self) -> _Lines:
        return _Lines(self.path / EVENTS_FILE)

    @cached_property
    def _arrivals(self) -> _Lines:
        return _Lines(self.path / ARRIVALS_FILE, unfinished=b" unfinished")

    @property
    def id(self) -> str:
        """The run's id."""
        return self.run.id

    @property
    def is_gone(self) -> bool:
        """Whether somebody has deleted the directory meanwhile, or given it another name."""
        return not self.path.exists()

    def require(self) -> None:
        """Raise UsageError where it is gone: nothing would be read, as of a run that has not begun."""
        if self.is_gone:
            remedy = f"tpu-tui attach {self.id} finds the run on its workers, where it may go on"
            raise UsageError(f"the directory of {self.id} is gone", why=str(self.path), remedy=remedy)

    @classmethod
    def create(cls, home_runs: Path, run: Run) -> RunDirectory:
        """Make the directory and write run.json (secret values masked). Raises UsageError when the run exists.

        OSError, too, and nothing is left, where there is no room.
        """
        path = home_runs / run.id
        home_runs.mkdir(parents=True, exist_ok=True, mode=0o700)
        try:
            path.mkdir(mode=0o700)
        except FileExistsError:
            raise UsageError(f"cannot make run {run.id}", why=f"{path} exists already") from None
        directory = cls(path, run)
        try:
            directory._write_whole(RUN_FILE, _to_lines(run.to_json()))
            directory.hold_room()
            for name in (EVENTS_FILE, ARRIVALS_FILE):
                os.close(os.open(path / name, os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o600))
        except OSError:
            shutil.rmtree(path, ignore_errors=True)
            raise
        return directory

    def amend(self, run: Run) -> None:
        """Replace run.json, when more is known of the run (the hash of its code)."""
        self.run = run
        self._write_whole(RUN_FILE, _to_lines(run.to_json()))

    @classmethod
    def open(cls, path: Path) -> RunDirectory:
        """Open an existing run directory. Raises NoRecordError when it holds no readable run.json."""
        try:
            return cls(path, Run.from_json(json.loads(_read(f"{path}/{RUN_FILE}"))))
        except (OSError, ValueError, RecursionError) as error:
            raise unreadable(path, error) from error

    def log_path(self, worker: int) -> Path:
        """The mirror of that worker's log, byte for byte what the worker wrote so far."""
        return self.path / f"worker-{worker:03d}.log"

    def attempt_path(self, attempt: int) -> Path:
        """Where the logs of an earlier attempt are kept after a restart (attempts count from 0)."""
        return self.path / "attempts" / str(attempt)

    def hold_room(self) -> None:
        """Hold a little room back, so that a full disk can still be told in the run's events. Raises OSError."""
        descriptor = os.open(self.path / RESERVE_FILE, os.O_CREAT | os.O_WRONLY, 0o600)
        with os.fdopen(descriptor, "wb") as handle:
            handle.write(bytes(RESERVE))

    def spend_room(self) -> None:
        """Give what was held back to whatever is written next."""
        with suppress(OSError):
            (self.path / RESERVE_FILE).unlink()

    # -- events ----------------------------------------------------------------------------------------------------

    def append_event(self, kind: str, *, worker: int | None = None, **fields: Any) -> Event:
        """Append one event with the time now. Several processes may append; each line is one write."""
        if kind == "state":
            fields.update(uptime())
        event = Event(utc_now(), kind, worker, fields)
        self._events.append(_event_line(event))
        return event

    def append_events(self, kind: str, workers: Iterable[int], **fields: Any) -> None:
        """Append the same event of several workers, which came about at the same moment, in one write."""
        now = utc_now()
        self._events.append(b"".join(_event_line(Event(now, kind, worker, fields)) for worker in workers))

    def events_size(self) -> int:
        """Bytes of events there are: unchanged means that nothing happened."""
        try:
            return (self.path / EVENTS_FILE).stat().st_size
        except FileNotFoundError:
            return 0

    def events(self, offset: int = 0, *, passed_phases: bool = True) -> tuple[list[Event], int]:
        """The events from a byte offset on, and the offset to go on from; a line not yet whole is left for then.

        Without `passed_phases`, of a worker's phases up to the next change of state only the last is among them.
        """
        lines, end = _whole_lines(f"{self.path}/{EVENTS_FILE}", offset)
        return _parse_events(lines if passed_phases else _without_passed_phases(lines)), end

    def events_of_run(self) -> tuple[list[Event], int]:
        """The events that are not about a worker's own part, a few of many, and the offset to go on from."""
        lines, end = _whole_lines(f"{self.path}/{EVENTS_FILE}", 0)
        return _parse_events([line for line in lines if line[_KIND_AT:_WORD_END] not in _OF_WORKERS]), end

    def has_event(self, kind: str, offset: int = 0) -> tuple[bool, int]:
        """Whether a line from a byte offset on may be an event of that kind, and the offset to go on from.

        Much quicker than to read what happened, for whoever waits for one thing.
        """
        lines, end = _whole_lines(f"{self.path}/{EVENTS_FILE}", offset)
        named = to_bytes(kind)
        return any(named in line for line in lines), end

    # -- arrivals --------------------------------------------------------------------------------------------------

    def append_arrival(self, worker: int, end: int, when: float) -> None:
        """Note that a worker's mirror now ends at byte `end`; called after the bytes were written."""
        self._arrivals.append(b"%d %d %.6f\n" % (worker, end, when))

    def arrivals(self, offset: int = 0) -> tuple[list[Arrival], int]:
        """The arrivals from a byte offset on, and the offset to go on from."""
        lines, end = _whole_lines(f"{self.path}/{ARRIVALS_FILE}", offset)
        return [arrival for arrival in map(_parse_arrival, lines) if arrival is not None], end

    # -- keeper ----------------------------------------------------------------------------------------------------

    def attended(self) -> Attendance:
        """Whether a keeper lives: by its lock on this machine, by its heartbeat on another one."""
        try:
            descriptor = os.open(f"{self.path}/{KEEPER_FILE}", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return Attendance(False)
        try:
            words = os.read(descriptor, 1024).decode("utf-8", "replace").split()
            beat = os.fstat(descriptor).st_mtime
            locked = _is_locked(descriptor)
        except OSError:
            return Attendance(False)
        finally:
            os.close(descriptor)
        pid = int(words[0]) if words and words[0].isdigit() else None
        elsewhere = len(words) > 2 and words[2] != socket.gethostname()
        alive = locked or (elsewhere and time.time() - beat < STALE_HEARTBEAT)
        return Attendance(alive, beat if words else None, pid)

    def _write_whole(self, name: str, data: bytes) -> None:
        """Replace a file atomically and durably, 0600."""
        temporary = self.path / f".{name}.new"
        descriptor = os.open(temporary, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600)
        with os.fdopen(descriptor, "wb") as handle:
            handle.write(data)
            handle.flush()
            os.fsync(handle.fileno())
        temporary.replace(self.path / name)


class _Lines:
    """A file of lines that several processes append to, each in one write; kept open from the first one on."""

    def __init__(self, path: Path, *, unfinished: bytes = b"") -> None:
        """`unfinished` marks a line that was cut off, where what is left of it could be taken for a whole one."""
        self._path = path
        self._mark = unfinished + b"\n"
        self._descriptor: int | None = None
        self._whole = 0
        """Where a line of ours ended."""

    def append(self, line: bytes) -> None:
        """Append; a line that a killed writer left unfinished is ended first, so it spoils only itself."""
        descriptor = self._open()
        size = os.fstat(descriptor).st_size
        torn = size not in (0, self._whole) and os.pread(descriptor, 1, size - 1) != b"\n"
        data = self._mark + line if torn else line
        if os.write(descriptor, data) < len(data):
            raise OSError(28, "no room to append", str(self._path))
        self._whole = size + len(data)

    def _open(self) -> int:
        if self._descriptor is None:
            self._descriptor = os.open(self._path, os.O_CREAT | os.O_APPEND | os.O_RDWR, 0o600)
            weakref.finalize(self, os.close, self._descriptor)
        return self._descriptor


def _read(path: str, offset: int = 0) -> bytes:
    """A file's bytes from an offset on. Unbuffered: making buffers takes longer than to read a small file."""
    with FileIO(path) as handle:
        handle.seek(offset)
        return handle.readall()


def _whole_lines(path: str, offset: int) -> tuple[list[bytes], int]:
    try:
        data = _read(path, offset)
    except FileNotFoundError:
        return [], offset
    end = data.rfind(b"\n") + 1
    return data[:end].split(b"\n")[:-1] if end else [], offset + end


def _event_line(event: Event) -> bytes:
    return to_bytes({"time": event.time, "event": event.kind, "worker": event.worker, **event.fields}) + b"\n"


_PHASE, _STATE = b'", "event": "phase", "worker": ', b'", "event": "state", '
_KIND_AT = len('{"time": "') + len(utc_now())
_WORKER_AT = _KIND_AT + len(_PHASE)
_OF_WORKERS = frozenset(b'", "event": "%b' % kind for kind in (b"phase", b'exit"', b'link"', b'stop"'))
_WORD_END = _KIND_AT + len(b'", "event": "phase')
_WORKER_WIDTH = len('1234, "')
_BRACE = ord("}")


def _without_passed_phases(lines: list[bytes]) -> list[bytes]:
    """The lines without those phases of a worker that another one follows before the next change of state.

    They are most of all lines, and to find all that are passed takes less time than to parse one of them.
    """
    kept: list[bytes] = []
    last: dict[bytes, bytes] = {}
    for line in lines:
        if line[_KIND_AT:_WORKER_AT] == _PHASE and line[-1] == _BRACE:
            last[line[_WORKER_AT : _WORKER_AT + _WORKER_WIDTH]] = line
            continue
        if _STATE in line:
            kept += last.values()
            last.clear()
        kept.append(line)
    return kept + list(last.values())


def _parse_events(lines: list[bytes]) -> list[Event]:
    """The events of whole lines, all parsed at once where each is one document; others are left out."""
    try:
        documents = json.loads(b"[" + b",".join(lines) + b"]")
    except ValueError:
        documents = []
    if len(documents) != len(lines):
        documents = [document for line in lines for document in _documents(line)]
    return [event for event in map(_event_of, documents) if event is not None]


def _documents(line: bytes) -> list[Any]:
    with suppress(ValueError):
        return [json.loads(line)]
    return []


def _event_of(document: Any) -> Event | None:
    try:
        moment, kind, worker = document.pop("time"), document.pop("event"), document.pop("worker", None)
        return Event(str(moment), str(kind), worker if isinstance(worker, int) else None, document)
    except (AttributeError, TypeError, KeyError):
        return None


def _parse_arrival(line: bytes) -> Arrival | None:
    with suppress(ValueError):
        worker, end, moment = line.split()
        return Arrival(int(worker), int(end), float(moment))
    return None


def _is_locked(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    fcntl.flock(descriptor, fcntl.LOCK_UN)
    return False


def iterate_log(path: Path, offset: int = 0, block: int = 1 << 20) -> Iterator[bytes]:
    """A mirror's bytes from an offset to its present end, in blocks (1 MiB)."""
    with path.open("rb") as handle:
        handle.seek(offset)
        while data := handle.read(block):
            yield data
