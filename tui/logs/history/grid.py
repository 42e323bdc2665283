"""The cells of the axis that the curves of all cores share, with the pod's time and progress in each cell."""

from __future__ import annotations

import math

from tui.logs._compat_numpy import Ints, np, places_of
from tui.logs.history.time_axis import Placed

BUCKETS = 64
"""Cells, and so the points of a curve. When a run becomes too long for them, each cell doubles its length."""


class SeriesGrid:
    """Cells of 2**shift ticks, the earliest first, and how far the pod was at the end of each."""

    def __init__(self) -> None:
        self.shift = 0
        # Lists, because they are read and written cell by cell.
        self.time = [math.nan] * BUCKETS
        """The moment of the newest sample in each cell."""
        self.epoch, self.step = [-1] * BUCKETS, [-1] * BUCKETS
        """Epoch and step of the core that was furthest in each cell."""
        self.samples = [0] * BUCKETS
        self._is_empty = True
        self._base = self._low = self._high = 0
        """The number of the first cell on the axis; the first and last tick of all samples."""

    @property
    def used(self) -> Ints:
        """Return the indices of cells with samples."""
        return places_of(np.array(self.samples) > 0)

    def fit(self, placed: Placed) -> Ints | None:
        """Extend the cells over these samples; return the new index of each old cell, or None if none moves."""
        if self._is_empty:
            self._low, self._high, self._is_empty = placed.low, placed.high, False
        self._low, self._high = min(self._low, placed.low), max(self._high, placed.high)
        shift = self.shift
        while (self._high >> shift) - (self._low >> shift) >= BUCKETS:
            shift += 1
        base = self._low >> shift
        if (shift, base) == (self.shift, self._base):
            return None
        target: Ints = ((self._base + np.arange(BUCKETS)) >> (shift - self.shift)) - base
        self.shift, self._base = shift, base
        self._move(target)
        return target

    def gather(self) -> Ints:
        """Move everything into the first cell, at the origin of the axis; return new indices as `fit` does."""
        target: Ints = np.zeros(BUCKETS, np.int64)
        self.shift = self._base = self._low = self._high = 0
        self._move(target)
        return target

    def _move(self, target: Ints) -> None:
        old_cells = zip(target.tolist(), self.time, self.epoch, self.step, self.samples, strict=True)
        self.time = [math.nan] * BUCKETS
        self.epoch, self.step, self.samples = [-1] * BUCKETS, [-1] * BUCKETS, [0] * BUCKETS
        for cell, time, epoch, step, samples in old_cells:
            if samples:
                self._add(cell, time, epoch, step, samples)

    def cells(self, placed: Placed) -> Ints | int:
        """Return the cell of each sample; one number if it is the same for all."""
        if placed.low >> self.shift == placed.high >> self.shift:
            return (placed.low >> self.shift) - self._base
        return (placed.ticks() >> self.shift) - self._base

    def note(self, cells: Ints | int, placed: Placed, epoch: Ints, step: Ints) -> None:
        """Record the progress of samples in these cells."""
        if isinstance(cells, int):
            furthest = int(epoch.max())
            steps = step if furthest == epoch.min() else step[epoch == furthest]
            self._add(cells, placed.newest, furthest, int(steps.max()), len(step))
            return
        moments = placed.moments
        if (cells[1:] < cells[:-1]).any():
            order = cells.argsort(kind="stable")
            cells, moments, epoch, step = cells[order], moments[order], epoch[order], step[order]
        starts = np.append(0, places_of(cells[1:] != cells[:-1]) + 1)
        sizes = np.diff(starts, append=len(cells))
        most = np.maximum.reduceat
        furthest_of = most(epoch, starts)
        if furthest_of.max() > epoch.min():
            step = np.where(epoch == furthest_of.repeat(sizes), step, -1)
        columns = cells[starts], most(moments, starts), furthest_of, most(step, starts), sizes
        for row in zip(*(column.tolist() for column in columns), strict=True):
            self._add(*row)

    def _add(self, cell: int, time: float, epoch: int, step: int, samples: int) -> None:
        self.time[cell] = max(time, self.time[cell]) if self.samples[cell] else time
        self.samples[cell] += samples
        if (epoch, step) > (self.epoch[cell], self.step[cell]):
            self.epoch[cell], self.step[cell] = epoch, step
