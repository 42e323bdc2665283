"""Select lines of a log of any size: those of a worker, of a core, since a time, or the last ones."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import IO, NamedTuple

from tui.logs.attribution.line_owner import LineOwner
from tui.logs.files.lines import LONGEST_LINE_BYTES, names_core

BLOCK_BYTES = 1024 * 1024
"""Bytes read at once."""

_MOST_DIGITS = 5
"""Most digits of the number in a prefix, leading zeros included."""


@dataclass(frozen=True, slots=True)
class Choice:
    """Which lines are wanted; None: any."""

    worker: int | None = None
    core: int | None = None
    since: float | None = None
    """A date and time of the log, in seconds as if UTC; a line without a date counts as old as the one before.

    In an export of Cloud Logging, lines have the time of their entry, and lines without one are unwanted.
    """

    @property
    def is_everything(self) -> bool:
        """Return whether every line is wanted."""
        return self == Choice()


class Picked(NamedTuple):
    """A wanted line, or a piece of one that is too long to be held: its offset, and its bytes with the line end."""

    offset: int
    data: bytes
    worker: int | None
    time: float | None


class Picker:
    """Selects lines; for one worker or core it reads only lines that contain its name."""

    def __init__(self, owners: LineOwner, choice: Choice) -> None:
        self._owners = owners
        self._reader = owners.reader()
        self._choice = choice
        self._required = self._required_texts()
        self._is_since: dict[int | None, bool] = {}
        """Whether the last line with a date is wanted, by worker; under None, whether the last of the log is."""

    def _required_texts(self) -> list[bytes] | None:
        """Return texts, one of which is in every wanted line; None if no such texts are known."""
        choice, owners = self._choice, self._owners
        if owners.is_by_place or choice.since is not None:
            return None
        if choice.worker is not None and not owners.carried:
            pairs = [pair for pair, worker in owners.numbers.items() if worker == choice.worker]
            names = [f"{address} [".encode() for _, address in pairs if address is not None]
            bare = {number for number, address in pairs if address is None and number is not None}
            return names + [f"[{number:0{size}}] ".encode() for number in bare for size in range(1, _MOST_DIGITS + 1)]
        if choice.core is not None:
            return [f"/{choice.core}".encode(), f"[xla:{choice.core}]".encode()]
        return None

    def picked(self, data: bytes, offset: int) -> Iterator[Picked]:
        """Yield the wanted lines of `data`, which holds whole lines and begins at `offset` in the log."""
        for start, end in _lines_of(data) if self._required is None else _lines_with(data, self._required):
            line = data[start:end]
            origin = self.read(line)
            if origin is not None:
                yield Picked(offset + start, line, *origin)

    def read(self, line: bytes) -> tuple[int | None, float | None] | None:
        """Return worker and time of a line, with or without its line end; None if the line is not wanted."""
        choice = self._choice
        # Unwanted lines are read too where the worker or the date of later lines depends on them.
        origin = self._worker_and_time(line) if self._owners.is_by_place or choice.since is not None else None
        if choice.core is not None and not names_core(line, choice.core):
            return None
        worker, moment, is_since = origin or self._worker_and_time(line)
        if not is_since or (choice.worker is not None and worker != choice.worker):
            return None
        return worker, moment

    def _worker_and_time(self, line: bytes) -> tuple[int | None, float | None, bool]:
        """Return worker and time of a line, and whether it is new enough."""
        worker, moment = self._reader.read(line.removesuffix(b"\n"))
        since = self._choice.since
        return worker, moment, since is None or self._was_since(since, worker, moment)

    def _was_since(self, since: float, worker: int | None, moment: float | None) -> bool:
        """Return whether a line is new enough; one without a date, as in a traceback, is as new as the one before."""
        if moment is not None:
            self._is_since[worker] = self._is_since[None] = moment >= since
        elif self._owners.entries:
            return False
        return self._is_since.get(worker, self._is_since.get(None, False))


def _lines_of(data: bytes) -> Iterator[tuple[int, int]]:
    start = 0
    while start < len(data):
        end = data.find(b"\n", start) + 1 or len(data)
        yield start, end
        start = end


def _lines_with(data: bytes, names: list[bytes]) -> list[tuple[int, int]]:
    ends: dict[int, int] = {}
    for name in dict.fromkeys(names):
        index = data.find(name)
        while index >= 0:
            end = data.find(b"\n", index) + 1 or len(data)
            ends[data.rfind(b"\n", 0, index) + 1] = end
            index = data.find(name, end)
    return sorted(ends.items())


class Stretch(NamedTuple):
    """Whole lines of a log, or a piece of a line that is too long, which may begin or end in another stretch."""

    offset: int
    data: bytes
    begins: bool = True
    ends: bool = True


def forwards(blocks: Iterable[bytes], offset: int = 0) -> Iterator[Stretch]:
    """Yield lines from their blocks, which begin `offset` bytes into the log, in stretches of about a block."""
    held = b""
    begins = True
    for block in blocks:
        cut = block.rfind(b"\n") + 1
        if not cut and len(held) + len(block) <= LONGEST_LINE_BYTES:
            held += block
            continue
        if not cut or not begins:
            cut = block.find(b"\n") + 1
            piece, block = held + (block[:cut] or block), block[cut:] if cut else b""
            yield Stretch(offset, piece, begins, bool(cut))
            offset, held, begins = offset + len(piece), b"", bool(cut)
            cut = block.rfind(b"\n") + 1
        if cut:
            yield Stretch(offset, held + block[:cut])
            offset, held = offset + len(held) + cut, b""
        held += block[cut:]
    if held or not begins:
        yield Stretch(offset, held, begins)


def backwards(file: int, size: int) -> Iterator[Stretch]:
    """Yield the lines of an open file's first `size` bytes in stretches of whole lines, the last stretch first.

    A line that is too long comes in pieces, the last piece first.
    """
    end = size
    held: list[bytes] = []
    ends = True
    while end > 0:
        start = max(0, end - BLOCK_BYTES)
        block = os.pread(file, end - start, start)
        if len(block) < end - start:
            # The file was truncated while it was read: everything after this block is gone.
            held, ends = [], True
        end = start
        cut = 0 if start == 0 else block.find(b"\n") + 1
        if start == 0 or cut:
            begin = block.rfind(b"\n") + 1
            if not ends:
                yield Stretch(start + begin, b"".join((block[begin:], *held)), ends=False)
                block, held = block[:begin], []
            if len(block) > cut or held:
                yield Stretch(start + cut, b"".join((block[cut:], *held)))
            held, ends = [block[:cut]], True
        else:
            held.insert(0, block)
            if sum(map(len, held)) > LONGEST_LINE_BYTES:
                yield Stretch(start, b"".join(held), begins=False, ends=ends)
                held, ends = [], False


def pick(stretches: Iterable[Stretch], picker: Picker) -> Iterator[Picked]:
    """Yield the wanted lines in the order of the stretches; a line that is too long comes in pieces."""
    origin: tuple[int | None, float | None] | None = None
    for stretch in stretches:
        if stretch.begins and stretch.ends:
            yield from picker.picked(stretch.data, stretch.offset)
            continue
        if stretch.begins:
            origin = picker.read(stretch.data)
        if origin is not None:
            yield Picked(stretch.offset, stretch.data, *origin)


def last(lines: Iterable[Picked], count: int) -> list[Picked]:
    """Return the last `count` of some lines; the pieces of a line count as one."""
    newest: deque[list[Picked]] = deque(maxlen=count)
    line_ended = True
    for line in lines:
        if line_ended or not newest:
            newest.append([])
        if newest:
            newest[-1].append(line)
        line_ended = line.data.endswith(b"\n")
    return [line for pieces in newest for line in pieces]


def last_in_file(file: IO[bytes], picker: Picker, count: int) -> tuple[int, Iterator[Picked]]:
    """Find the last `count` wanted lines of an open file, searching from its end; return their number and the lines.

    The file is read no further back than needed. The lines are read a second time, so that none is held in memory.
    """
    size = os.fstat(file.fileno()).st_size
    start, missing = size, count
    for stretch in backwards(file.fileno(), size) if count else ():
        if stretch.begins and stretch.ends:
            offsets = [line.offset for line in picker.picked(stretch.data, stretch.offset)][-missing:]
        else:
            offsets = [stretch.offset] if stretch.begins and picker.read(stretch.data) is not None else []
        if offsets:
            start = offsets[0]
            missing -= len(offsets)
        if not missing:
            break
    return count - missing, pick(forwards(_blocks_between(file, start, size), start), picker)


def _blocks_between(file: IO[bytes], start: int, end: int) -> Iterator[bytes]:
    while start < end and (block := os.pread(file.fileno(), min(BLOCK_BYTES, end - start), start)):
        start += len(block)
        yield block
