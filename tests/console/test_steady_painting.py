from __future__ import annotations

import math
from pathlib import Path
from typing import ClassVar

import pytest
from textual.app import App, ComposeResult
from textual.binding import Binding
from textual.events import Key
from textual.screen import Screen
from textual.widgets import Static

from tests.console.driving import FULL, SMALL, fail, headline, opened_pod, running, table, until
from tests.console.stage import StageOperator, train
from tests.console.test_log_pane import WidgetApp, append_numbered, open_pane, shown
from tui.console.app import COVERED_SCREEN_TICKS, ConsoleApp
from tui.console.screens.run import RunScreen
from tui.console.widgets.footer import KeyFooter, ShownKey
from tui.console.widgets.headline import Headline
from tui.console.widgets.log.log_pane import LogPane
from tui.console.widgets.panes.pane import Pane
from tui.console.widgets.tables.table_columns import Cell

pytestmark = pytest.mark.timing


async def test_a_log_that_grows_by_screenfuls_is_not_painted_for_each_screenful(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, pane = tmp_path / "log", LogPane()
    append_numbered(path, 100)
    async with WidgetApp(pane).run_test(size=(40, 10)) as pilot:
        await open_pane(pilot, pane, path)
        monkeypatch.setattr("tui.console.widgets.log.log_pane.PAINT_INTERVAL_S", math.inf)
        append_numbered(path, 100, 100)
        pane.tick()
        assert shown(pane)[-1] == "line 000099"
        monkeypatch.setattr("tui.console.widgets.log.log_pane.PAINT_INTERVAL_S", 0.0)
        pane.tick()
        assert shown(pane)[-1] == "line 000199"


class HeadlineApp(App[None]):
    def compose(self) -> ComposeResult:
        yield Headline()


async def test_a_headline_too_long_for_the_screen_leaves_out_the_least_important_cells() -> None:
    app = HeadlineApp()
    async with app.run_test(size=(30, 5)):
        headline = app.query_one(Headline)
        headline.show([[Cell("loss 2.31292", "accent"), Cell("(2.31–2.32)", "dim"), Cell("8 of 128 cores", "warn")]])
        assert headline.render_line(0).text.strip() == "loss 2.31292  8 of 128 cores"[: headline.size.width]


async def test_a_subtitle_repaints_its_own_edge_only(tmp_path: Path) -> None:
    log = LogPane()
    pane = Pane("logs", log)

    class PaneApp(App[None]):
        def compose(self) -> ComposeResult:
            yield pane

    async with PaneApp().run_test(size=(40, 10)) as pilot:
        await open_pane(pilot, log, tmp_path / "log")
        pane.set_subtitle("1,000 lines")
        assert [(region.y, region.height) for region in pane._exchange_repaint_regions()] == [(9, 1)]


async def test_a_headline_keeps_the_state_of_the_run_even_if_it_is_dim() -> None:
    app = HeadlineApp()
    async with app.run_test(size=(30, 5)):
        headline = app.query_one(Headline)
        headline.show([[Cell("stopped", "dim"), Cell("night-20261123"), Cell("on pod", "dim"), Cell("exit 143 143")]])
        assert headline.render_line(0).text.strip() == "stopped  night-20261123"


async def test_a_figure_is_shown_whole_on_the_headline_or_not_at_all() -> None:
    app = HeadlineApp()
    async with app.run_test(size=(30, 5)):
        headline = app.query_one(Headline)
        headline.show([[Cell("epoch 3"), Cell("loss 0.74"), Cell("best accuracy 52.76 %")]])
        assert headline.render_line(0).text.strip() == "epoch 3  loss 0.74"
        for rate, spread in (("99.5 ex/s", "(0.7–0.8)"), ("1,001.7 ex/s", ""), ("99.4 ex/s", "")):
            headline.show([[Cell("loss 1"), Cell("(0.7–0.8)", "dim"), Cell(rate, "good")]])
            columns = headline.render_line(0).text.strip().split("  ")
            assert columns[1:-1] == [spread] * bool(spread), (
                "a cell does not appear and disappear with another's width"
            )


@pytest.mark.parametrize("size", [(80, 24), (140, 44)])
async def test_a_run_screen_has_its_final_layout_from_the_start(
    operator: StageOperator, size: tuple[int, int]
) -> None:
    directory = running(operator, trained=range(0, 20, 5))
    app = ConsoleApp(operator)
    async with app.run_test(size=size) as pilot:
        await until(pilot, lambda: table(app, "runs").row_count())
        app.open_run(directory)
        await until(pilot, lambda: isinstance(app.screen, RunScreen) and app.screen.query("#pane-logs"))
        screen = app.screen
        assert screen.has_class("-short") is (size[1] < 34)
        assert screen.query_one("#lower").has_class("-away") is (size[1] < 34)
        assert directory.id in headline(app)


async def test_a_key_right_after_a_change_of_the_pane_acts_on_the_new_pane(operator: StageOperator) -> None:
    directory = running(operator)
    app = ConsoleApp(operator)
    async with app.run_test(size=FULL) as pilot:
        await until(pilot, lambda: table(app, "runs").row_count() and table(app, "slices").row_count())
        await pilot.press("3")
        for key in ("4", "enter"):
            app.post_message(Key(key, None))
        await until(pilot, lambda: len(app.screen_stack) > 1)
        assert isinstance(app.screen, RunScreen)
        assert app.screen.feed.title == directory.id


@pytest.mark.parametrize("width", [40, 80, 120, 200])
async def test_the_line_of_keys_shows_the_keys_that_fit_and_cuts_none(operator: StageOperator, width: int) -> None:
    async with opened_pod(operator, (140, 30)) as (app, pilot):
        await pilot.resize_terminal(width, 30)
        footer = app.screen.query_one(KeyFooter)
        await until(pilot, lambda: footer.size.width == width and footer.keys)
        texts = names_of(footer)
        assert footer.render_line(0).text.rstrip() == " ".join(texts)
        assert texts[0] == "⏎ Open"
        is_whole = width >= 200
        assert texts[-1] == ("? Help" if is_whole else "? More")
        assert ("^d Delete" in texts) is is_whole
        assert (": Commands" in texts) is (width >= 80)


def names_of(footer: KeyFooter) -> list[str]:
    return [f"{key.display} {key.description}" for key in footer.keys]


class Plain(Static, can_focus=True):
    pass


class Keyed(Static, can_focus=True):
    BINDINGS: ClassVar = [Binding("x", "ring", "Ring")]


async def test_the_line_of_keys_is_painted_again_only_for_other_keys_and_a_click_presses_one() -> None:
    pressed: list[str] = []

    class Keys(App[None]):
        BINDINGS: ClassVar = [Binding("a", "note", "All")]

        def compose(self) -> ComposeResult:
            yield from (Plain(id="first"), Plain(id="second"), Keyed(id="third"), KeyFooter())

        def action_note(self) -> None:
            pressed.append("a")

    app = Keys()
    async with app.run_test(size=FULL) as pilot:
        footer = app.query_one(KeyFooter)

        async def focus(name: str) -> tuple[ShownKey, ...]:
            app.query_one(f"#{name}").focus()
            await until(pilot, lambda: app.focused is not None and app.focused.id == name)
            await pilot.pause()
            return footer.keys

        await until(pilot, lambda: names_of(footer) == ["a All"])
        at_first = await focus("first")
        assert await focus("second") is at_first, "the keys were made again"
        await focus("third")
        await until(pilot, lambda: names_of(footer) == ["x Ring", "a All"])
        await pilot.click(KeyFooter, offset=(8, 0))
        await until(pilot, lambda: pressed == ["a"])


async def test_a_screen_below_a_dialog_is_painted_rarely(
    operator: StageOperator, monkeypatch: pytest.MonkeyPatch
) -> None:
    painted: list[int] = []
    app = ConsoleApp(operator, open_run=running(operator))
    async with app.run_test(size=FULL) as pilot:
        await until(pilot, lambda: isinstance(app.screen, RunScreen) and app.screen.ready)
        monkeypatch.setattr(RunScreen, "tick", lambda _: painted.append(1))
        for _ in range(COVERED_SCREEN_TICKS):
            app._tick()
        assert len(painted) >= COVERED_SCREEN_TICKS
        await pilot.press("question_mark")
        await until(pilot, lambda: not isinstance(app.screen, RunScreen))
        painted.clear()
        for _ in range(2 * COVERED_SCREEN_TICKS):
            app._tick()
        assert 2 <= len(painted) <= 3


@pytest.mark.parametrize("fails", [False, True], ids=["running", "failed"])
async def test_the_panes_of_a_run_have_their_final_places_from_the_first_paint_on(
    operator: StageOperator, monkeypatch: pytest.MonkeyPatch, fails: bool
) -> None:
    directory = running(operator, cores_per_worker=2)
    train(directory, range(0, 50, 10), cores=2)
    if fails:
        fail(directory, cause="worker 2 exited with 1: " + "x y " * 60)
    app = ConsoleApp(operator, open_run=directory)
    display, seen = app._display, set()

    def painted(screen: Screen[None], renderable: object) -> None:
        if isinstance(screen, RunScreen):
            seen.add(tuple(screen.query_one(f"#pane-{name}").region for name in ("cores", "charts", "logs")))
        display(screen, renderable)

    monkeypatch.setattr(app, "_display", painted)
    async with app.run_test(size=SMALL) as pilot:
        await until(pilot, lambda: isinstance(app.screen, RunScreen) and app.screen.ready)
        await until(pilot, lambda: table(app, "cores").rows_drawn)
        app._tick()
        await pilot.pause()
    assert len(seen) == 1
