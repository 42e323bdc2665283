from __future__ import annotations

import gc
import shutil
import weakref
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from textual.widgets import Static

from tests.console.driving import (
    FULL,
    SMALL,
    dialog_text,
    headline,
    opened_pod,
    opened_run,
    running,
    shown,
    table,
    until,
)
from tests.console.stage import StageOperator, a_slice, make_run, train, unreachable
from tui.checks.check_row import CheckRow
from tui.cloud.inventory import Listing
from tui.console.actions.command_palette import list_entries
from tui.console.app import ConsoleApp
from tui.console.data.pollers import FIGURES, FIRST_RUNS_COUNT, RUNS
from tui.console.render import pod_rows
from tui.console.screens.base import MainScreen
from tui.console.screens.dialog import TextDialog
from tui.console.screens.help import format_help
from tui.console.screens.pod import PodScreen
from tui.console.screens.run import RunScreen
from tui.console.widgets.panes.pane import Pane
from tui.console.widgets.tables.core_table_widget import CoreTableWidget
from tui.runs.read.latest_figures import LatestFigures
from tui.runs.record.run_directory import RunDirectory
from tui.runs.record.run_status import status_of

pytestmark = pytest.mark.timing


@pytest.mark.py310
async def test_the_pod_screen_shows_slices_workers_checks_and_runs(operator: StageOperator) -> None:
    running(operator)
    operator.rows = [
        CheckRow("reachability", 3, None, 22, "fail", "closed", "connection refused"),
        CheckRow("ports", 0, 1, 8476, "pass", "closed", "the firewall lets it through"),
    ]
    app = ConsoleApp(operator)
    async with app.run_test(size=FULL) as pilot:
        await until(pilot, lambda: "connection" in shown(table(app, "checks")))
        assert "PREEMPTED" in shown(table(app, "slices"))
        await until(pilot, lambda: "connection refused" in shown(table(app, "workers")))
        await until(pilot, lambda: "running" in shown(table(app, "runs")))
        assert "10.164.0.46" in shown(table(app, "workers"))
        assert "project my-project" in headline(app)


async def test_checks_are_grouped_and_enter_shows_one_in_full_with_the_ports_as_a_matrix(
    operator: StageOperator,
) -> None:
    pairs = [(one, other) for one in range(4) for other in range(4) if one != other]
    operator.rows = [CheckRow("disk", worker, None, None, "pass", None, f"{worker} GiB free") for worker in range(4)]
    operator.rows += [
        CheckRow("ports", one, other, 8476, "fail", "filtered", "no answer", "open tcp:8476")
        if 2 in (one, other)
        else CheckRow("ports", one, other, 8476, "pass", "closed", "refused")
        for one, other in reversed(pairs)  # workers answer in any order
    ]
    app = ConsoleApp(operator)
    async with app.run_test(size=FULL) as pilot:
        await until(pilot, lambda: "filtered" in shown(table(app, "checks")))
        lines = [line.split() for line in shown(table(app, "checks")).splitlines()[1:] if line.split()]
        assert [line[:2] for line in lines] == [["fail", "ports"], ["pass", "disk"], ["pass", "ports"]]
        assert lines[1][2] == "0-3"
        await pilot.press("3", "enter")
        await until(pilot, lambda: isinstance(app.screen, TextDialog))
        text = dialog_text(app)
        assert "→ open tcp:8476" in text
        assert "2   X X X" in text
        listed = [line.split(" tcp")[0] for line in text.splitlines() if line.startswith("worker") and "→" in line]
        assert listed == [f"worker {one} → worker {other}" for one, other in pairs if 2 in (one, other)]


async def test_passed_checks_take_one_line_until_their_key_is_pressed_or_one_fails(operator: StageOperator) -> None:
    operator.rows = [CheckRow(check, None, None, None, "pass", None, "well") for check in ("slice", "health")]
    app = ConsoleApp(operator)
    async with app.run_test(size=FULL) as pilot:
        checks, workers = app.screen.query_one("#pane-checks"), app.screen.query_one("#pane-workers")
        await until(pilot, lambda: not checks.region and "✓ 2 checks passed" in str(workers.border_subtitle))
        assert "HEALTHY" in shown(table(app, "slices"))
        assert "v3-32" in shown(table(app, "slices"))
        await pilot.press("3")
        await until(pilot, lambda: checks.region and table(app, "checks").has_focus)
        assert "well" in shown(table(app, "checks"))
        await pilot.press("1")
        await until(pilot, lambda: not checks.region)
        operator.rows = [CheckRow("slice", None, None, None, "warn", None, "about to be preempted")]
        await pilot.press("c", "1")
        await until(pilot, lambda: checks.region and "preempted" in shown(table(app, "checks")))
        assert "checks passed" not in str(workers.border_subtitle)


async def test_what_was_seen_of_the_machines_of_before_is_dropped_and_seen_anew(operator: StageOperator) -> None:
    operator.rows = [CheckRow("slice", None, None, None, "warn", None, "READY and HEALTHY")]
    before, *others = operator.listed.slices
    async with opened_pod(operator) as (app, pilot):
        workers, checks = (lambda name=name: shown(table(app, name)) for name in ("workers", "checks"))
        await until(pilot, lambda: "refused" in workers() and "READY" in checks())
        operator.listed = Listing((replace(before, state="PREEMPTED"), *others))
        app.pollers.refresh()
        await until(pilot, lambda: "refused" not in workers() and "READY" not in checks())
        operator.rows = [CheckRow("slice", None, None, None, "warn", None, "back again")]
        operator.listed = Listing((before, *others))
        app.pollers.refresh()
        await until(pilot, lambda: "refused" in workers() and "back again" in checks())
        operator.rows = [CheckRow("slice", None, None, None, "warn", None, "made anew")]
        operator.listed = Listing((replace(before, created="2026-11-22T10:00:00Z"), *others))
        app.pollers.refresh()
        await until(pilot, lambda: "made anew" in checks())
        operator.listed = Listing(())
        app.pollers.refresh()
        await until(pilot, lambda: "made anew" not in checks())
        operator.rows = [CheckRow("slice", None, None, None, "warn", None, "never seen")]
        operator.listed = Listing((replace(before, created="2026-11-23T10:00:00Z"),))
        app.pollers.refresh()
        await until(pilot, lambda: "never seen" in checks())


async def test_nothing_is_kept_of_a_run_whose_directory_is_gone(operator: StageOperator) -> None:
    directory = running(operator)
    directory.append_event("state", state="succeeded")
    async with opened_pod(operator) as (app, pilot):
        await until(pilot, lambda: "succeeded" in shown(table(app, "runs")) and app.store.get(FIGURES).value)
        status = weakref.ref((app.store.get(RUNS).value or ())[0])
        shutil.rmtree(directory.path)
        await until(pilot, lambda: not table(app, "runs").row_count())
        await until(pilot, lambda: gc.collect() >= 0 and status() is None)


PREEMPTION = "about to be preempted: Google Cloud wants it back"


@pytest.mark.parametrize("size", [SMALL, (110, 30), (120, 40), (200, 60)])
async def test_a_wider_screen_cuts_neither_slices_nor_checks(operator: StageOperator, size: tuple[int, int]) -> None:
    operator.rows = [CheckRow("slice", None, None, None, "warn", None, PREEMPTION)]
    app = ConsoleApp(operator)
    async with app.run_test(size=size) as pilot:
        await pilot.press("3")
        await until(pilot, lambda: PREEMPTION in shown(table(app, "checks")))
        await pilot.press("1")
        await until(pilot, lambda: table(app, "slices").region)
        header = shown(table(app, "slices")).splitlines()[0]
        assert header.split()[:6] == ["slice", "state", "health", "type", "wkrs", "cores"]


@pytest.mark.py310
async def test_a_failing_source_shows_its_error_and_keeps_its_last_answer(operator: StageOperator) -> None:
    app = ConsoleApp(operator)
    async with app.run_test(size=FULL) as pilot:
        await until(pilot, lambda: "my-tpu" in shown(table(app, "slices")))
        operator.listed = unreachable()  # type: ignore[assignment]
        app.pollers.refresh()
        pane = app.screen.query_one("#pane-slices", Pane)
        await until(pilot, lambda: "did not answer" in str(pane.query_one(".problem", Static).content))
        assert "check the network" in str(pane.query_one(".problem", Static).content)
        assert "my-tpu" in shown(table(app, "slices"))
        assert not app.screen.query_one("#pane-runs .problem", Static).display


@pytest.mark.parametrize("size", [SMALL, (120, 40), (200, 60)])
async def test_without_a_list_of_slices_the_first_commands_and_the_whole_error_are_shown(
    own_home: Path, size: tuple[int, int]
) -> None:
    operator = StageOperator(own_home)
    operator.listed = unreachable()  # type: ignore[assignment]
    app = ConsoleApp(operator)
    async with app.run_test(size=size) as pilot:
        await until(pilot, lambda: "tpu-tui demo" in shown(table(app, "slices")))
        pane = app.screen.query_one("#pane-slices", Pane)
        problem = pane.query_one(".problem", Static)
        await until(pilot, lambda: problem.region.height > 1)
        assert "gcloud auth application-default login" in shown(table(app, "slices"))
        await pilot.press("c", "3")
        await pilot.pause()
        assert not app.screen.query_one("#pane-checks").region
        operator.listed = Listing((a_slice(),))
        app.pollers.refresh()
        await until(pilot, lambda: "my-tpu" in shown(table(app, "slices")))
        await until(pilot, lambda: size == SMALL or app.screen.query_one("#pane-checks").region)


async def test_a_partial_answer_shows_its_slices_its_errors_and_what_it_lacks(operator: StageOperator) -> None:
    operator.listed = Listing((a_slice(),), (unreachable(),), ("instance groups are not shown",))
    app = ConsoleApp(operator)
    async with app.run_test(size=FULL) as pilot:
        await until(pilot, lambda: "my-tpu" in shown(table(app, "slices")))
        assert "did not answer" in str(app.screen.query_one("#pane-slices .problem", Static).content)
        subtitle = str(app.screen.query_one("#pane-slices", Pane).border_subtitle)
        assert subtitle == "1 slice · instance groups are not shown"


async def test_keys_work_while_a_source_hangs(operator: StageOperator) -> None:
    operator.hang = True
    running(operator)
    app = ConsoleApp(operator)
    async with app.run_test(size=FULL) as pilot:
        await until(pilot, lambda: "running" in shown(table(app, "runs")))
        await pilot.press("4", "enter")
        await until(pilot, lambda: isinstance(app.screen, RunScreen))


CHANGING = {"n", "x", "ctrl+k", "s"}


@pytest.mark.parametrize("read_only", [False, True])
async def test_a_read_only_console_binds_no_key_that_changes_something(own_home: Path, read_only: bool) -> None:
    operator = StageOperator(own_home, a_slice(), read_only=read_only)
    directory = running(operator)
    async with opened_pod(operator) as (app, pilot):
        for _ in range(2):
            assert CHANGING & set(app.screen.active_bindings) == (set() if read_only else CHANGING)
            assert isinstance(app.screen, MainScreen)
            names = " ".join(name for name, _, _ in list_entries(app.screen))
            assert ("New run" in names or "Stop" in names or "Shell" in names) is not read_only
            if isinstance(app.screen, PodScreen):
                keys = {app.screen.active_bindings[key].binding.action for key in ("N", "S", "X", "ctrl+d")}
                assert (keys == {"refuse_change"}) is read_only
                assert ("Delete my-tpu" in names) is not read_only
                app.open_run(directory)
                await until(pilot, lambda: isinstance(app.screen, RunScreen) and app.screen.ready)
        assert ("Stop" in format_help(app.screen, [])) is not read_only


async def test_describe_shows_the_chosen_slice(operator: StageOperator) -> None:
    async with opened_pod(operator) as (app, pilot):
        await pilot.press("down", "d")
        await until(pilot, lambda: isinstance(app.screen, TextDialog))
        text = str(app.screen.query_one("#reading Static", Static).content)
        assert "state: PREEMPTED" in text.splitlines()


async def test_a_rehearsal_is_marked_in_the_list_and_on_its_screen(operator: StageOperator) -> None:
    directory = running(operator, argv=("python3", "-m", "tui.localpod.rehearsal"))
    app = ConsoleApp(operator)
    async with app.run_test(size=SMALL) as pilot:
        await until(pilot, lambda: "rehearsal" in shown(table(app, "runs")))
        app.open_run(directory)
        await until(pilot, lambda: isinstance(app.screen, RunScreen) and app.screen.ready)
        await until(pilot, lambda: "figures are made up" in headline(app))


async def test_the_list_of_runs_shows_progress_and_causes_of_failures(operator: StageOperator) -> None:
    directory = running(operator)
    train(directory, range(0, 40, 10), cores=4, epoch=3)
    failed = running(operator, id="other-20261121-080000-c3d4")
    train(failed, [10], cores=4)
    failed.append_event("state", state="failed", cause="worker 2 ended with exit code 1")
    app = ConsoleApp(operator)
    async with app.run_test(size=FULL) as pilot:
        await until(pilot, lambda: "step 30 epoch 3" in shown(table(app, "runs")))
        train(directory, [40], cores=4, epoch=3)
        await until(pilot, lambda: "step 40 epoch 3" in shown(table(app, "runs")))
        [line] = [line for line in shown(table(app, "runs")).splitlines() if "failed" in line]
        assert "worker 2 ended" in line
        assert "loss" not in line


async def test_a_click_chooses_and_a_double_click_opens(operator: StageOperator) -> None:
    directory = running(operator, trained=range(0, 20, 5))
    async with opened_run(operator, directory) as (app, pilot):
        await until(pilot, lambda: app.screen.query_one(CoreTableWidget).row_count())
        cores = app.screen.query_one(CoreTableWidget)
        await until(pilot, lambda: cores.size.height > 12)
        await pilot.click(CoreTableWidget, offset=(6, 10))
        assert cores.cursor_key == 9
        await pilot.click(CoreTableWidget, offset=(6, 10), times=2)
        await until(pilot, lambda: app.screen.chosen_worker() == 1)  # type: ignore[attr-defined]


async def test_d_describes_the_worker_and_c_focuses_the_checks(operator: StageOperator) -> None:
    app = ConsoleApp(operator)
    async with app.run_test(size=SMALL) as pilot:
        await until(pilot, lambda: table(app, "workers").row_count() == 4)
        await pilot.press("2", "down", "d")
        await until(pilot, lambda: isinstance(app.screen, TextDialog) and app.screen.is_mounted)
        assert "t1v-n-5f3a91c2-w-1" in dialog_text(app)
        assert "w-0" not in dialog_text(app)
        await pilot.press("escape", "c")
        await until(pilot, lambda: table(app, "checks").has_focus)


def test_a_restarted_run_shows_its_newest_figures_and_why_it_was_restarted(operator: StageOperator) -> None:
    directory = running(operator, trained=range(0, 20, 5))
    directory.append_event("state", state="preparing", attempt=1, cause="restart 1 of 2: it was preempted")
    waiting = pod_rows.format_latest(status_of(directory), LatestFigures(1, 20, 0.5))
    assert waiting.text == "restart 1 of 2: it was preempted"
    directory.append_event("state", state="running")
    again = pod_rows.format_latest(status_of(directory), LatestFigures(1, 20, 0.5))
    assert again.text == "loss 0.50000 step 20 epoch 1 · restart 1 of 2: it was preempted"


async def test_empty_lists_show_the_next_step(own_home: Path) -> None:
    app = ConsoleApp(StageOperator(own_home))
    async with app.run_test(size=SMALL) as pilot:
        await until(pilot, lambda: "slices create" in shown(table(app, "slices")))
        await until(pilot, lambda: "Press n to launch one" in " ".join(shown(table(app, "runs")).split()))
        await pilot.press("d", "n")
        assert isinstance(app.screen, PodScreen)
        messages = [notification.message for notification in app._notifications]
        assert messages[0] == "Nothing selected"
        assert messages[1].startswith("Nothing to launch on\nno slices in project my-project")


async def test_ended_runs_are_not_read_again_and_their_rows_not_made_again(
    operator: StageOperator, monkeypatch: pytest.MonkeyPatch
) -> None:
    slice_ = a_slice()
    for number in range(FIRST_RUNS_COUNT + 20):
        run = make_run(slice_, id=f"old-20261121-090000-{number:04x}")
        directory = RunDirectory.create(operator.settings.runs_home, run)
        directory.append_event("state", state="running", cause=None)
        directory.append_event("state", state="stopped", cause=None)
    made: list[str] = []
    real = pod_rows.make_run_row
    monkeypatch.setattr(
        pod_rows, "make_run_row", lambda status, *rest: (made.append(status.run.id), real(status, *rest))[1]
    )
    counts: list[int] = []
    list_statuses = operator.runs.list_statuses
    monkeypatch.setattr(
        operator.runs, "list_statuses", lambda **more: (found := list_statuses(**more), counts.append(len(found)))[0]
    )
    app = ConsoleApp(operator)
    async with app.run_test(size=FULL) as pilot:
        await until(pilot, lambda: table(app, "runs").row_count() == FIRST_RUNS_COUNT + 20 and len(counts) > 3)
        assert counts[:2] == [FIRST_RUNS_COUNT, FIRST_RUNS_COUNT + 20]
        # Once for the row, and once more when the newest figures are known.
        assert max(Counter(made).values()) <= 2
        await until(pilot, lambda: len(counts) > 4)
        await until(pilot, lambda: "stopped" in shown(table(app, "runs")))
        assert max(Counter(made).values()) <= 2


async def test_runs_of_other_projects_are_counted_and_shown_on_a_key(operator: StageOperator) -> None:
    run = running(operator)
    other = make_run(a_slice(), id="theirs-20261121-090000-a1b2", project="elsewhere")
    RunDirectory.create(operator.settings.runs_home, other)
    app = ConsoleApp(operator)
    async with app.run_test(size=FULL) as pilot:
        await until(pilot, lambda: run.id in shown(table(app, "runs")))
        assert other.id not in shown(table(app, "runs"))
        pane = app.screen.query_one("#pane-runs")
        await until(
            pilot, lambda: "1 run of other projects hidden: press a to show them" in str(pane.border_subtitle)
        )
        await pilot.press("a")
        await until(pilot, lambda: other.id in shown(table(app, "runs")))
        await until(pilot, lambda: "hidden" not in str(pane.border_subtitle))


async def test_a_row_of_the_list_shows_what_is_wrong_with_the_cores_of_its_run(operator: StageOperator) -> None:
    directory = running(operator, trained=range(0, 100, 5))
    directory.append_event("note", worker=1, text="x", stall="behind", workers=[1], cores=[13])
    app = ConsoleApp(operator)
    async with app.run_test(size=FULL) as pilot:
        await until(pilot, lambda: "nan c22 · behind c13 · loss" in shown(table(app, "runs")))
        directory.append_event("stop_requested", by="user")
        directory.append_event("state", state="stopped")
        await until(pilot, lambda: "stopped" in shown(table(app, "runs")))
        assert "nan c22 · behind c13 · loss" in shown(table(app, "runs"))
