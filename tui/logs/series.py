"""Every core's loss and rate over its whole run, in bounded memory: for sparklines and charts."""

from __future__ import annotations

import mmap
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tui.logs.arrays import np, npt, places_of

BUCKETS = 64
"""Points kept of each core. When they are full, neighbours become one: a point stands for twice as many samples."""

MOST_ROWS = 65_536
"""Rows at most: twice the cores of the largest pod. A row's number fits 16 bits, which numpy sorts fastest."""

_TAIL = 8
"""Steps at the end that some cores may not have told yet, and no core that ended long ago."""

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Trail = npt.NDArray[np.float32]
Trails = Callable[[Ints], tuple[Floats, Floats]]
"""Losses and rates of samples, by their places in the batch."""


def _ends_of(values: npt.NDArray[Any]) -> Ints:
    """The last place of each run of equal values."""
    edges = places_of(values[1:] != values[:-1])
    ends = np.empty(len(edges) + 1, np.int64)
    ends[:-1], ends[-1] = edges, len(values) - 1
    return ends


@dataclass(frozen=True, eq=False)
class Runs:
    """Samples of a batch brought together by row, in arrival order within each."""

    order: Ints
    """Places in the batch."""
    ordered: npt.NDArray[np.uint16]
    """The row of each sample, ascending."""
    rows: Ints
    """The rows there are; for each, where it starts and ends (its last place) in `order`, and how long it is."""
    starts: Ints
    ends: Ints
    sizes: Ints

    @classmethod
    def of(cls, rows: Ints) -> Runs:
        """The rows of a batch, brought together; they fit 16 bits, which numpy sorts fastest."""
        short = rows.astype(np.uint16)
        order = short.argsort(kind="stable")
        ordered = short[order]
        ends = _ends_of(ordered)
        starts = np.zeros_like(ends)
        np.add(ends[:-1], 1, out=starts[1:])
        return cls(order, ordered, ordered[starts].astype(np.int64), starts, ends, ends - starts + 1)


@dataclass(frozen=True, eq=False)
class PodSeries:
    """The whole pod over its run, a point for each kept bucket; oldest first.

    `time` in seconds (UTC, or the log's own clock taken as such; NaN unknown); `step` and `epoch` as any core last
    told them within the bucket (-1 unknown); `loss_median`, `loss_min`, `loss_max` over the cores; `rate_total` their
    sum in examples/s.
    """

    time: Floats
    epoch: Ints
    step: Ints
    loss_median: Floats
    loss_min: Floats
    loss_max: Floats
    rate_total: Floats


def _room(kind: type[np.generic], row: int) -> npt.NDArray[Any]:
    """Zeros for all rows there can be, `row` of them each; the system gives memory only to those written to.

    So nothing is copied when rows are added, and old and new columns are never held side by side.
    """
    return np.frombuffer(mmap.mmap(-1, MOST_ROWS * row * np.dtype(kind).itemsize), kind)


class History:
    """Loss and rate of each core, the last one told in each bucket of 2**n samples, `n` growing with the run.

    The same samples leave the same history however they were cut into batches.
    """

    def __init__(self) -> None:
        self.shift = 0
        self.counts: Ints = _room(np.int64, 1)
        """Samples of each row there can be."""
        self._rows = 0
        self._first: Trail = _room(np.float32, 1)
        # Side by side, as they are written: what is kept of a row is in the caches no more when its next line comes.
        self._loss, self._rate = np.moveaxis(_room(np.float32, 2 * BUCKETS).reshape(-1, BUCKETS, 2), 2, 0)
        self._time: Floats = np.full(BUCKETS, np.nan)
        self._epoch: Ints = np.full(BUCKETS, -1, np.int64)
        self._step: Ints = np.full(BUCKETS, -1, np.int64)

    def _halve(self) -> None:
        half = BUCKETS // 2
        for whole in (self._loss, self._rate):
            array = whole[: self._rows]
            first, second = array[:, 0::2], array[:, 1::2]
            array[:, :half] = np.where(np.isnan(second), first, second)
            array[:, half:] = np.nan
        for line, unknown in ((self._time, np.nan), (self._epoch, -1), (self._step, -1)):
            first, second = line[0::2].copy(), line[1::2].copy()
            missing = np.isnan(second) if line is self._time else second == -1
            line[:half] = np.where(missing, first, second)
            line[half:] = unknown
        self.shift += 1

    def add(self, runs: Runs, trails: Trails, epoch: Ints, step: Ints, time: Floats) -> None:
        """Take in a batch of samples in arrival order; only those that stay are asked for their losses and rates."""
        rows = runs.rows
        before = self.counts[rows]
        self.counts[rows] = after = before + runs.sizes
        fresh = before == 0
        if fresh.any():
            self._begin(rows[fresh], trails(runs.order[runs.starts[fresh]])[0])
        while int(after.max() - 1) >> self.shift >= BUCKETS:
            self._halve()
        first = before >> self.shift
        sizes = ((after - 1) >> self.shift) - first + 1
        of = np.arange(len(rows)).repeat(sizes)
        buckets = np.arange(len(of)) + (first + sizes - np.cumsum(sizes))[of]
        # The last sample of each bucket, counted from the row's first one.
        last = np.minimum((buckets + 1) << self.shift, after[of]) - 1
        kept = runs.order[last + (runs.starts - before)[of]]
        at = rows[of], buckets
        with np.errstate(over="ignore"):
            self._loss[at], self._rate[at] = trails(kept)
        # What arrived last in each bucket tells its time.
        newest = np.full(BUCKETS, -1, np.int64)
        np.maximum.at(newest, buckets, kept)
        told = places_of(newest >= 0)
        for line, values in ((self._time, time), (self._epoch, epoch), (self._step, step)):
            line[told] = values[newest[told]]

    def _begin(self, rows: Ints, losses: Floats) -> None:
        """Rows that have told nothing before, and the first loss of each."""
        self._rows = max(self._rows, int(rows.max()) + 1)
        with np.errstate(over="ignore"):
            self._first[rows] = losses
        self._loss[rows] = self._rate[rows] = np.nan

    def replace(self, row: int, loss: float, rate: float) -> None:
        """Correct the newest point of a row: another line told more about the same step."""
        bucket = (int(self.counts[row]) - 1) >> self.shift
        with np.errstate(over="ignore"):
            if not np.isnan(loss):
                self._loss[row, bucket] = loss
            if not np.isnan(rate):
                self._rate[row, bucket] = rate

    def _filled(self, row: int) -> int:
        return ((int(self.counts[row]) - 1) >> self.shift) + 1

    def interval(self) -> float:
        """Seconds that usually lie between two lines of a core; NaN where its lines tell no times."""
        times = self._time[~np.isnan(self._time)]
        return float(np.median(np.diff(times))) / (1 << self.shift) if len(times) > 1 else float("nan")

    def losses(self, row: int) -> Trail:
        """A core's loss, oldest first; the very first sample stands at the front."""
        filled = self._filled(row)
        trail: Trail = self._loss[row, :filled].copy() if filled else np.zeros(0, np.float32)
        if filled > 1:
            trail[0] = self._first[row]
        return trail

    def rates(self, row: int) -> Trail:
        """A core's rate, oldest first."""
        filled = self._filled(row)
        return self._rate[row, :filled].copy() if filled else np.zeros(0, np.float32)

    def broken_since(self, row: int) -> tuple[int, int] | None:
        """Epoch and step (-1: unknown) from which a core's loss is no finite number, or a little before them.

        None where its newest loss is one. Exact as long as every sample has a bucket of its own.
        """
        filled = self._filled(row)
        finite = np.flatnonzero(np.isfinite(self._loss[row, :filled]))
        first = int(finite[-1]) + 1 if len(finite) else 0
        return (int(self._epoch[first]), int(self._step[first])) if first < filled else None

    def pod(self, rows: Ints) -> PodSeries:
        """The pod's loss and rate over the run, from the given rows (one for each core)."""
        rows = rows[self.counts[rows] > 0]
        filled = self._filled(int(rows[np.argmax(self.counts[rows])])) if len(rows) else 0
        loss, rate = self._loss[rows, :filled], self._rate[rows, :filled]
        told = _told_by_all(np.count_nonzero(~np.isnan(rate), axis=0))
        return PodSeries(
            time=self._time[:filled].copy(),
            epoch=self._epoch[:filled].copy(),
            step=self._step[:filled].copy(),
            loss_median=_median(loss),
            loss_min=np.fmin.reduce(loss, axis=0, initial=np.nan).astype(np.float64),
            loss_max=np.fmax.reduce(loss, axis=0, initial=np.nan).astype(np.float64),
            rate_total=np.where(told, np.nansum(rate, axis=0, dtype=np.float64), np.nan),
        )


def _told_by_all(cores: Ints) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
    """Which steps' rates add up to the pod's: the last ones, which some cores have yet to tell, do not."""
    told = np.asarray(cores > 0)
    tail = cores[-_TAIL:]
    if len(cores) > _TAIL:
        told[len(cores) - int(np.argmax(tail[::-1] == tail.max())) :] = False
    return told


def _median(values: Trail) -> Floats:
    """The median of each column, NaNs left out; NaN for a column that has nothing else."""
    ordered = np.sort(values, axis=0)
    counts = np.count_nonzero(~np.isnan(values), axis=0)
    columns = np.arange(values.shape[1])
    if not len(values):
        return np.full(values.shape[1], np.nan)
    low = ordered[np.maximum(counts - 1, 0) // 2, columns].astype(np.float64)
    high = ordered[np.minimum(counts // 2, len(values) - 1), columns]
    return np.where(counts > 0, (low + high) / 2, np.nan)
