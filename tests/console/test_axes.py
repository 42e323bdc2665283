from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tui.console.widgets.axes import RunTime, clock, ticks_within


@pytest.mark.parametrize(
    ("low", "high", "most", "ticks"),
    [(0.0, 8800.0, 5, [0, 2000, 4000, 6000, 8000]), (-0.2, 7.0, 4, [0, 2, 4, 6]), (5.8, 6.9, 3, [6.0, 6.5])],
)
def test_ticks_are_round_numbers(low: float, high: float, most: int, ticks: list[float]) -> None:
    assert ticks_within(low, high, most) == pytest.approx(ticks)


@given(st.floats(-1e6, 1e6), st.floats(1e-6, 1e6), st.integers(1, 20))
def test_ticks_are_inside_and_never_too_many(low: float, span: float, most: int) -> None:
    ticks = ticks_within(low, low + span, most)
    assert len(ticks) <= most
    assert all(low - span * 1e-6 <= tick <= low + span * (1 + 1e-6) for tick in ticks)


@pytest.mark.parametrize("high", [0.0, -1.0, math.nan, math.inf])
def test_no_range_has_no_ticks(high: float) -> None:
    assert ticks_within(0.0, high, 5) == []


@pytest.mark.parametrize(
    ("seconds", "shown"), [(0, "00:00"), (42, "00:42"), (725, "12:05"), (10800, "3:00:00"), (90061, "25:01:01")]
)
def test_time_is_written_as_clocks_do(seconds: int, shown: str) -> None:
    assert clock(seconds) == shown


@pytest.mark.parametrize(
    ("end", "labels"),
    [(16, ["00:00", "00:05", "00:10", "00:15"]), (595, ["00:00", "02:00", "04:00", "06:00", "08:00"])],
)
def test_the_time_axis_counts_in_whole_minutes(end: float, labels: list[str]) -> None:
    axis = RunTime()
    assert axis.get_labels_for_ticks(axis.get_ticks(0.0, end, 5)) == labels


@pytest.mark.parametrize("end", [1.0, 59.0, 3600.0, 86400.0, 1e7])
def test_the_time_axis_fits_however_long_the_run(end: float) -> None:
    assert 1 <= len(RunTime().get_ticks(0.0, end, 5)) <= 6
