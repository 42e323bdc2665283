"""Every core's loss and rate over the whole run, in bounded memory, for sparklines and charts."""

from __future__ import annotations

import itertools
import mmap
from typing import Any, NamedTuple

from tui.logs._compat_numpy import Bools, Floats, Ints, np, npt, places_of
from tui.logs.history.grid import BUCKETS, SeriesGrid
from tui.logs.history.grouping import MOST_ROWS, RowGroups, ends_of
from tui.logs.history.time_axis import Clocks, SeriesAxis
from tui.logs.packed_digits import Figures

_ROWS_AT_ONCE = 1024
"""Rows whose cells are moved together, which needs memory for a copy of them."""

_STILL_THERE = 3
"""A core counts for this many times the longest pause between its samples after its newest one."""

_EMPTY = np.uint64(0xFFFF_FFFF_FFFF_FFFF)
"""A cell without a sample: two NaNs with bits that no parsed number has."""

Trail = npt.NDArray[np.float32]


class PodSeries(NamedTuple):
    """The whole pod over its run, one point for each cell with samples, oldest first.

    `loss_median`, `loss_min` and `loss_max` are those of the cores' newest losses at `time`; `rate_total` is the sum
    of their newest rates, or the median if rates do not add up (see `Snapshot.rates_add`). A core counts until it has
    been silent for much longer than any pause between its samples. `time` is in seconds, in UTC or by the log's clock
    (NaN unknown); `step` and `epoch` are those of the core that was furthest (-1 unknown).
    """

    time: Floats
    epoch: Ints
    step: Ints
    loss_median: Floats
    loss_min: Floats
    loss_max: Floats
    rate_total: Floats
    began: float = float("nan")
    """The time of the run's first sample; the time of the first point is the end of its cell."""


class CoreSeries(NamedTuple):
    """The stored samples of a core, oldest first; -1 is an unknown epoch or step, NaN an unknown time."""

    epoch: Ints
    step: Ints
    time: Floats
    loss: Trail
    rate: Trail


def _room(kind: type[np.generic], row: int) -> npt.NDArray[Any]:
    """Return `row` zeros for each possible row; the system allocates memory only for those that are written to.

    So adding rows copies nothing, and never needs memory for an old and a new column at once.
    """
    return np.frombuffer(mmap.mmap(-1, MOST_ROWS * row * np.dtype(kind).itemsize), kind)


class History:
    """Loss and rate of each core over the run, in cells of time that are the same for all cores.

    A cell holds the newest sample of each core with a sample in it; where a core's cell is empty, its newest value is
    that of the cell before, so that every core's newest value at the end of every cell is known. A core never goes
    back in time: a sample from before its newest cell, as after a clock was set back, goes into that cell. The
    history does not depend on how the samples were cut into batches.
    """

    def __init__(self, *, steps: bool = False) -> None:
        """With `steps`, also keep each sample's epoch, step and time: four times the memory."""
        self.counts: Ints = _room(np.int64, 1)
        """The number of samples of each possible row."""
        self._axis = SeriesAxis(_room(np.float64, 1))
        self._grid = SeriesGrid()
        self.restarted = -np.inf
        """The time of the newest sample when the job was last started again."""
        self._rows = 0
        self._first: Trail = _room(np.float32, 1)
        self._last: npt.NDArray[np.int16] = _room(np.int16, 1)
        """The newest cell of each row that is not empty."""
        # Side by side, so that a sample costs one cache miss: its row has left the CPU's caches since its last line.
        self._pairs: Trail = _room(np.float32, 2 * BUCKETS).reshape(-1, BUCKETS, 2)
        self._cells: npt.NDArray[np.uint64] = self._pairs.view(np.uint64)[:, :, 0]
        """Loss and rate of each cell as one word."""
        kinds = (np.int64, np.int64, np.float64) if steps else ()
        self._own: list[npt.NDArray[Any]] = [_room(kind, BUCKETS).reshape(-1, BUCKETS) for kind in kinds]
        """Epoch, step and time of the sample in each cell."""

    def add(
        self,
        runs: RowGroups,
        loss: Figures,
        rate: Figures,
        epoch: Ints,
        step: Ints,
        time: Floats,
        clocks: Clocks | None = None,
    ) -> None:
        """Add a batch of samples in arrival order.

        `time` is in seconds (NaN unknown), `clocks` reads the clocks that the lines print.
        """
        rows = runs.rows
        before = self.counts[rows]
        self.counts[rows] = before + runs.sizes
        was_time = self._axis.is_time
        placed = self._axis.place(runs, time, clocks)
        if self._axis.is_time and not was_time:
            self._move(self._grid.gather())
        self._move(self._grid.fit(placed))
        fresh = before == 0
        if fresh.any():
            self._begin(rows[fresh], loss[runs.order[runs.starts[fresh]]])
        cells = self._grid.cells(placed)
        self._grid.note(cells, placed, epoch, step)
        at, last = self._last_of_each(runs, cells)
        pairs = np.empty((len(last), 2), np.float32)
        with np.errstate(over="ignore"):
            pairs[:, 0], pairs[:, 1] = loss[last], rate[last]
        self._cells.reshape(-1)[at] = pairs.view(np.uint64)[:, 0]
        for column, values in zip(self._own, (epoch, step, time), strict=False):
            column.reshape(-1)[at] = values[last]

    def _last_of_each(self, runs: RowGroups, cells: Ints | int) -> tuple[Ints, Ints]:
        """Return each row's last sample in each cell: the index of the cell in all rows, and that of the sample."""
        rows = runs.rows
        if isinstance(cells, int):
            newest = np.maximum(self._last[rows], cells).astype(np.int64)
            self._last[rows] = newest
            return rows * BUCKETS + newest, runs.order[runs.ends]
        places: Ints = cells.take(runs.order)
        places[runs.starts] = np.maximum(places[runs.starts], self._last[rows])
        places += runs.ordered.astype(np.int64) * BUCKETS
        np.maximum.accumulate(places, out=places)
        self._last[rows] = places[runs.ends] % BUCKETS
        ends = ends_of(places)
        return places[ends], runs.order[ends]

    def _begin(self, rows: Ints, losses: Floats) -> None:
        """Make room for rows that had no samples, and keep the first loss of each."""
        end = max(self._rows, int(rows.max()) + 1)
        self._cells[self._rows : end] = _EMPTY
        self._rows = end
        self._last[rows] = 0  # moved until now along with the cells of other rows
        with np.errstate(over="ignore"):
            self._first[rows] = losses

    def _move(self, target: Ints | None) -> None:
        """Move each cell to its `target`; of several cells that become one, keep the newest."""
        if target is None:
            return
        for start in range(0, self._rows, _ROWS_AT_ONCE):
            rows = slice(start, min(start + _ROWS_AT_ONCE, self._rows))
            full = self._cells[rows] != _EMPTY
            old = [column[rows].copy() for column in (self._cells, *self._own)]
            self._cells[rows] = _EMPTY
            for cell in places_of(full.any(axis=0)).tolist():
                for column, values in zip((self._cells, *self._own), old, strict=True):
                    np.copyto(column[rows, target[cell]], values[:, cell], where=full[:, cell])
            self._last[rows] = target[self._last[rows]]

    def restart(self) -> None:
        """Note that the job was started again."""
        self.restarted = float(np.fmax.reduce(self._grid.time, axis=None, initial=self.restarted))

    def replace(self, row: int, loss: float, rate: float) -> None:
        """Correct the newest point of a row, because another line added to its step."""
        with np.errstate(over="ignore"):
            for index, value in enumerate((loss, rate)):
                if not np.isnan(value):
                    self._pairs[row, self._last[row], index] = value

    def _full(self, row: int) -> Ints:
        """Return the cells in which a row has a sample."""
        return places_of(self._cells[row] != _EMPTY) if self.counts[row] else np.zeros(0, np.int64)

    def interval(self) -> float:
        """Return the usual seconds between two lines of a core; NaN if the lines have no times."""
        used, cores = self._grid.used, np.count_nonzero(self.counts[: self._rows])
        if not self._axis.is_time or len(used) < 2 or self.counts.max() < 2:
            return float("nan")
        passed = np.diff(np.array(self._grid.time)[used])
        return float(np.median(passed * cores / np.array(self._grid.samples)[used[1:]]))

    def losses(self, row: int) -> Trail:
        """Return a core's losses, oldest first, beginning with that of its very first sample."""
        trail: Trail = self._pairs[row, self._full(row), 0]
        if len(trail) > 1:
            trail[0] = self._first[row]
        return trail

    def loss_medians(self, rows: Ints) -> Floats:
        """Return the median of the rows' newest losses at the end of each cell; NaN for a cell without samples."""
        medians, used = np.full(BUCKETS, np.nan), self._grid.used
        rows = rows[self.counts[rows] > 0]
        values = self._newest_values(rows, used)
        medians[used] = median_of(_losses_of(values, self._counted(rows, used)))
        return medians

    def loss_deviations(self, row: int, medians: Floats) -> Floats:
        """Return the differences of a core's losses from `loss_medians`, oldest first."""
        cells = self._full(row)
        deviations: Floats = self._pairs[row, cells, 0] - medians[cells]
        return deviations

    def rates(self, row: int) -> Trail:
        """Return a core's rates, oldest first."""
        trail: Trail = self._pairs[row, self._full(row), 1]
        return trail

    def curve(self, row: int) -> CoreSeries:
        """Return a core's stored samples; without `steps` their steps are unknown."""
        cells = self._full(row)
        unknown = np.full(len(cells), -1, np.int64), np.full(len(cells), -1, np.int64), np.full(len(cells), np.nan)
        epoch, step, time = (column[row, cells] for column in self._own) if self._own else unknown
        return CoreSeries(epoch, step, time, self._pairs[row, cells, 0], self._pairs[row, cells, 1])

    def _newest_values(self, rows: Ints, cells: Ints) -> Trail:
        """Return each row's newest loss and rate at the end of each of these cells, by cell and row."""
        values = np.empty((len(cells), len(rows)), np.uint64)
        for index, number in enumerate(cells.tolist()):
            values[index] = self._cells[rows, number]
        for before, cell in itertools.pairwise(values):
            np.copyto(cell, before, where=cell == _EMPTY)
        return values.view(np.float32).reshape(*values.shape, 2)

    def pod(self, rows: Ints, *, rates_add: bool = True) -> PodSeries:
        """Return the pod's loss and rate over the run, given the row of each core."""
        rows = rows[self.counts[rows] > 0]
        used = self._grid.used if len(rows) else np.zeros(0, np.int64)
        if not self._axis.is_time and len(rows) and self.counts[rows].max() < 2:
            # Each core has one sample, all at the same time: that is a moment, not a curve.
            used = used[-1:]
        values = self._newest_values(rows, used)
        counted = self._counted(rows, used)
        loss = _losses_of(values, counted)
        return PodSeries(
            began=self._axis.origin,
            time=np.array(self._grid.time)[used],
            epoch=np.array(self._grid.epoch, np.int64)[used],
            step=np.array(self._grid.step, np.int64)[used],
            loss_median=median_of(loss),
            loss_min=np.fmin.reduce(loss, axis=1, initial=np.nan).astype(np.float64),
            loss_max=np.fmax.reduce(loss, axis=1, initial=np.nan).astype(np.float64),
            rate_total=_rate_total(values[:, :, 1], counted, rates_add),
        )

    def _counted(self, rows: Ints, used: Ints) -> Bools:
        """Return whether each row counts at the end of each cell, by cell and row."""
        last, apart = np.full(len(rows), -1), np.zeros(len(rows), np.int64)
        for index, cell in enumerate(used.tolist()):
            full = self._cells[rows, cell] != _EMPTY
            np.copyto(apart, np.maximum(apart, index - last), where=full & (last >= 0))
            last[full] = index
        apart[apart == 0] = apart.max(initial=0) or len(used)
        counted: Bools = np.arange(len(used))[:, None] <= last + _STILL_THERE * apart
        return counted


def _losses_of(values: Trail, counted: Bools) -> Trail:
    """Return the losses of `_newest_values`, NaN for cores that do not count."""
    return np.where(counted, values[:, :, 0], np.float32(np.nan))


def _rate_total(rate: Trail, counted: Bools, adds: bool) -> Floats:
    """Return the sum of the cores' newest rates in each cell, or their median if rates do not add up.

    It is NaN until all cores have printed one.
    """
    counted = counted & ~np.isnan(rate)
    total, counts = np.full(len(rate), np.nan), np.count_nonzero(counted, axis=1)
    for cell in places_of(counts > 0).tolist():
        rates = rate[cell][counted[cell]].astype(np.float64)
        total[cell] = rates.sum() if adds else np.median(rates)
    begins = int(np.argmin(np.append(np.diff(counts) > 0, False))) if len(rate) else 0
    total[:begins] = np.nan
    return total


def median_of(values: Trail | Floats, *, of_two_higher: bool = False) -> Floats:
    """Return the median of each line without NaNs; NaN for a line of NaNs.

    Of two values in the middle, it is the mean or, with `of_two_higher`, the higher one.
    """
    if not values.shape[1]:
        return np.full(len(values), np.nan)
    ordered = np.sort(values, axis=1)
    counts = np.count_nonzero(~np.isnan(values), axis=1)
    lines = np.arange(len(values))
    high = ordered[lines, np.minimum(counts // 2, values.shape[1] - 1)].astype(np.float64)
    low = high if of_two_higher else ordered[lines, np.maximum(counts - 1, 0) // 2]
    return np.where(counts > 0, low / 2 + high / 2, np.nan)
