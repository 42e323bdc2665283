"""The only place that uses private names of textual-plot. `tests/console/test_charts.py` is the contract.

Painting each canvas once per redraw, not once per line and label, is part of the console's CPU figure
(`python -m tests.bench screen`).
"""

from __future__ import annotations

from contextlib import ExitStack

from textual.app import ComposeResult, RenderResult
from textual.containers import Grid
from textual.strip import Strip
from textual_hires_canvas import Canvas
from textual_plot import PlotWidget
from textual_plot.plot_widget import Legend


class PlotCanvas(Canvas):
    """A canvas that styles lines beyond its edge, too: Textual's filter for `NO_COLOR` needs a style."""

    def render_line(self, y: int) -> Strip:
        """Draw one line; some are beyond the edge until the canvas has grown to the widget's size."""
        strip = super().render_line(y)
        return strip if strip.cell_length else Strip.blank(self.size.width, self.rich_style)


class Plot(PlotWidget):
    """A plot that may be removed before its parts were mounted, and that paints each canvas once per redraw."""

    def compose(self) -> ComposeResult:
        """Yield the plot between its margins."""
        with Grid():
            for name in ("margin-top", "margin-left", "plot", "margin-bottom"):
                yield PlotCanvas(1, 1, id=name)
        yield Legend(id="legend")

    def _update_margin_sizes(self) -> None:
        """Do nothing if the screen was left before the margins were mounted."""
        if self.children:
            super()._update_margin_sizes()

    def _update_legend(self) -> None:
        """Do nothing if the screen was left before the legend was mounted."""
        if self.children:
            super()._update_legend()

    def render(self) -> RenderResult:
        """Draw the plot; each canvas is painted once."""
        with ExitStack() as stack:
            for canvas in self.query(PlotCanvas) if self._needs_rerender else ():
                stack.enter_context(canvas.batch_refresh())
            return super().render()
