"""Loss and rate of the whole pod over the run; redrawn at most once a second, and only while it is to be seen."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.widgets import Static
from textual_plot import HiResMode, PlotWidget

from tui.console.widgets.pane import Pane

if TYPE_CHECKING:
    import numpy.typing as npt

    from tui.logs.series import PodSeries

    Floats = npt.NDArray[np.float64]

MINUTES_FROM = 600.0
"""Seconds from which on the axis counts in minutes."""
HOURS_FROM = 4 * 3600.0
MARGIN_LEFT = 9


class Chart(Vertical):
    """One plot: a few lines over the run's time, or over samples where no times are known."""

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
        self._drawn: tuple[bytes, ...] = ()
        self._plot = PlotWidget(allow_pan_and_zoom=False)
        self._plot.can_focus = False
        self._empty = Static("no samples yet", classes="empty", markup=False)

    def compose(self) -> ComposeResult:
        """The plot."""
        yield self._plot
        yield self._empty

    def on_mount(self) -> None:
        """Narrow margins: there is not much room."""
        plot = self._plot
        plot.margin_top = 0
        plot.margin_bottom = 1
        plot.margin_left = MARGIN_LEFT

    def show(self, x: Floats, label: str, lines: Sequence[tuple[Floats, str]]) -> None:
        """Draw lines, each with its colour; does nothing when they are the ones that are there."""
        drawn = (x.tobytes(), *(line.tobytes() for line, _ in lines))
        if drawn == self._drawn or not self.is_mounted:
            return
        self._drawn = drawn
        self.draws += 1
        plot = self._plot
        plot.display = len(x) > 1
        self._empty.display = len(x) <= 1
        plot.clear()
        if isinstance(self.parent, Pane):
            self.parent.set_subtitle(label)
        for line, color in lines:
            known = np.isfinite(line) & np.isfinite(x)
            if known.any():
                plot.plot(x[known], line[known], line_style=color, hires_mode=HiResMode.BRAILLE)


def time_axis(series: PodSeries) -> tuple[Floats, str]:
    """Where each point stands, and what that is called."""
    time = series.time
    if len(time) and np.isfinite(time).all() and (np.diff(time) >= 0).all() and time[-1] > time[0]:
        since = time - time[0]
        for unit, name, seconds in ((3600.0, "hours", HOURS_FROM), (60.0, "minutes", MINUTES_FROM)):
            if since[-1] >= seconds:
                return since / unit, name
        return since, "seconds"
    return np.arange(len(time), dtype=np.float64), "samples"


class LossChart(Chart):
    """The median of the cores' losses between the smallest and the largest."""

    def take(self, series: PodSeries) -> None:
        """Draw the series."""
        x, label = time_axis(series)
        self.show(
            x,
            label,
            [(series.loss_min, "grey50"), (series.loss_max, "grey50"), (series.loss_median, "bright_cyan")],
        )


class RateChart(Chart):
    """Examples a second of the whole pod."""

    def take(self, series: PodSeries) -> None:
        """Draw the series, from zero: half the rate must look like half."""
        x, label = time_axis(series)
        whole = series.rate_total[:-1]  # not every core has told its part of the newest point yet
        if self.is_mounted and np.isfinite(whole).any():
            top = float(np.nanmax(whole))
            self._plot.set_ylimits(0.0, top * 1.1 if top > 0 else 1.0)
        self.show(x[:-1], label, [(whole, "bright_green")])
