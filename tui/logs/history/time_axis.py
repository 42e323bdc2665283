"""Place samples on the axis that the curves of all cores share: time or, without times, the order in the log."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

from tui.logs._compat_numpy import Floats, Ints, np
from tui.logs.history.grouping import RowGroups

TICKS_PER_S = 1 << 20
"""Ticks of the axis per second: a tick is the narrowest possible cell."""

LONGEST_S = float(1 << 25)
"""A moment further than this (388 days) from the first one is taken for a torn line or a wrong clock."""

DAY_S = 86_400.0

_BACK_S = 6 * 3600.0
"""A clock without a date that goes back by more than this has passed midnight."""

_FIRST_BACK_S = 3600.0
"""The most seconds by which a core's first sample can precede the run's first one."""

_OFFSET_S = 1000 * DAY_S
"""Added to each row's stored clock, so that the initial zero means that there is none."""

Clocks = Callable[[], Floats]
"""Reads the clocks that samples printed, in seconds of the day (NaN unknown)."""


class Placed(NamedTuple):
    """Samples of a batch on the axis: their first and last tick, and their moments in arrival order."""

    low: int
    high: int
    moments: Floats
    newest: float
    """The last of the moments."""
    origin: float
    """The moment of tick 0; NaN where ticks count samples."""

    def ticks(self) -> Ints:
        """Return each sample's tick, in arrival order."""
        if self.origin != self.origin:
            return np.arange(self.low, self.high + 1)
        return np.floor((self.moments - self.origin) * TICKS_PER_S).astype(np.int64)


class SeriesAxis:
    """Places samples on one axis, which does not depend on how they are cut into batches.

    The axis is time as soon as two samples have different times: the arrival of the line, otherwise its date,
    otherwise the clock that it prints. Until then, and in a log whose first sample has no time, the axis counts the
    samples before. A sample without a time has that of the sample before it.
    """

    def __init__(self, rows: Floats) -> None:
        """Begin with `rows`, a zero for each row that is replaced by the row's newest clock."""
        self.is_time = False
        self.origin = float("nan")
        """The first sample's moment."""
        self._taken = 0
        self._by_clock = False
        self._newest = float("nan")
        self._row_clocks = rows

    def place(self, runs: RowGroups, time: Floats, clocks: Clocks | None) -> Placed:
        """Place a batch of samples in arrival order."""
        moments, before, self._taken = time, self._taken, self._taken + len(time)
        if not before and clocks is not None and np.isnan(time[0]):
            self._by_clock = not np.isnan(clocks()[0])
        if self._by_clock and clocks is not None:
            moments = self._of_clocks(runs, clocks(), is_first=not before)
        if not before:
            self.origin = self._newest = float(moments[0])
        low = high = self.origin
        if not np.isnan(self.origin):
            moments, low, high = self._fill_unknown(moments, self.origin - LONGEST_S, self.origin + LONGEST_S)
            self.is_time = self.is_time or low != self.origin or high != self.origin
        if not self.is_time:
            return Placed(before, self._taken - 1, moments, self.origin, float("nan"))
        first, last = (math.floor((moment - self.origin) * TICKS_PER_S) for moment in (low, high))
        return Placed(first, last, moments, high, self.origin)

    def _fill_unknown(self, moments: Floats, lowest: float, highest: float) -> tuple[Floats, float, float]:
        """Replace moments that are unknown or out of bounds by the one before; also return their range."""
        low, high = float(moments.min()), float(moments.max())
        if not (lowest < low and high < highest):
            is_valid = (moments > lowest) & (moments < highest)
            last = np.maximum.accumulate(np.where(is_valid, np.arange(len(moments)), -1))
            moments = np.where(last >= 0, moments[last], self._newest)
            low, high = float(moments.min()), float(moments.max())
        self._newest = float(moments[-1])
        return moments, low, high

    def _of_clocks(self, runs: RowGroups, clock: Floats, *, is_first: bool) -> Floats:
        """Return clocks as moments that continue past midnight: each the nearest after the previous of its row."""
        if is_first:
            self.origin = float(clock[0])
        clock, low, high = self._fill_unknown(clock, float("-inf"), float("inf"))
        before = self._row_clocks[runs.rows] - _OFFSET_S
        first = before == -_OFFSET_S
        before[first] = self.origin
        day = DAY_S * math.ceil((float(before.max()) - _FIRST_BACK_S - low) / DAY_S)
        if high + day < before.min() + DAY_S - _BACK_S and high - low <= _BACK_S:
            moments = clock + day
            self._row_clocks[runs.rows] = moments[runs.order[runs.ends]] + _OFFSET_S
            return moments
        return self._over_midnight(runs, clock, before, np.where(first, _FIRST_BACK_S, _BACK_S))

    def _over_midnight(self, runs: RowGroups, clock: Floats, before: Floats, back: Floats) -> Floats:
        """Return clocks as moments, the first of each row at most `back` seconds earlier than `before`."""
        clock, starts = clock[runs.order], runs.starts
        elapsed = np.empty_like(clock)
        elapsed[1:] = np.mod(clock[1:] - clock[:-1] + _BACK_S, DAY_S) - _BACK_S
        elapsed[starts] = np.mod(clock[starts] - before + back, DAY_S) - back
        total = np.cumsum(elapsed)
        total += (before - total[starts] + elapsed[starts]).repeat(runs.sizes)
        self._row_clocks[runs.rows] = total[runs.ends] + _OFFSET_S
        moments = np.empty_like(total)
        moments[runs.order] = total
        return moments
