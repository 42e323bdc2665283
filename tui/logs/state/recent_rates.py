"""The newest rates of every core, so that cores can be compared at the same moments."""

from __future__ import annotations

from tui.logs._compat_numpy import Ints, np, npt, places_of
from tui.logs.core_row import HAS_RATE
from tui.logs.history.grouping import RowGroups
from tui.logs.state.samples import Samples

MOST_DEPTH = 256
"""Most rates that are kept of each row, whatever a profile sets."""

_MOST_PENDING = 131_072
"""Most rates gathered before they are put in place: in a saved log of few cores, most are superseded by then.

They are copied, so that the arrays of their batch are freed and numpy reuses their memory.
"""

Rates = npt.NDArray[np.float32]


class RecentRates:
    """The newest `depth` rates of each row, which do not depend on how samples were cut into batches."""

    def __init__(self, depth: int) -> None:
        self.depth = max(1, min(depth, MOST_DEPTH))
        self._counts: Ints = np.zeros(0, np.int64)
        self._rates: Rates = np.zeros((0, self.depth), np.float32)
        """A ring buffer of `depth` rates for each row."""
        self._pending_rows = np.empty(_MOST_PENDING, np.uint16)
        self._pending_rates = np.empty(_MOST_PENDING, np.float32)
        self._pending = 0

    def take(self, rows: Ints, samples: Samples) -> None:
        """Add a batch in arrival order, leaving out samples without a rate."""
        rates = samples.rate
        has_rate = (samples.known & HAS_RATE) > 0
        if not has_rate.all():
            rows, rates = rows[has_rate], rates[has_rate]
        start = 0
        while start < len(rows):
            if self._pending == _MOST_PENDING:
                self._settle()
            size = min(len(rows) - start, _MOST_PENDING - self._pending)
            room = slice(self._pending, self._pending + size)
            self._pending_rows[room] = rows[start : start + size]
            with np.errstate(over="ignore"):
                self._pending_rates[room] = rates[start : start + size]
            self._pending += size
            start += size

    def correct(self, row: int, rate: float) -> None:
        """Correct the newest rate of a row, which must have one."""
        self._settle()
        with np.errstate(over="ignore"):
            self._rates[row, (self._counts[row] - 1) % self.depth] = rate

    def restart(self) -> None:
        """Forget all rates, because the job was restarted."""
        self._pending = 0
        self._counts[:] = 0

    def newest(self, rows: Ints, depth: int) -> Rates:
        """Return the newest rates of some rows, one line for each moment, the newest first; NaN for none."""
        self._settle()
        self._make_room(int(rows.max(initial=-1)) + 1)
        back = np.arange(min(depth, self.depth))[:, None]
        counts = self._counts[rows]
        rates: Rates = self._rates[rows, (counts - 1 - back) % self.depth]
        rates[back >= counts] = np.nan
        return rates

    def _settle(self) -> None:
        """Put the newest of the gathered rates into the ring buffers."""
        if not self._pending:
            return
        rows = self._pending_rows[: self._pending]
        rates = self._pending_rates[: self._pending]
        self._pending = 0
        self._make_room(int(rows.max()) + 1)
        counts = np.bincount(rows, minlength=len(self._counts))
        enough = (self.depth + 2) * int(np.count_nonzero(counts))
        if enough < len(rows):
            # Most are superseded: when the cores are in step, all that are kept are among the last.
            last = np.bincount(rows[-enough:], minlength=len(counts))
            if (last >= np.minimum(counts, self.depth)).all():
                self._counts += counts - last
                rows, rates = rows[-enough:], rates[-enough:]
        runs = RowGroups.of(rows)
        behind = np.repeat(runs.ends, runs.sizes)
        behind -= np.arange(len(behind))
        newest = places_of(behind < self.depth)
        self._counts[runs.rows] += runs.sizes
        at = runs.ordered[newest].astype(np.int64)
        self._rates[at, (self._counts[at] - 1 - behind[newest]) % self.depth] = rates[runs.order[newest]]

    def _make_room(self, size: int) -> None:
        more = max(size, 2 * len(self._counts)) - len(self._counts)
        if size > len(self._counts):
            self._counts = np.concatenate((self._counts, np.zeros(more, np.int64)))
            self._rates = np.concatenate((self._rates, np.full((more, self.depth), np.nan, np.float32)))
