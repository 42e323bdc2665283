"""Whole lines of any number of streams, gathered in one buffer to be read together."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass

from tui.logs.files.log_stream import Bytes, LogStream

BLOCK_BYTES = 2 * 1024 * 1024
"""Bytes read together: enough to amortise numpy's cost per call, but few enough to stay in the CPU's caches."""

PAD_BYTES = 192
"""Blank bytes before and after a block, so that gathering around a line never leaves it; no plain line is longer."""


@dataclass(slots=True)
class Part:
    """Whole lines of one stream within a block: where they begin and end in it, and when they arrived."""

    stream: LogStream
    start: int
    end: int
    now: float | None
    offset: int
    """Where they begin in the stream's log, in bytes."""

    def offset_of(self, place: int) -> int:
        """Return the offset in the stream's log of a position in the block."""
        return self.offset + place - self.start


class BlockBuffer:
    """The bytes of a block and its parts. The memory is reused for the next block."""

    def __init__(self) -> None:
        self.room = BLOCK_BYTES
        self.view = memoryview(bytearray(self.room + 2 * PAD_BYTES))
        """The block between blank bytes."""
        self.size = 0
        self.parts: list[Part] = []

    def add(self, stream: LogStream, data: Bytes, start: int, end: int, now: float | None, offset: int) -> None:
        """Append a copy of whole lines, which begin at `offset` in the stream's log."""
        at, after = PAD_BYTES + self.size, self.size + end - start
        self.view[at : at + end - start] = memoryview(data)[start:end]
        last = self.parts[-1] if self.parts else None
        if last and last.stream is stream and last.now == now and last.offset_of(self.size) == offset:
            last.end = after
        else:
            self.parts.append(Part(stream, self.size, after, now, offset))
        self.size = after

    def text(self, start: int, end: int) -> bytes:
        """Return the bytes between two positions of the block."""
        return self.view[PAD_BYTES + start : PAD_BYTES + end].tobytes()

    def part_at(self, place: int) -> Part:
        """Return the part that a position of the block is in."""
        return self.parts[bisect_right(self.parts, place, key=lambda part: part.end)]

    def clear(self) -> None:
        """Begin a new block."""
        self.size, self.parts = 0, []
