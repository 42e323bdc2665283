"""Tests of what the run screen says about failures, launches that fail, lost workers and findings."""

from __future__ import annotations

import re

import pytest

from tests.console.driving import (
    FULL,
    SMALL,
    dialog_text,
    fail,
    headline,
    opened_run,
    running,
    shown,
    table,
    trouble,
    until,
)
from tests.console.stage import StageOperator, a_slice, make_run
from tui.console.screens.dialog import TextDialog
from tui.console.widgets.log.log_pane import LogPane
from tui.console.widgets.problem_panel import ProblemPanel
from tui.console.widgets.tab_bar import TabBar
from tui.console.widgets.tables.core_table_widget import CoreTableWidget
from tui.runs.record.run_directory import RunDirectory

pytestmark = pytest.mark.timing


@pytest.mark.parametrize("size", [SMALL, FULL])
async def test_a_failed_run_quotes_the_failing_worker_and_leads_to_its_log(
    operator: StageOperator, size: tuple[int, int]
) -> None:
    directory = running(operator)
    fail(directory)
    async with opened_run(operator, directory, size) as (app, pilot):
        panel = app.screen.query_one(ProblemPanel)
        drawn = lambda: "\n".join(panel.render_line(y).text for y in range(panel.size.height))  # noqa: E731
        await until(pilot, lambda: "✗ worker 2: exit code 1" in drawn())
        assert "FileNotFoundError: shard-00031.tar" in drawn()
        tabs = app.screen.query_one("#log-tabs", TabBar)
        await pilot.press("3")
        await until(pilot, lambda: tabs.render_line(0).text.split()[:4] == ["merged", "✗", "worker", "2"])
        red = tabs.get_component_rich_style("tabs--bad").color
        assert [part.text for part in tabs.render_line(0) if part.style and part.style.color == red] == [
            " ✗ worker 2 "
        ]
        await pilot.press("l")
        await until(pilot, lambda: app.screen.chosen_worker() == 2)  # type: ignore[attr-defined]
        await until(pilot, lambda: "FileNotFoundError" in shown(app.screen.query_one(LogPane)))


async def test_the_cores_of_a_failed_worker_are_marked_by_a_sign_and_a_colour(operator: StageOperator) -> None:
    directory = running(operator)
    fail(directory)
    async with opened_run(operator, directory) as (app, pilot):
        cores = app.screen.query_one(CoreTableWidget)
        await until(pilot, lambda: cores.row_count() == 32)
        await until(pilot, lambda: cores.row_cells(16)[2] == ("✗ failed", "bad"))
        assert [row for row in range(32) if "failed" in cores.row_cells(row)[2].text] == list(range(16, 24))
        assert cores.row_cells(16)[0].tone == "bad"


async def test_a_failed_worker_of_a_live_run_is_not_counted_and_l_leads_to_its_log(operator: StageOperator) -> None:
    directory = running(operator)
    fail(directory, over=False)
    async with opened_run(operator, directory) as (app, pilot):
        await until(pilot, lambda: "24 of 32 cores" in headline(app))
        rates = [250 + core % 7 * 3.1 - (90 if core == 13 else 0) for core in (*range(16), *range(24, 32))]
        assert f"{sum(rates):,.1f} ex/s" in headline(app)
        await pilot.press("l")
        await until(pilot, lambda: app.screen.chosen_worker() == 2)  # type: ignore[attr-defined]


async def test_the_problem_panel_reacts_to_keys_and_the_mouse(operator: StageOperator) -> None:
    directory = running(operator)
    fail(directory)
    async with opened_run(operator, directory) as (app, pilot):
        await until(pilot, lambda: "exit code 1" in trouble(app))
        await until(pilot, lambda: app.screen.query_one(ProblemPanel).region.area)
        app.screen.query_one(ProblemPanel).focus()
        await pilot.press("enter")
        await until(pilot, lambda: app.screen.chosen_worker() == 2)  # type: ignore[attr-defined]
        app.screen.show_log("merged")  # type: ignore[attr-defined]
        await until(pilot, lambda: app.screen.chosen_worker() is None)  # type: ignore[attr-defined]
        await pilot.click(ProblemPanel)
        await until(pilot, lambda: app.screen.chosen_worker() == 2)  # type: ignore[attr-defined]


async def test_a_silent_worker_and_the_remedy_for_a_lost_slice_are_shown(operator: StageOperator) -> None:
    directory = running(operator, trained=range(0, 20, 5))
    async with opened_run(operator, directory) as (app, pilot):
        directory.append_event("note", text="worker 2 is silent", stall="silent", workers=[2], cores=[])
        await until(pilot, lambda: "worker 2: no output" in trouble(app))
        directory.append_event(
            "state", state="lost", cause="the slice was preempted", remedy="tpu-tui slices start my-tpu"
        )
        await until(pilot, lambda: "→ tpu-tui slices start my-tpu" in trouble(app))
        assert "silent" not in trouble(app)


async def test_a_resolved_problem_keeps_its_line(operator: StageOperator) -> None:
    directory = running(operator, trained=range(0, 20, 5))
    directory.append_event("link", worker=1, status="lost", detail="")
    async with opened_run(operator, directory) as (app, pilot):
        await until(pilot, lambda: "connection lost: worker 1" in trouble(app))
        top = app.screen.query_one("#upper").region.y
        directory.append_event("link", worker=1, status="restored", detail="")
        await until(pilot, lambda: "Resolved" in trouble(app))
        assert app.screen.query_one("#upper").region.y == top


async def test_a_failed_phase_is_shown_in_full_with_its_remedy(operator: StageOperator) -> None:
    remedy = "make it readable: sudo chmod a+rX /usr/share/tpu on every worker of the slice, then launch again"
    directory = RunDirectory.create(operator.settings.runs_home, make_run(a_slice()))
    directory.append_event("state", state="preparing")
    directory.append_event("phase", worker=2, phase="prepare", status="failed", detail="no devices", remedy=remedy)
    directory.append_event("state", state="failed", cause="the launch failed")
    async with opened_run(operator, directory, SMALL) as (app, pilot):
        panel = app.screen.query_one(ProblemPanel)
        drawn = lambda: " ".join(panel.render_line(y).text.strip() for y in range(panel.size.height))  # noqa: E731
        await until(pilot, lambda: remedy in drawn())
        await pilot.press("down", "down", "enter")
        await until(pilot, lambda: isinstance(app.screen, TextDialog))
        assert remedy in dialog_text(app)


def fail_prepare(directory: RunDirectory, worker: int, detail: str, remedy: str) -> None:
    directory.append_event("phase", worker=worker, phase="prepare", status="failed", detail=detail, remedy=remedy)


async def test_equal_launch_failures_are_shown_once_and_no_log_is_offered(operator: StageOperator) -> None:
    directory = RunDirectory.create(operator.settings.runs_home, make_run(a_slice()))
    directory.append_event("state", state="preparing")
    for worker in (0, 1, 2):
        held = f"another run is alive here: run night pid {4700 + worker}"
        fail_prepare(directory, worker, held, "stop it")
    fail_prepare(directory, 3, "no room", "make some")
    cause = "worker 1: another run is alive here: run night pid 4701"
    directory.append_event("failure", worker=1, exit_code=None, cause=cause)
    directory.append_event("state", state="failed", cause=cause)
    async with opened_run(operator, directory, SMALL) as (app, pilot):
        expected = [cause, "same on workers 0,2 → stop it", "worker 3, prepare: no room → make some"]
        await until(pilot, lambda: trouble(app).splitlines() == expected)
        assert shown(table(app, "phases")).splitlines()[4].split() == ["3", "done", "failed", "·", "no", "room"]


async def test_findings_stay_visible_when_the_run_is_over(operator: StageOperator) -> None:
    directory = running(operator, trained=range(0, 100, 5))
    directory.append_event("note", worker=1, text="x", stall="behind", workers=[1], cores=[13])
    async with opened_run(operator, directory) as (app, pilot):
        await until(pilot, lambda: "straggler: core 13 (worker 1, 10.164.0.44): 6" in trouble(app))
        assert re.search(r"% of the pace, \d+ steps behind$", trouble(app))
        directory.append_event("stop_requested", by="user")
        for worker in range(4):
            directory.append_event("exit", worker=worker, exit_code=143, signal="TERM")
        directory.append_event("state", state="stopped")
        await until(pilot, lambda: "stopped" in headline(app))
        await until(pilot, lambda: "core 13 (worker 1, 10.164.0.44) was 35 steps behind when" in trouble(app))
        assert "the loss was nan on core 22 (worker 2, 10.164.0.45), since epoch 1, step 65" in trouble(app)
        assert "nan c22 · behind c13" in headline(app)
        assert "level" not in trouble(app)
