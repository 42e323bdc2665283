"""Tests of a run's charts: they are drawn as soon as there is a curve, and say until then what is missing."""

from __future__ import annotations

import re

import pytest
from textual.app import App, ComposeResult
from textual.widgets import Static

from tests.console.driving import until
from tests.logs.shapes import training
from tui.console.widgets.charts.charts import Chart
from tui.console.widgets.panes.chart_panes import ChartPanes
from tui.logs.demux import Demux

pytestmark = pytest.mark.timing


class ChartsApp(App[None]):
    """An app with the charts of a demultiplexer's samples and nothing else."""

    def __init__(self) -> None:
        super().__init__()
        self.demux = Demux()
        self.panes = ChartPanes()

    def compose(self) -> ComposeResult:
        yield self.panes

    def feed(self, step: int) -> None:
        lines = (training(core, step) for core in range(2))
        self.demux.feed(0, "".join(f"{line}\n" for line in lines).encode(), now=1000.0 + step)

    def take(self) -> None:
        self.panes.take(self.demux.snapshot(now=1100.0))

    def messages(self) -> list[str]:
        return [str(chart._empty.render()) for chart in self.query(Chart) if chart._empty.display]

    def curves(self) -> int:
        return sum(chart.has_curve for chart in self.query(Chart))


async def test_both_charts_are_drawn_once_there_is_a_curve_and_say_until_then_what_is_missing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    app = ChartsApp()
    async with app.run_test(size=(100, 30)) as pilot:
        app.panes.redraw_soon()
        for step, message in ((None, "no samples yet"), (0, "only one point so far")):
            if step is not None:
                app.feed(step)

            def both_show_message(message: str = message) -> bool:
                app.take()
                return app.messages() == [message, message]

            await until(pilot, both_show_message)
        app.feed(1)

        def both_are_drawn() -> bool:
            app.take()
            return app.curves() == 2

        await until(pilot, both_are_drawn)
        assert app.messages() == []
        updates: list[object] = []
        monkeypatch.setattr(Static, "update", lambda *arguments, **_: updates.append(arguments))
        drawn = sum(chart.draws for chart in app.query(Chart))
        app.panes.redraw_soon()
        app.feed(2)

        def both_are_drawn_again() -> bool:
            app.take()
            return sum(chart.draws for chart in app.query(Chart)) >= drawn + 2

        await until(pilot, both_are_drawn_again)
        assert updates == [], "each update would lay out the whole screen"


@pytest.mark.parametrize(
    ("steps", "labels"),
    [(range(4), "0 1 2 3"), (range(10_000, 10_401, 100), "10000 10050 10100")],
    ids=["from the start", "resumed"],
)
async def test_without_times_the_axis_shows_the_steps(steps: range, labels: str) -> None:
    app = ChartsApp()
    app.demux.feed(0, "".join(f"step {step} loss {step / 7}\n" for step in steps).encode())
    async with app.run_test(size=(100, 30)) as pilot:

        def steps_are_shown() -> bool:
            app.panes.redraw_soon()
            app.take()
            return labels in " ".join(re.sub("<[^>]*>|&#160;", " ", app.export_screenshot()).split())

        await until(pilot, steps_are_shown)


async def test_a_chart_that_is_not_drawn_yet_does_not_report_missing_samples() -> None:
    app = ChartsApp()
    for step in range(5):
        app.feed(step)
    async with app.run_test(size=(100, 30)) as pilot:
        seen: set[str] = set()

        def both_are_drawn() -> bool:
            app.take()
            seen.update(app.messages())
            return app.curves() == 2

        await until(pilot, both_are_drawn)
        assert seen <= {"drawing…"}
