"""Assemble the lines of a log from chunks, which can cut lines; carriage returns redraw lines of any length."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from tui.logs.core_row import UNKNOWN
from tui.logs.dialects.dialect import LONGEST_BYTES

Bytes = bytes | bytearray

_WORTH_SPLITTING_BYTES = 16_384
"""Of a larger chunk, only the first line is joined to the bytes held before it, not the whole chunk."""


class LogPiece(NamedTuple):
    """Bytes of a stream up to a line end: those of `data` from `start` to `end`."""

    data: Bytes
    start: int
    end: int
    offset: int
    """Where they begin in the stream's log."""
    begun_at: int | None = None
    """Where their first text begins if that is earlier: of a text that is too long, only the end is held."""


@dataclass(eq=False)
class LogStream:
    """A log that arrives in chunks: its bytes without a line end, and what its lines so far have shown."""

    slot: int | None
    """The slot of the worker whose log this is; None if the lines name their workers."""
    xla_dist: bool = False
    """Whether lines are known to carry xla_dist's prefix."""
    is_new: bool = True
    """Whether none of its lines has been read."""
    at_start: bool = True
    """Whether the next text begins a line; the prefix of a line also applies to what follows a carriage return."""
    line_slot: int | None = None
    line_moment: float | None = None
    is_carried: bool = False
    """Whether a launcher other than xla_dist has put labels before its lines."""
    labels: set[bytes] = field(default_factory=set)
    """Hosts and tasks that were seen before samples."""
    held: list[bytes] = field(default_factory=list)
    held_bytes: int = 0
    taken: int = 0
    """Bytes received since the source's log began."""
    held_at: int = 0
    """Where the held text begins; of a text that is too long, only the end is still held."""
    begun_at: int | None = None
    """Where the text that is read next begins, if only its end is read."""
    line_offset: int = UNKNOWN
    """Where the text that is being read begins, in bytes from the start of the source's log."""

    @property
    def known_slot(self) -> int | None:
        """Return the slot of the current line; None if neither the line nor the source names a worker."""
        return self.slot if self.line_slot is None else self.line_slot

    def end_line(self) -> None:
        """Forget the worker and the moment of the line that has ended."""
        self.at_start = True
        self.line_slot, self.line_moment = self.slot, None

    def begin_log(self) -> None:
        """Count offsets from 0 again, because another log of the source begins. No bytes may be held."""
        self.taken = self.held_at = 0

    def take(self, data: Bytes) -> list[LogPiece]:
        """Add a chunk and return all bytes up to the last line end, as pieces in order.

        The rest is held until the next chunk. A large chunk is not copied.
        """
        before = self.taken
        self.taken += len(data)
        cut = data.rfind(b"\n") + 1
        cut = max(cut, data.rfind(b"\r", cut) + 1)
        if not cut:
            self._hold(bytes(data), before)
            return []
        pieces: list[LogPiece] = []
        start = 0
        if self.held:
            start = cut if cut <= _WORTH_SPLITTING_BYTES else data.find(b"\n", 0, cut) + 1 or cut
            block = b"".join((*self.held, data[:start]))
            pieces.append(LogPiece(block, 0, len(block), *self._begin(before)))
            self.held, self.held_bytes = [], 0
        if start < cut:
            pieces.append(LogPiece(data, start, cut, before + start))
        if cut < len(data):
            self._hold(bytes(data[cut:]), before + cut)
        return pieces

    def rest(self) -> tuple[bytes, int]:
        """Return, once, the bytes held without a line end, and where they begin in the stream's log."""
        block = b"".join(self.held)
        offset, self.begun_at = self._begin(self.taken)
        self.held, self.held_bytes = [], 0
        return block, offset

    def begin_text(self, offset: int) -> None:
        """Note where the next text begins in the log: at `offset`, or earlier if only its end is read."""
        self.line_offset = offset if self.begun_at is None else self.begun_at
        self.begun_at = None

    def _begin(self, end: int) -> tuple[int, int | None]:
        """Return where the held bytes, which end at `end`, begin, and where their text begins if that is earlier."""
        offset = end - self.held_bytes
        return offset, None if self.held_at == offset else self.held_at

    def _hold(self, data: bytes, offset: int) -> None:
        if not self.held:
            self.held_at = offset
        self.held.append(data)
        self.held_bytes += len(data)
        if self.held_bytes > 4 * LONGEST_BYTES:
            # One byte more than is read, so that the line still counts as too long.
            tail = b"".join(self.held)[-LONGEST_BYTES - 1 :]
            self.held, self.held_bytes = [tail], len(tail)
