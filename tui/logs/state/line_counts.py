"""Count the lines and samples of each source, gathered as columns until they are needed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tui.logs._compat_numpy import Floats, Ints, np
from tui.logs.log_time import LOG_TIME, NO_TIME, WALL_TIME

_NAN = float("nan")


@dataclass(eq=False)
class LogSource:
    """A worker as the log names it, by number, address or both, with its lines and samples."""

    number: int | None
    address: str | None
    lines: int = 0
    samples: int = 0
    last_seen: float = _NAN
    last_kind: int = NO_TIME
    ended: bool = False

    def count(self, lines: int, samples: int, seen: float, is_wall: bool) -> None:
        """Count lines and samples of this worker, the newest of which came at `seen` (NaN: unknown)."""
        self.lines += lines
        self.samples += samples
        if seen == seen and not seen <= self.last_seen:
            self.last_seen = seen
            self.last_kind = WALL_TIME if is_wall else LOG_TIME


class LineCounts:
    """Lines, samples and newest time of each slot, gathered until they are needed."""

    def __init__(self) -> None:
        self._lines: Ints = np.zeros(0, np.int64)
        self._samples: Ints = np.zeros(0, np.int64)
        self._newest: Floats = np.zeros(0)
        self._is_wall = np.zeros(0, np.bool_)

    def add(self, slots: Ints, seen: Floats, *, is_wall: bool, are_samples: bool = False) -> None:
        """Count lines, given the slot of each and the time `seen` at which it came (NaN unknown)."""
        counts = np.bincount(slots)
        if len(counts) > len(self._lines):
            more = 2 * len(counts) - len(self._lines)
            self._lines = np.concatenate((self._lines, np.zeros(more, np.int64)))
            self._samples = np.concatenate((self._samples, np.zeros(more, np.int64)))
            self._newest = np.concatenate((self._newest, np.full(more, np.nan)))
            self._is_wall = np.concatenate((self._is_wall, np.zeros(more, np.bool_)))
        self._lines[: len(counts)] += counts
        if are_samples:
            self._samples[: len(counts)] += counts
        newest = _newest_of(slots, seen, counts)
        is_newer = (newest == newest) & ~(newest <= self._newest[: len(counts)])
        self._newest[: len(counts)][is_newer] = newest[is_newer]
        self._is_wall[: len(counts)][is_newer] = is_wall

    def settle(self, sources: Sequence[LogSource]) -> None:
        """Add what was counted to the sources, by slot, and begin again."""
        for slot in np.flatnonzero(self._lines).tolist():
            newest, is_wall = float(self._newest[slot]), bool(self._is_wall[slot])
            sources[slot].count(int(self._lines[slot]), int(self._samples[slot]), newest, is_wall)
        self._lines[:], self._samples[:], self._newest[:] = 0, 0, np.nan


def _newest_of(slots: Ints, seen: Floats, slot_counts: Ints) -> Floats:
    """Return the newest time of each slot (NaN for none), given the number of its lines."""
    newest = np.full(len(slot_counts), np.nan)
    if (seen == seen[:1]).all():
        newest[slot_counts > 0] = seen[:1]
    elif (seen[1:] >= seen[:-1]).all():
        # Of several values for one index, numpy keeps the last.
        newest[slots] = seen
    else:
        np.fmax.at(newest, slots, seen)
    return newest
