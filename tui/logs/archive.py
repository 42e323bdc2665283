"""Saved logs of any size, `.gz` ones too: read in blocks, in memory that does not grow with the file."""

from __future__ import annotations

import gzip
import io
import zlib
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tui.errors import UsageError
from tui.logs.carriers import read_carrier
from tui.logs.lines import Cutter, names_core, without_escapes
from tui.logs.prefix import NUMBERED_SAMPLE, PREFIX, read_prefix

if TYPE_CHECKING:
    from tui.logs.demux import Demux
    from tui.logs.dialects import Dialect
    from tui.logs.snapshot import Snapshot

BLOCK = 1024 * 1024
"""Bytes read at once."""

HEAD = 64 * 1024
"""Bytes of the beginning that are looked at to see what the file is."""

_GZIP_MAGIC = b"\x1f\x8b"
_MAGICS = {
    b"\x28\xb5\x2f\xfd": ("compressed with zstd", "unpack it first: zstd -d FILE"),
    b"PK\x03\x04": ("a zip archive", "unpack it first"),
    b"\x7fELF": ("a program", ""),
    b"\x89PNG": ("a picture", ""),
    b"%PDF": ("a PDF document", ""),
    b"BZh": ("compressed with bzip2", "unpack it first: bunzip2 FILE"),
    b"\xfd7zXZ\x00": ("compressed with xz", "unpack it first: unxz FILE"),
}
_MOST_STRANGE = 0.3
"""Share of bytes that no text has (controls, invalid UTF-8), above which a file's beginning is taken for binary."""

_TEXT_CONTROLS = frozenset(b"\t\n\r\x0b\x0c\x1b\x08\x07")


@dataclass(frozen=True, slots=True)
class SavedLine:
    """One line of a saved log: the worker its prefix names, where it begins (bytes, unpacked), its own time."""

    worker: int | None
    offset: int
    time: float | None
    data: bytes

    @property
    def text(self) -> str:
        """The line as text, invalid UTF-8 replaced; not made safe for a terminal."""
        return self.data.decode("utf-8", "replace")

    def to_json(self) -> dict[str, Any]:
        """The line as `logs --json` prints it."""
        from tui.logs.snapshot import LOG_TIME, format_time

        moment = None if self.time is None else format_time(self.time, LOG_TIME)
        return {"worker": self.worker, "offset": self.offset, "time": moment, "text": self.text}


_Numbers = dict[tuple[int | None, str | None], int]


class SavedLog:
    """A log file that one or more workers wrote into, such as xla_dist's output kept with `tee`."""

    def __init__(
        self,
        path: Path,
        *,
        compressed: bool,
        xla_dist: bool,
        carried: bool = False,
        dialects: Sequence[Dialect] = (),
    ) -> None:
        self.path = path
        self.compressed = compressed
        self.xla_dist = xla_dist
        """Whether its beginning shows xla_dist's prefix."""
        self._carried = carried
        self._own_dialects = tuple(dialects)

    @property
    def dialects(self) -> tuple[Dialect, ...]:
        """A user's own, then the built-in ones."""
        from tui.logs.dialects import BUILT_IN

        return (*self._own_dialects, *BUILT_IN)

    def blocks(self, size: int = BLOCK) -> Iterator[bytes]:
        """The file's bytes, unpacked, in blocks. Raises UsageError when it cannot be read to its end."""
        with self._opened() as file:
            while data := file.read(size):
                yield data

    @contextmanager
    def _opened(self) -> Iterator[gzip.GzipFile | io.FileIO]:
        with _told(self.path):
            if self.compressed:
                with gzip.open(self.path) as packed:
                    yield packed
            else:
                with self.path.open("rb", buffering=0) as plain:
                    yield plain

    def demux(self, *, history: bool = True) -> Demux:
        """A demultiplexer that has taken in the whole file."""
        from tui.logs.demux import Demux

        demux = Demux(dialects=self.dialects, xla_dist=self.xla_dist, history=history)
        buffer = bytearray(BLOCK)
        with self._opened() as file:
            # One buffer for all blocks: fresh memory for each would cost as much as reading it.
            while size := file.readinto(buffer):
                if size < len(buffer):
                    del buffer[size:]
                demux.feed(None, buffer)
                if size < BLOCK:
                    buffer = bytearray(BLOCK)
        demux.finish()
        return demux

    def snapshot(self, *, history: bool = True) -> Snapshot:
        """The newest state of every core in the file."""
        return self.demux(history=history).snapshot()

    def core_rows(
        self, *, by: str = "core", reverse: bool = False, cache: Path | None = None
    ) -> list[dict[str, Any]]:
        """A row for every core as `cores --json` prints them, sorted as `Snapshot.sorted` does.

        With a directory as `cache`, what the log came to is kept there until the log changes.
        """
        from tui.logs.kept import Summaries, sort_rows

        reading = [f"{dialect.name} {dialect.source!r}" for dialect in self._own_dialects]
        rows = None if cache is None else Summaries(cache).load(self.path, reading)
        if rows is None:
            with _told(self.path):
                before = self.path.stat()
            rows = [row.to_json() for row in self.snapshot(history=False).rows()]
            if cache is not None:
                Summaries(cache).save(self.path, before, rows, reading)
        return sort_rows(rows, by, reverse)

    def lines(
        self, *, worker: int | None = None, core: int | None = None, tail: int | None = None
    ) -> Iterable[SavedLine]:
        """Lines in the file's order: all, one worker's, one core's; `tail` keeps the last so many.

        Lines without a prefix (a program's redrawn progress) belong to no worker and come with the merged ones only.
        """
        chosen = self._lines(worker, core)
        return chosen if tail is None else deque(chosen, maxlen=tail)

    def _lines(self, worker: int | None, core: int | None) -> Iterator[SavedLine]:
        numbers, labels = self._numbers()
        cutter = Cutter()
        for data in self.blocks():
            yield from self._chosen(cutter.cut(data), numbers, labels, worker, core)
        yield from self._chosen(cutter.rest(), numbers, labels, worker, core)

    def _chosen(
        self,
        lines: Iterable[tuple[int, bytes]],
        numbers: _Numbers,
        labels: frozenset[bytes],
        worker: int | None,
        core: int | None,
    ) -> Iterator[SavedLine]:
        for offset, line in lines:
            prefix = read_prefix(line, self.xla_dist)
            number = None
            if prefix is not None and not prefix.own:
                number = numbers.get((prefix.number, prefix.address), prefix.number)
            elif prefix is None and self._carried:
                carrier = read_carrier(without_escapes(line), labels)
                if carrier is not None:
                    number = numbers.get((carrier.number, carrier.address), carrier.number)
            if (worker is None or number == worker) and (core is None or names_core(line, core)):
                yield SavedLine(number, offset, None if prefix is None else prefix.moment, line)

    def _numbers(self) -> tuple[_Numbers, frozenset[bytes]]:
        """The worker of each (number, address) that lines name, and the labels that are hosts or tasks."""
        if not (self.xla_dist or self._carried):
            return {}, frozenset()
        from tui.logs.demux import Demux
        from tui.logs.snapshot import UNKNOWN
        from tui.logs.view import worker_numbers

        demux = Demux(dialects=(), xla_dist=self.xla_dist, history=False)
        for data in self.blocks():
            demux.feed(None, data)
        demux.finish()
        numbers = worker_numbers(demux).tolist()
        known = {(s.number, s.address): n for s, n in zip(demux.slots, numbers, strict=True) if n != UNKNOWN}
        return known, demux.labels()


def open_log(path: Path | str, *, dialects: Sequence[Dialect] = ()) -> SavedLog:
    """Open a saved log. Raises UsageError for a directory, an empty, binary, unreadable or missing file."""
    path = Path(path)
    with _told(path):
        if path.is_dir():
            raise UsageError(f"{path} is a directory", remedy="name a log file, or a run by its id")
        with path.open("rb") as file:
            head = file.read(HEAD)
        compressed = head.startswith(_GZIP_MAGIC)
        if compressed:
            with gzip.open(path) as file:
                head = file.read(HEAD)
    if not head:
        raise UsageError(f"{path} is empty", remedy="a log with at least one line is needed")
    _refuse_binary(path, head)
    carried = any(read_carrier(line) is not None for line in without_escapes(head).split(b"\n"))
    return SavedLog(path, compressed=compressed, xla_dist=_is_xla_dist(head), carried=carried, dialects=dialects)


def _refuse_binary(path: Path, head: bytes) -> None:
    for magic, (what, remedy) in _MAGICS.items():
        if head.startswith(magic):
            raise UsageError(f"{path} is not a log", why=f"it is {what}", remedy=remedy)
    strange = sum(1 for byte in head if byte < 0x20 and byte not in _TEXT_CONTROLS)
    strange += head.decode("utf-8", "replace").count("\ufffd")
    if strange > _MOST_STRANGE * len(head) and b"Device=xla:" not in head:
        raise UsageError(f"{path} is not a log", why="it is a binary file")


def _is_xla_dist(head: bytes) -> bool:
    """Whether any line of the file's beginning carries xla_dist's prefix."""
    for line in head.split(b"\n"):
        match = PREFIX.match(line)
        if (match is not None and (match["own"] is None or match["moment"])) or NUMBERED_SAMPLE.match(line):
            return True
    return False


@contextmanager
def _told(path: Path) -> Iterator[None]:
    """Errors of the system and of the unpacker as sentences."""
    try:
        yield
    except FileNotFoundError as error:
        raise UsageError(f"no such log: {path}", remedy="name a run (see `tpu-tui runs`) or a file") from error
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise UsageError(f"cannot read {path} to its end", why=f"its compressed data is broken: {error}") from error
    except OSError as error:
        raise UsageError(f"cannot read {path}", why=error.strerror or str(error)) from error
