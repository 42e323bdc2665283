"""The newest rates of every core, to compare those of the same moments with each other."""

from __future__ import annotations

from typing import Any

from tui.logs._compat_numpy import np, npt, places_of
from tui.logs.history.grouping import RowGroups
from tui.logs.state.samples import Ints, Samples, UnparsedSamples, rates_from

MOST_DEPTH = 256
"""Rates of each row that are kept at most, whatever a profile asks for."""

_MOST_PENDING = 131_072
"""Rates that wait at most to be put in place: in a saved log of few cores later ones supersede most of them.

They are copied to memory of their own, so that the arrays of their batch are freed and numpy reuses those.
"""

Rates = npt.NDArray[np.float32]


class RecentRates:
    """The last `depth` rates of each row, however its samples were cut into batches."""

    def __init__(self, depth: int) -> None:
        self.depth = max(1, min(depth, MOST_DEPTH))
        self._counts: Ints = np.zeros(0, np.int64)
        self._rates: Rates = np.zeros((0, self.depth), np.float32)
        """A ring for each row, as long as `depth`."""
        self._pending_rows = np.empty(_MOST_PENDING, np.uint16)
        self._pending_rates = np.empty(_MOST_PENDING, np.float64)
        """Numbers, or the digits of plain lines as unsigned integers (see `rates_from`)."""
        self._pending = 0
        self._are_digits = False

    def take(self, rows: Ints, samples: Samples | UnparsedSamples) -> None:
        """Add a batch in arrival order, leaving out samples without a rate."""
        places, rates = samples.known_rates()
        rows = rows if places is None else rows[places]
        are_digits = rates.dtype == np.uint64
        if are_digits != self._are_digits:
            self._settle()
            self._are_digits = are_digits
        start = 0
        while start < len(rows):
            if self._pending == _MOST_PENDING:
                self._settle()
            size = min(len(rows) - start, _MOST_PENDING - self._pending)
            room = slice(self._pending, self._pending + size)
            self._pending_rows[room] = rows[start : start + size]
            self._pending_rates.view(rates.dtype)[room] = rates[start : start + size]
            self._pending += size
            start += size

    def correct(self, row: int, rate: float) -> None:
        """Correct the newest rate of a row, which has one."""
        self._settle()
        with np.errstate(over="ignore"):
            self._rates[row, (self._counts[row] - 1) % self.depth] = rate

    def restart(self) -> None:
        """Forget all: the job was started again."""
        self._pending = 0
        self._counts[:] = 0

    def newest(self, rows: Ints, depth: int) -> Rates:
        """Return the newest rates of these rows, the newest first: a row for each moment; NaN where there is none."""
        self._settle()
        self._make_room(int(rows.max(initial=-1)) + 1)
        back = np.arange(min(depth, self.depth))[:, None]
        counts = self._counts[rows]
        rates: Rates = self._rates[rows, (counts - 1 - back) % self.depth]
        rates[back >= counts] = np.nan
        return rates

    def _settle(self) -> None:
        """Put what waits in place: of each row the newest rates, as many as are kept."""
        if not self._pending:
            return
        rows = self._pending_rows[: self._pending]
        rates = self._pending_rates[: self._pending]
        self._pending = 0
        self._make_room(int(rows.max()) + 1)
        counts = np.bincount(rows, minlength=len(self._counts))
        enough = (self.depth + 2) * int(np.count_nonzero(counts))
        if enough < len(rows):
            # Most have been superseded by later ones: in step, all that stay are among the last.
            last = np.bincount(rows[-enough:], minlength=len(counts))
            if (last >= np.minimum(counts, self.depth)).all():
                self._counts += counts - last
                rows, rates = rows[-enough:], rates[-enough:]
        self._put(rows, rates.view(np.uint64) if self._are_digits else rates)

    def _put(self, rows: npt.NDArray[np.uint16], rates: npt.NDArray[Any]) -> None:
        """Put a batch's rates in place."""
        runs = RowGroups.of(rows)
        behind = np.repeat(runs.ends, runs.sizes)
        behind -= np.arange(len(behind))
        newest = places_of(behind < self.depth)
        self._counts[runs.rows] += runs.sizes
        at = runs.ordered[newest].astype(np.int64)
        with np.errstate(over="ignore"):
            self._rates[at, (self._counts[at] - 1 - behind[newest]) % self.depth] = rates_from(
                rates[runs.order[newest]]
            )

    def _make_room(self, size: int) -> None:
        more = max(size, 2 * len(self._counts)) - len(self._counts)
        if size > len(self._counts):
            self._counts = np.concatenate((self._counts, np.zeros(more, np.int64)))
            self._rates = np.concatenate((self._rates, np.full((more, self.depth), np.nan, np.float32)))
