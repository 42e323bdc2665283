"""The charts of a run in their frames: loaded when first visible, drawn in turn at a bounded rate."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from textual.app import ComposeResult
from textual.containers import Vertical
from textual.widgets import Static

from tui.console.widgets.panes.pane import Pane

if TYPE_CHECKING:
    from tui.console.widgets.charts.charts import LossChart, RateChart
    from tui.logs.snapshot import Snapshot

CHART_INTERVAL_S = 1.0
"""Seconds between two redraws of a chart, which cost 15 ms each."""
CHART_TIME_DIVISOR = 20
"""Drawing the charts may take one part in this many of the loop's time."""
EMPTY_CHART_INTERVAL_S = 0.2
"""Seconds until a chart without a curve is drawn again, so that it does not stay empty for long."""
MIN_CHART_PANE_ROWS = 8
"""Rows of a chart with its frame and axis that show a curve at all."""
BOTH_CHARTS = 2
"""Redraws that are due at once when the charts become visible."""


def format_loss_title(snapshot: Snapshot) -> str:
    """Return the chart's title: what the curves are."""
    return "loss" if len(snapshot) == 1 else f"loss: median of the {snapshot.noun}s (grey: min and max)"


def format_rate_title(snapshot: Snapshot) -> str:
    """Return the chart's title: the unit of the rate, of the pod or of the median core (or worker)."""
    if snapshot.rate_median is None:
        return "rate"
    source = f"median {snapshot.noun}" if snapshot.rate_total is None else "pod"
    return (
        f"rate: {snapshot.rate_unit} of the {source}" if snapshot.rate_unit else f"rate of the {source}, unit unknown"
    )


class ChartPanes(Vertical, can_focus=True):
    """Loss and rate of the pod over the run, one beside or above the other."""

    DEFAULT_CSS = "ChartPanes:focus Pane { border: round $accent; }"

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self._panes = (
            Pane("loss", Static(), id="pane-loss"),
            Pane("rate", Static(), id="pane-rate"),
        )
        self._charts: tuple[LossChart, RateChart] | None = None
        self._due = 0.0
        self._next, self._owed = 0, 0

    def compose(self) -> ComposeResult:
        """Lay out the frames, present from the first paint on, so that nothing jumps."""
        yield from self._panes

    def on_resize(self) -> None:
        """Show the loss alone if two charts one above the other would be too low."""
        self.set_class(self.size.height < 2 * MIN_CHART_PANE_ROWS, "-low")

    def load(self) -> None:
        """Make the charts if they are visible: the plotting library loads after the first paint only."""
        if self._charts is None and self.display:
            from tui.console.widgets.charts.charts import LossChart, RateChart

            self._charts = LossChart(id="loss"), RateChart(id="rate")
            for pane, chart in zip(self._panes, self._charts, strict=True):
                pane.body.remove()
                pane.mount(chart)

    def redraw_soon(self) -> None:
        """Draw both charts soon: they have just become visible."""
        self._due, self._owed = 0.0, BOTH_CHARTS

    def set_note(self, note: str) -> None:
        """Show a note in the titles, e.g. that logs are still being read."""
        for pane in self._panes:
            pane.set_note(note)

    def take(self, snapshot: Snapshot | None) -> None:
        """Draw the next chart, if it is time."""
        started_at = time.monotonic()
        if snapshot is None or snapshot.history is None or started_at < self._due or not self.display:
            return
        self.load()
        if self._charts is None or not all(chart.is_mounted for chart in self._charts):
            return
        self._panes[0].set_title(format_loss_title(snapshot))
        self._panes[1].set_title(format_rate_title(snapshot))
        chart = self._charts[self._next]
        chart.take(snapshot.history.pod(snapshot.row, rates_add=snapshot.rates_add))
        self._next = (self._next + 1) % len(self._charts)
        self._owed -= chart.has_curve
        if not chart.has_curve:
            self._due = started_at + EMPTY_CHART_INTERVAL_S
        elif self._owed <= 0:
            self._due = started_at + max(CHART_INTERVAL_S, CHART_TIME_DIVISOR * (time.monotonic() - started_at))
