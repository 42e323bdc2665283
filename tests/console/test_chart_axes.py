from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from textual.app import App, ComposeResult

from tests.console.driving import until
from tui.console.widgets.charts.chart_axes import RunTime, ShortNumbers, ticks_within
from tui.console.widgets.charts.charts import Plot, readable, time_axis  # type: ignore[attr-defined]
from tui.logs.history.history import PodSeries


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
    slack = span * 1e-6 + abs(low) * 1e-12
    assert all(low - slack <= tick <= low + span + slack for tick in ticks)


@pytest.mark.parametrize("high", [0.0, -1.0, math.nan, math.inf])
def test_no_range_has_no_ticks(high: float) -> None:
    assert ticks_within(0.0, high, 5) == []


@pytest.mark.parametrize(
    ("low", "high", "labels"),
    [
        (0.0, 0.04, ["0.00", "0.02", "0.04"]),
        (6.1, 6.9, ["6.5"]),
        (0.0, 1e9, ["0", "5e+08", "1e+09"]),
        (0.0, 1e-8, ["0", "5e-09", "1e-08"]),
    ],
)
def test_the_labels_of_ticks_fit_their_margin_and_show_their_numbers(
    low: float, high: float, labels: list[str]
) -> None:
    assert ShortNumbers(8).get_labels_for_ticks(ticks_within(low, high, 3 if low == 0 else 2)) == labels


@pytest.mark.parametrize(
    ("end", "labels"),
    [(16, ["00:00", "00:05", "00:10", "00:15"]), (595, ["00:00", "02:00", "04:00", "06:00", "08:00"])],
)
def test_the_time_axis_counts_in_whole_minutes(end: float, labels: list[str]) -> None:
    axis = RunTime()
    assert axis.get_labels_for_ticks(axis.get_ticks(0.0, end, 5)) == labels


@pytest.mark.parametrize("end", [1.0, 59.0, 3600.0, 86400.0, 1e7])
def test_the_time_axis_fits_runs_of_any_length(end: float) -> None:
    assert 1 <= len(RunTime().get_ticks(0.0, end, 5)) <= 6


def series(times: list[float]) -> PodSeries:
    none = np.full(len(times), np.nan)
    steps = np.arange(len(times))
    return PodSeries(np.array(times, np.float64), steps, steps, none, none, none, none)


@pytest.mark.parametrize(
    ("times", "x"),
    [
        ([100, 101, 102, 103], [0, 1, 2, 3]),
        ([100, 101, 160, 161], [0, 1, 60, 61]),
        ([100, 101, 50, 51], None),
        ([100, math.nan, 102], None),
        ([100, 100, 100], None),
    ],
    ids=["regular", "a pause", "a clock set back", "unknown", "one moment"],
)
def test_time_is_the_axis_when_it_is_known_and_increases(times: list[float], x: list[float] | None) -> None:
    axis = time_axis(series(times))
    assert (axis[1] == "time") is (x is not None)
    assert axis[0].tolist() == (list(range(len(times))) if x is None else x)


@pytest.mark.parametrize(
    ("steps", "axis"),
    [
        ([40, 80, 80, 120], ([40, 80, 80, 120], "step")),
        ([40, 80, 20, 60], ([0, 1, 2, 3], "order in the log")),
        ([-1, -1, -1, -1], ([0, 1, 2, 3], "order in the log")),
    ],
    ids=["counting on", "counting anew in each epoch", "unknown"],
)
def test_without_times_the_step_is_the_axis_where_it_never_falls(
    steps: list[int], axis: tuple[list[int], str]
) -> None:
    x, label = time_axis(series([math.nan] * 4)._replace(step=np.array(steps)))
    assert (x.tolist(), label) == axis


def test_a_label_that_would_not_end_on_the_axis_is_left_out() -> None:
    assert readable([0.0, 20.0, 40.0], ["00:00", "00:20", "00:40"], 0.0, 41.0, 50) == [0.0, 20.0]
    assert readable([0.0, 20.0, 40.0], ["00:00", "00:20", "00:40"], 0.0, 45.0, 50) == [0.0, 20.0, 40.0]
    assert readable([20.0, 40.0], ["00:20", "00:40"], 20.0, 40.5, 50) == [20.0]


class RemovedPlot(Plot):
    """A plot that is removed while it is being composed, as when its screen is left."""

    def compose(self) -> ComposeResult:
        self.remove()
        yield from super().compose()


async def test_a_plot_that_is_removed_before_it_is_mounted_raises_no_error() -> None:
    class RemovedPlotApp(App[None]):
        def compose(self) -> ComposeResult:
            yield RemovedPlot()

    app = RemovedPlotApp()
    async with app.run_test() as pilot:
        await until(pilot, lambda: not app.screen.query(RemovedPlot))
