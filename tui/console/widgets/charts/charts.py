"""Charts of the pod's loss and rate over the run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.widgets import Static
from textual_hires_canvas import HiResMode
from textual_plot import NumericAxisFormatter, PlotWidget

from tui.console.platform._compat_textual_plot import Plot
from tui.console.widgets.charts.chart_axes import RunTime, ShortNumbers, ticks_within
from tui.console.widgets.panes.pane import Pane

if TYPE_CHECKING:
    import numpy.typing as npt

    from tui.logs.history.history import PodSeries

    Floats = npt.NDArray[np.float64]
    Colors = tuple[str, str]

MARGIN_LEFT = 9
ROWS_A_TICK = 1.3
"""Rows of a plot between two labels: with less than one, labels would share a row."""
COLUMNS_A_TICK = 9
PLOT_EDGES = 3
"""Rows of a plot's frame and time axis."""
ENOUGH_TICKS = 5
EDGE, LOSS, RATE = ("grey50", "grey50"), ("bright_cyan", "cyan"), ("bright_green", "green")
"""Colours of lines on a dark and a light screen: thin bright lines are invisible on white."""
TIME, STEP, ORDER = "time", "step", "order in the log"


class Chart(Vertical):
    """One plot: a few lines over the run's time, or over its steps where no times are known."""

    DEFAULT_CSS = """
    Chart {
        height: 1fr;
        & > PlotWidget { height: 1fr; display: none; }
        & > .empty { color: $text-muted; padding: 0 1; }
    }
    """

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self.draws = 0
        """Redraws since the start: what the paint budgets count."""
        self.has_curve = False
        """Whether the last draw had a curve."""
        self._drawn: tuple[object, ...] = ()
        self._again: Callable[[], None] | None = None
        self._plot = Plot(allow_pan_and_zoom=False)
        self._plot.can_focus = False
        self._plot.set_y_formatter(ShortNumbers(MARGIN_LEFT - 1))
        for margin, size in (
            (PlotWidget.margin_top, 0),
            (PlotWidget.margin_bottom, 1),
            (PlotWidget.margin_left, MARGIN_LEFT),
        ):
            self._plot.set_reactive(margin, size)
        self._empty = Static("drawing…", classes="empty", markup=False)

    def compose(self) -> ComposeResult:
        """Lay out the plot and the text shown without a curve."""
        yield self._plot
        yield self._empty

    def on_resize(self) -> None:
        """Draw again, with as many ticks as there is room for."""
        if self._again is not None:
            self._again()

    def show(
        self, x: Floats, label: str, lines: Sequence[tuple[Floats, Colors]], *, low: float | None = None
    ) -> None:
        """Draw lines, each with its colours, down to `low`; do nothing if they are already drawn."""
        is_dark = self.app.current_theme.dark
        drawn = (self.size, is_dark, x.tobytes(), *(line.tobytes() for line, _ in lines))
        if drawn == self._drawn or not self.is_mounted:
            return
        self._drawn = drawn
        self._again = partial(self.show, x, label, lines, low=low)
        self.draws += 1
        plot = self._plot
        values = np.concatenate([line[np.isfinite(line)] for line, _ in lines]) if lines else x
        self.has_curve = plot.display = len(x) > 1 and len(values) > 0
        self._empty.display = not self.has_curve
        if not self.has_curve:
            self._empty.update(
                "no samples yet" if not len(x) else "no figures yet" if not len(values) else "only one point so far"
            )
        plot.clear()
        if isinstance(self.parent, Pane):
            self.parent.set_subtitle(label)
        if self.has_curve:
            self._scale(x, label, float(values.min()) if low is None else low, float(values.max()))
        for line, (dark, light) in lines:
            finite = np.isfinite(line) & np.isfinite(x)
            if finite.any():
                plot.plot(
                    x[finite], line[finite], line_style=dark if is_dark else light, hires_mode=HiResMode.BRAILLE
                )

    def _scale(self, x: Floats, label: str, low: float, high: float) -> None:
        """Set limits and ticks of both axes, as many as there is room for."""
        plot = self._plot
        room = (high - low) * 0.05 or abs(high) * 0.05 or 1.0
        bottom, top = (low if low == 0.0 else low - room), high + room
        plot.set_ylimits(bottom, top)
        rows = self.size.height - PLOT_EDGES
        most = min(int(rows / ROWS_A_TICK), max(ENOUGH_TICKS, rows // 2))
        plot.set_yticks(ticks_within(bottom, top, max(2, most)))
        axis = RunTime() if label == TIME else NumericAxisFormatter()
        plot.set_x_formatter(axis)
        first, last = 0.0 if label == TIME else float(x[0]), float(x[-1])
        plot.set_xlimits(first, last)
        columns = max(1, self.size.width - MARGIN_LEFT)
        most = max(2, columns // COLUMNS_A_TICK)
        ticks = axis.get_ticks(first, last, most) if label == TIME else []
        if label == STEP:
            ticks = ticks_within(first, last, min(most, int(last - first) + 1))  # no half steps
        plot.set_xticks(readable(ticks, axis.get_labels_for_ticks(ticks), first, last, columns))


def readable(ticks: Sequence[float], labels: Sequence[str], first: float, last: float, columns: int) -> list[float]:
    """Return the ticks with labels that, centred, end within an axis of `columns` from `first` to `last`."""
    scale = columns / (last - first or 1.0)
    ends = [(tick - first) * scale + len(label) / 2 for tick, label in zip(ticks, labels, strict=True)]
    return [tick for tick, end in zip(ticks, ends, strict=True) if end <= columns + 0.5]


def time_axis(series: PodSeries) -> tuple[Floats, str]:
    """Return each point's place and the axis' name: time if it increases from point to point, else the step."""
    time, step = series.time, series.step
    if len(time) > 1 and (np.diff(time) > 0).all():
        began = series.began if series.began <= time[0] else time[0]
        return time - began, TIME
    if len(step) and 0 <= step[0] < step[-1] and (np.diff(step) >= 0).all():
        return step.astype(np.float64), STEP
    return np.arange(len(time), dtype=np.float64), ORDER


class LossChart(Chart):
    """The median of the cores' losses between the smallest and the largest."""

    def take(self, series: PodSeries) -> None:
        """Draw the series."""
        x, label = time_axis(series)
        self.show(x, label, [(series.loss_min, EDGE), (series.loss_max, EDGE), (series.loss_median, LOSS)])


class RateChart(Chart):
    """The rate of the whole pod, or of its median core where rates do not add up."""

    def take(self, series: PodSeries) -> None:
        """Draw the series, from zero: half the rate must look like half."""
        x, label = time_axis(series)
        self.show(x, label, [(series.rate_total, RATE)], low=0.0)
