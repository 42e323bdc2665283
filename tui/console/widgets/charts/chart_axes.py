"""The ticks of a chart's axes, and the format of a run's time."""

from __future__ import annotations

import math
from collections.abc import Sequence

from textual_plot import AxisFormatter, NumericAxisFormatter

from tui.text.durations import format_clock

TIME_STEPS = (1, 2, 5, 10, 20, 30, 60, 120, 180, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400)
"""Seconds between two ticks, in the units that people use."""
_MANTISSAS = (1.0, 2.0, 5.0, 10.0, 20.0)
_ROUNDING = 1e-9


def ticks_within(low: float, high: float, most: int) -> list[float]:
    """Return at most `most` round numbers between `low` and `high`; none if the range is empty."""
    if not (math.isfinite(low) and math.isfinite(high)) or high <= low or most < 1:
        return []
    power = 10.0 ** math.floor(math.log10((high - low) / (most + 1)))
    for step in (power * mantissa for mantissa in _MANTISSAS):
        first, last = math.ceil(low / step - _ROUNDING), math.floor(high / step + _ROUNDING)
        if last - first < most:
            return [number * step for number in range(first, last + 1)]
    return []


class ShortNumbers(NumericAxisFormatter):
    """Numbers of at most `width` characters: a plot cuts longer ones, which would show other numbers."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self._width = width

    def get_labels_for_ticks(self, ticks: Sequence[float]) -> list[str]:
        """Return the ticks with as many decimals as they need, or all with an exponent."""
        # textual-plot takes the decimals from the distance of two ticks: a single 6.5 would be 6.
        labels = super().get_labels_for_ticks(ticks) if len(ticks) > 1 else [f"{tick:g}" for tick in ticks]
        return labels if max(map(len, labels), default=0) <= self._width else [f"{tick:.3g}" for tick in ticks]


class RunTime(AxisFormatter):
    """Seconds since a run's first sample, written `mm:ss`, from an hour on `hh:mm:ss`."""

    def get_ticks(self, min_: float, max_: float, max_ticks: int = 8) -> list[float]:
        """Return ticks at whole steps of time; whole days for a very long run."""
        span = max_ - min_
        step = next((step for step in TIME_STEPS if span / step < max_ticks), None)
        if step is None:
            step = TIME_STEPS[-1] * math.ceil(span / TIME_STEPS[-1] / max(1, max_ticks))
        return [float(number * step) for number in range(math.ceil(min_ / step), int(max_ // step) + 1)]

    def get_labels_for_ticks(self, ticks: Sequence[float]) -> list[str]:
        """Return the ticks as a clock shows them."""
        return [format_clock(tick).removeprefix("00:") for tick in ticks]
