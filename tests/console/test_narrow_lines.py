"""Tests of the headline and the tab bar with less room than they need."""

from __future__ import annotations

import pytest
from textual.app import App, ComposeResult

from tests.console.driving import until
from tui.console.widgets.headline import Headline, fit_cells
from tui.console.widgets.problem_panel import Problem, ProblemPanel
from tui.console.widgets.tab_bar import TabBar
from tui.console.widgets.tables.table_columns import Cell

IDENTITY = [
    Cell("running", "good"),
    Cell("demo-rehearsal-20261124-061848-0936"),
    Cell("1m24s"),
    Cell("on local", "dim"),
    Cell("rehearsal", "warn"),
    Cell("made up", "dim"),
]


class LinesApp(App[None]):
    """An app with a headline above a tab bar."""

    def compose(self) -> ComposeResult:
        yield Headline()
        yield TabBar([("merged", "merged"), *((str(n), f"worker {n}") for n in range(64))])


@pytest.mark.parametrize(
    ("width", "text"),
    [
        (120, "running  demo-rehearsal-20261124-061848-0936  1m24s  on local  rehearsal  made up"),
        (80, "running  demo-rehearsal-20261124-061848-0936  1m24s  on local  rehearsal"),
        (66, "running  demo-rehearsal-20261124-061848-0936  1m24s  rehearsal"),
        (60, "running  demo-rehearsal-…124-061848-0936  1m24s  rehearsal"),
    ],
)
async def test_a_headline_drops_dim_cells_and_then_shortens_the_name_of_the_run(width: int, text: str) -> None:
    app = LinesApp()
    async with app.run_test(size=(width, 10)) as pilot:
        headline = app.query_one(Headline)
        headline.show([IDENTITY])
        await pilot.pause()
        assert headline.render_line(0).text.strip() == text


async def test_tabs_beyond_an_edge_are_marked_and_the_active_tab_is_whole() -> None:
    app = LinesApp()
    async with app.run_test(size=(60, 10)) as pilot:
        tabs = app.query_one(TabBar)
        assert tabs.render_line(0).text.startswith(" merged ")
        assert tabs.render_line(0).text.endswith(" ›")
        for worker in (30, 63, 0):
            tabs.choose(str(worker))
            await pilot.pause()
            text = tabs.render_line(0).text
            assert f" worker {worker} " in text
            assert len(text) == tabs.content_size.width
            assert text.startswith("‹ ")
            assert text.endswith(" ›") is (worker != 63)


async def test_a_click_next_to_the_mark_chooses_the_tab_under_it() -> None:
    app = LinesApp()
    async with app.run_test(size=(60, 10)) as pilot:
        tabs = app.query_one(TabBar)
        tabs.choose("30")
        await pilot.pause()
        place = tabs.render_line(0).text.index("worker 28")
        await pilot.click(TabBar, offset=(place + 2, 0))
        assert tabs.active == "28"


FIGURES = [
    Cell("epoch 2"),
    Cell("step 400"),
    Cell("0.312 s/step", "dim"),
    Cell("loss 1.23456", "accent"),
    Cell("(1.234–1.236)", "dim"),
    Cell("1,234.5 examples/s", "good"),
    Cell("8 of 8 cores"),
    Cell("best accuracy 71.25 %"),
]


@pytest.mark.parametrize(
    ("width", "left_out"),
    [
        (118, []),
        (104, ["(1.234–1.236)"]),
        (100, ["0.312 s/step", "(1.234–1.236)"]),
        (82, ["(1.234–1.236)", "best accuracy 71.25 %"]),
    ],
)
def test_figures_are_shown_as_far_as_they_fit_the_dim_ones_last(width: int, left_out: list[str]) -> None:
    shown = fit_cells(FIGURES, [len(cell.text) for cell in FIGURES], width)
    assert [cell.text for cell in FIGURES if cell not in shown] == left_out


async def test_a_problem_whose_layout_was_lost_gets_its_room_when_it_is_shown_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    app, long = LinesApp(), Problem(("straggler: core 1; " * 10,), "warn")
    async with app.run_test(size=(80, 24)) as pilot:
        panel = ProblemPanel()
        await app.mount(panel)
        panel.show(Problem(("straggler: core 1",), "warn"))
        await until(pilot, lambda: panel.size.height == 1)
        await pilot.pause()
        with monkeypatch.context() as patched:
            patched.setattr(panel, "refresh", lambda *_, **__: panel)
            panel.show(long)
        await pilot.pause()
        assert panel.size.height == 1
        panel.show(long)
        await pilot.pause()
        assert panel.size.height == panel.rows(80) == 3
