from __future__ import annotations

import math
from pathlib import Path

import pytest
from textual.app import App, ComposeResult

from tests.console.test_log_pane import Holding, numbered, opened, shown
from tui.console.widgets.columns import Cell
from tui.console.widgets.headline import Headline
from tui.console.widgets.log_pane import LogPane
from tui.console.widgets.pane import Pane


async def test_a_log_that_grows_by_screenfuls_is_not_painted_at_every_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, pane = tmp_path / "log", LogPane()
    numbered(path, 100)
    async with Holding(pane).run_test(size=(40, 10)) as pilot:
        await opened(pilot, pane, path)
        monkeypatch.setattr("tui.console.widgets.log_pane.PAINT_EVERY", math.inf)
        numbered(path, 100, 100)
        pane.tick()
        assert shown(pane)[-1] == "line 000099"
        monkeypatch.setattr("tui.console.widgets.log_pane.PAINT_EVERY", 0.0)
        pane.tick()
        assert shown(pane)[-1] == "line 000199"


class Heading(App[None]):
    def compose(self) -> ComposeResult:
        yield Headline()


async def test_a_headline_too_long_for_the_screen_leaves_out_what_matters_least() -> None:
    app = Heading()
    async with app.run_test(size=(30, 5)):
        headline = app.query_one(Headline)
        headline.show([[Cell("loss 2.31292", "accent"), Cell("(2.31–2.32)", "dim"), Cell("8 of 128 cores", "warn")]])
        assert headline.render_line(0).text.strip() == "loss 2.31292  8 of 128 cores"[: headline.size.width]


async def test_a_subtitle_repaints_its_own_edge_only(tmp_path: Path) -> None:
    log = LogPane()
    pane = Pane("logs", log)

    class Framing(App[None]):
        def compose(self) -> ComposeResult:
            yield pane

    async with Framing().run_test(size=(40, 10)) as pilot:
        await opened(pilot, log, tmp_path / "log")
        pane.set_subtitle("1,000 lines")
        assert [(region.y, region.height) for region in pane._exchange_repaint_regions()] == [(9, 1)]
