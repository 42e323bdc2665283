"""Bytes into lines: partial ones at chunk ends, progress redrawn with carriage returns, lines of any length."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

LONGEST = 65_536
"""Of a longer line only the last so many bytes are looked at: memory stays bounded, whatever a job prints."""


MOST_PREFIXES = 8192
"""Different prefixes (address and number) remembered of one stream."""


class Known:
    """The prefixes a stream has shown, by a hash, for looking up many at once."""

    def __init__(self) -> None:
        self.hashes: npt.NDArray[np.uint64] = np.zeros(0, np.uint64)
        self.tails: npt.NDArray[np.uint64] = np.zeros((0, 3), np.uint64)
        self.slots: npt.NDArray[np.int64] = np.zeros(0, np.int64)

    @property
    def is_full(self) -> bool:
        """Whether no further prefix is remembered."""
        return len(self.hashes) >= MOST_PREFIXES

    def add(self, key: int, tail: npt.NDArray[np.uint64], slot: int) -> None:
        """Remember a prefix and the slot of its worker (-1: it is no prefix)."""
        place = int(np.searchsorted(self.hashes, np.uint64(key)))
        if self.is_full or (place < len(self.hashes) and self.hashes[place] == key):
            return
        self.hashes = np.insert(self.hashes, place, np.uint64(key))
        self.tails = np.insert(self.tails, place, tail, axis=0)
        self.slots = np.insert(self.slots, place, slot)


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
    known: Known = field(default_factory=Known)
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
