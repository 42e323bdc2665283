"""Tests of the console on a terminal of 40 columns and 10 lines, as on a phone or in a small tmux pane."""

from __future__ import annotations

import pytest
from textual.widgets import Button

from tests.console.driving import fail, opened_pod, opened_run, running, shown, table, until
from tests.console.stage import StageOperator
from tui.console.screens.run import RunScreen
from tui.console.screens.stop import StopDialog
from tui.console.widgets.log.log_pane import LogPane
from tui.console.widgets.problem_panel import ProblemPanel

pytestmark = pytest.mark.timing

TINY = (40, 10)


async def test_no_number_of_a_core_is_cut_off(operator: StageOperator) -> None:
    directory = running(operator, trained=range(0, 50, 10))
    async with opened_run(operator, directory, TINY) as (app, pilot):
        await pilot.pause()
        head, first = shown(table(app, "cores")).splitlines()[:2]
        assert head.split() == ["core▲", "state", "step", "loss"]
        core, state, _, loss = first.split()
        assert (core, state) == ("0", "training")
        assert len(loss.partition(".")[2]) == 5


async def test_a_terminal_of_30_by_8_shows_rows_of_every_table(operator: StageOperator) -> None:
    directory = running(operator, trained=range(0, 50, 10))
    async with opened_run(operator, directory, (30, 8)) as (app, pilot):
        await until(pilot, lambda: len(shown(table(app, "cores")).splitlines()) == 4)
        assert [line.split() for line in shown(table(app, "cores")).splitlines()[:2]] == [
            ["core▲", "state", "step"],
            ["0", "training", "40"],
        ]
        await pilot.press("escape")
        await until(pilot, lambda: not isinstance(app.screen, RunScreen))
        await until(pilot, lambda: "my-tpu" in shown(table(app, "slices")))
        await until(pilot, lambda: directory.id[:12] in shown(table(app, "runs")))
        assert shown(table(app, "runs")).splitlines()[1].endswith("running")
        assert not app.screen.show_vertical_scrollbar
        await pilot.resize_terminal(80, 24)
        await until(pilot, lambda: app.screen.query_one("#pane-runs").size.height == 7)


async def test_the_buttons_of_a_question_stay_visible(operator: StageOperator) -> None:
    directory = running(operator, trained=range(0, 50, 10))
    async with opened_run(operator, directory, TINY) as (app, pilot):
        await pilot.press("x")
        await until(pilot, lambda: isinstance(app.screen, StopDialog))
        await pilot.pause()
        for button in app.screen.query(Button):
            assert app.screen.region.contains_region(button.region)
            assert button.region.area


async def test_charts_without_height_for_two_show_the_loss_alone(operator: StageOperator) -> None:
    directory = running(operator, trained=range(0, 50, 10))
    async with opened_run(operator, directory, TINY) as (app, pilot):
        await pilot.press("2")
        await until(pilot, lambda: app.screen.query("#pane-loss") and app.screen.query_one("#pane-loss").size.height)
        await until(pilot, lambda: not app.screen.query_one("#pane-rate").display)
        await pilot.resize_terminal(80, 24)
        await until(pilot, lambda: app.screen.query_one("#pane-rate").display)


@pytest.mark.parametrize("size", [TINY, (80, 24), (200, 60)], ids=["40x10", "80x24", "200x60"])
async def test_the_problem_panel_leaves_room_for_the_panes(operator: StageOperator, size: tuple[int, int]) -> None:
    directory = running(operator)
    fail(directory, cause="worker 2 exited with 1; its last lines: " + "x y " * 200)
    async with opened_run(operator, directory, size) as (app, pilot):
        panel = app.screen.query_one(ProblemPanel)
        drawn = lambda: [panel.render_line(y).text.strip() for y in range(panel.size.height)]  # noqa: E731
        await until(pilot, lambda: panel.size.height and "FileNotFoundError" in drawn()[-1])
        assert drawn()[0].startswith("✗ worker 2 exited with 1; press l")
        assert "x y" not in " ".join(drawn()), "the quoted lines are not shown twice"
        assert panel.size.height <= max(3, size[1] // 3)
        await pilot.press("l")
        log = app.screen.query_one(LogPane)
        await until(pilot, lambda: log.size.height and "FileNotFoundError" in shown(log))
        assert not app.screen.show_vertical_scrollbar


async def test_the_panes_of_the_pod_are_as_wide_as_a_narrow_screen(operator: StageOperator) -> None:
    async with opened_pod(operator, (50, 18)) as (app, pilot):
        await until(pilot, lambda: "READY" in shown(table(app, "slices")))
        assert {app.screen.query_one(name).outer_size.width for name in ("#pane-slices", "#pane-runs")} == {50}
