"""The newest rates of every core, to compare those of the same moments with each other."""

from __future__ import annotations

from tui.logs._compat_numpy import np, npt, places_of
from tui.logs.history.grouping import RowGroups
from tui.logs.state.samples import Floats, Ints, Samples, UnparsedSamples, rates_from

MOST_DEPTH = 256
"""Rates of each row that are kept at most, whatever a profile asks for."""

_MOST_PENDING = 262_144
"""Rates that wait at most to be put in place: of a saved log's few cores hardly any of them stay."""

Rates = npt.NDArray[np.float32]


class RecentRates:
    """The last `depth` rates of each row, however its samples were cut into batches."""

    def __init__(self, depth: int) -> None:
        self.depth = max(1, min(depth, MOST_DEPTH))
        self._counts: Ints = np.zeros(0, np.int64)
        self._rates: Rates = np.zeros((0, self.depth), np.float32)
        """A ring for each row, as long as `depth`."""
        self._pending: list[tuple[Ints, Floats | npt.NDArray[np.uint64]]] = []
        self._waiting = 0

    def take(self, rows: Ints, samples: Samples | UnparsedSamples) -> None:
        """Add a batch in arrival order, leaving out samples without a rate."""
        places, rates = samples.known_rates()
        rows = rows if places is None else rows[places]
        if not len(rows):
            return
        if self._pending and self._pending[-1][1].dtype != rates.dtype:
            self._settle()
        self._pending.append((rows, rates))
        self._waiting += len(rows)
        if self._waiting >= _MOST_PENDING:
            self._settle()

    def correct(self, row: int, rate: float) -> None:
        """Correct the newest rate of a row, which has one."""
        self._settle()
        with np.errstate(over="ignore"):
            self._rates[row, (self._counts[row] - 1) % self.depth] = rate

    def restart(self) -> None:
        """Forget all: the job was started again."""
        self._pending, self._waiting = [], 0
        self._counts[:] = 0

    def newest(self, rows: Ints, depth: int) -> Rates:
        """The newest rates of these rows, a row of the answer for each moment, the newest first; NaN: none."""
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
        pending, self._pending, self._waiting = self._pending, [], 0
        rows = np.concatenate([part for part, _ in pending])
        self._make_room(int(rows.max()) + 1)
        counts = np.bincount(rows, minlength=len(self._counts))
        enough = 2 * self.depth * int(np.count_nonzero(counts))
        if enough < len(rows):
            # Most have been superseded by later ones: in step, all that stay are among the last.
            last = np.bincount(rows[-enough:], minlength=len(counts))
            if (last >= np.minimum(counts, self.depth)).all():
                self._counts += counts - last
                self._put(rows[-enough:], np.concatenate([part for _, part in pending])[-enough:])
                return
        for part, rates in pending:
            self._put(part, rates)

    def _put(self, rows: Ints, rates: Floats | npt.NDArray[np.uint64]) -> None:
        """Put a batch's rates in place."""
        if np.bincount(rows).max() == 1:
            with np.errstate(over="ignore"):
                self._rates[rows, self._counts[rows] % self.depth] = rates_from(rates)
            self._counts[rows] += 1
            return
        runs = RowGroups.of(rows)
        behind = np.repeat(runs.ends, runs.sizes)
        behind -= np.arange(len(behind))
        kept = places_of(behind < self.depth)
        self._counts[runs.rows] += runs.sizes
        at = runs.ordered[kept].astype(np.int64)
        with np.errstate(over="ignore"):
            self._rates[at, (self._counts[at] - 1 - behind[kept]) % self.depth] = rates_from(rates[runs.order[kept]])

    def _make_room(self, size: int) -> None:
        more = max(size, 2 * len(self._counts)) - len(self._counts)
        if size > len(self._counts):
            self._counts = np.concatenate((self._counts, np.zeros(more, np.int64)))
            self._rates = np.concatenate((self._rates, np.full((more, self.depth), np.nan, np.float32)))
