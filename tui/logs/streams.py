"""Bytes into lines: partial ones at chunk ends, progress redrawn with carriage returns, lines of any length."""

from __future__ import annotations

from dataclasses import dataclass, field

LONGEST = 65_536
"""Of a longer line only the last so many bytes are looked at: memory stays bounded, whatever a job prints."""


@dataclass(eq=False)
class Stream:
    """One source of bytes and what is remembered between its chunks."""

    slot: int | None
    """The worker's slot where the source is one worker's log; None where lines tell it themselves."""
    xla_dist: bool = False
    """Whether lines are known to carry xla_dist's prefix."""
    at_start: bool = True
    """Whether the next text begins a line; after a carriage return the line's prefix still holds."""
    line_slot: int | None = None
    line_moment: float | None = None
    held: list[bytes] = field(default_factory=list)
    held_bytes: int = 0

    def take(self, data: bytes) -> bytes:
        """Add a chunk; everything up to the last line end that has come, the rest is held for the next chunk."""
        cut = max(data.rfind(b"\n"), data.rfind(b"\r")) + 1
        if not cut:
            self._hold(data)
            return b""
        block = b"".join((*self.held, data[:cut])) if self.held else data[:cut]
        self.held, self.held_bytes = [], 0
        if cut < len(data):
            self._hold(data[cut:])
        return block

    def rest(self) -> bytes:
        """What is held without a line end, handed out once."""
        block = b"".join(self.held)
        self.held, self.held_bytes = [], 0
        return block

    def _hold(self, data: bytes) -> None:
        self.held.append(data)
        self.held_bytes += len(data)
        if self.held_bytes > 4 * LONGEST:
            # One byte more than is looked at, so that the line still counts as too long.
            tail = b"".join(self.held)[-LONGEST - 1 :]
            self.held, self.held_bytes = [tail], len(tail)
