from __future__ import annotations

import asyncio
import os
import time
from dataclasses import replace

import pytest

from tests.console.driving import FULL, headline, opened_run, running, shown, table, trouble, until
from tests.console.stage import StageOperator, train
from tui.console.actions.runs import KEEPER_TASK, MIN_KEEPER_PAUSE_S
from tui.console.app import ConsoleApp
from tui.console.render.freshness import is_unattended, stale_workers
from tui.console.screens.run import RunScreen
from tui.console.widgets.tables.core_table_widget import CoreTableWidget
from tui.errors import TpuTuiError
from tui.operator import run_watcher
from tui.pod.run import LAST_WORDS
from tui.runs.record.keeper_file import KEEPER_FILE, KeeperStatus
from tui.runs.record.run_directory import RunDirectory
from tui.runs.record.run_status import DISK_IS_FULL

pytestmark = pytest.mark.timing

NOW = 1_790_000_000.0


def abandon(directory: RunDirectory) -> None:
    """Make a run look as if its keeper had ended a minute ago: its file exists, and no process holds the lock."""
    file = directory.path / KEEPER_FILE
    file.write_text("1 0 here")
    os.utime(file, (time.time() - 60,) * 2)


@pytest.mark.parametrize(
    ("keeper", "is_stale"),
    [
        (KeeperStatus(True, NOW - 60), False),
        (KeeperStatus(False, NOW - 1), False),
        (KeeperStatus(False, NOW - 60), True),
        (KeeperStatus(False, None), False),
    ],
    ids=["alive", "just ended", "ended", "never started"],
)
def test_a_run_is_unattended_some_time_after_its_keeper_ended(
    operator: StageOperator, keeper: KeeperStatus, is_stale: bool
) -> None:
    status = replace(operator.runs.status_of(running(operator)), attended=keeper)
    assert is_unattended(status, NOW) is is_stale
    assert stale_workers(status, NOW) == (frozenset(range(4)) if is_stale else frozenset())


async def test_a_run_that_cannot_be_opened_is_reported_once_per_pause(
    operator: StageOperator, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = running(operator)
    abandon(directory)

    def refuse(run_id: str) -> RunDirectory:
        raise TpuTuiError(f"the record of {run_id} is damaged")

    monkeypatch.setattr(operator.runs, "open", refuse)
    app, problems = ConsoleApp(operator), list[TpuTuiError]()
    monkeypatch.setattr(app, "show_error", problems.append)
    clock = [1000.0]
    app.store.clock = lambda: clock[0]
    for seconds, expected in ((0, 1), (1, 1), (MIN_KEEPER_PAUSE_S, 2)):
        clock[0] += seconds
        app.actions.runs.restart_missing_keepers([operator.runs.status_of(directory)])
        assert len(problems) == expected


async def test_an_unattended_run_is_marked_and_gets_a_keeper_from_the_console(
    operator: StageOperator, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[str] = []

    async def start_keeper(directory: RunDirectory) -> bool:
        started.append(directory.id)
        return False

    monkeypatch.setattr(operator.runs, "ensure_keeper", start_keeper)
    directory = running(operator, trained=range(0, 20, 5))
    app = ConsoleApp(operator, open_run=directory)
    clock = [1000.0]
    app.store.clock = lambda: clock[0]
    async with app.run_test(size=FULL) as pilot:
        await until(pilot, lambda: isinstance(app.screen, RunScreen) and app.screen.ready)
        cores = app.screen.query_one(CoreTableWidget)
        await until(pilot, lambda: cores.row_count() == 32)
        started.clear()
        clock[0] += 60
        abandon(directory)
        await until(pilot, lambda: "unattended for" in headline(app))
        await until(pilot, lambda: "No keeper is running" in trouble(app))
        await until(pilot, lambda: shown(cores).count("? frozen") == cores.size.height - 1)
        assert "starts one within ten minutes" in trouble(app)
        await until(pilot, lambda: started == [directory.id])


async def test_a_read_only_console_copies_the_logs_of_an_unattended_run(
    operator: StageOperator, monkeypatch: pytest.MonkeyPatch
) -> None:
    network = asyncio.Event()

    async def refresh(directory: RunDirectory, fleet: object) -> TpuTuiError | None:
        if not network.is_set():
            return TpuTuiError("cannot reach worker 2")
        train(directory, [100])
        return None

    monkeypatch.setattr(operator.runs, "refresh", refresh)
    monkeypatch.setattr(run_watcher, "CATCH_UP_INTERVAL_S", 0.5)
    directory = running(operator, trained=range(0, 20, 5))
    abandon(directory)
    app = ConsoleApp(operator, open_run=directory)
    app.read_only = True
    async with app.run_test(size=FULL) as pilot:
        await until(pilot, lambda: isinstance(app.screen, RunScreen) and app.screen.ready)
        cores = app.screen.query_one(CoreTableWidget)
        await until(pilot, lambda: "cannot reach worker 2" in trouble(app))
        network.set()
        await until(pilot, lambda: "step 100" in headline(app))
        await until(pilot, lambda: "This console copies the logs itself" in trouble(app))
        assert "? frozen" not in shown(cores)
        assert "cannot reach worker 2" not in trouble(app)
        await pilot.press("escape")
        await until(pilot, lambda: not isinstance(app.screen, RunScreen))
        await until(pilot, lambda: not app.tasks.running("catch up "))


async def test_an_unattended_run_of_the_list_gets_one_keeper_at_a_time(
    operator: StageOperator, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[str] = []

    async def start_keeper(directory: RunDirectory) -> bool:
        started.append(directory.id)
        return True

    monkeypatch.setattr(operator.runs, "ensure_keeper", start_keeper)
    directory, over = running(operator), running(operator, id="other-20261121-080000-c3d4")
    for left in (directory, over):
        abandon(left)
    over.append_event("state", state="stopped")
    app = ConsoleApp(operator)
    clock = [1000.0]
    app.store.clock = lambda: clock[0]
    async with app.run_test(size=FULL) as pilot:
        await until(pilot, lambda: started)
        for seconds, tries in ((0.0, 1), (MIN_KEEPER_PAUSE_S, 2), (MIN_KEEPER_PAUSE_S, 2), (MIN_KEEPER_PAUSE_S, 3)):
            clock[0] += seconds
            app.actions.runs.restart_missing_keepers(operator.runs.list_statuses())
            await until(pilot, lambda: not app.tasks.running(KEEPER_TASK))
            assert started == [directory.id] * tries
        assert any(f"{directory.id} had no keeper" in notification.message for notification in app._notifications)


async def test_cores_of_a_worker_out_of_reach_are_no_stragglers(operator: StageOperator) -> None:
    directory = running(operator, trained=range(0, 100, 5))
    async with opened_run(operator, directory) as (app, pilot):
        await until(pilot, lambda: "straggler: core 13" in trouble(app))
        directory.append_event("link", worker=1, status="lost", detail="")
        await until(pilot, lambda: "connection lost: worker 1; its figures are frozen" in trouble(app))
        assert "straggler" not in trouble(app)
        cores = [line.split()[:4] for line in shown(table(app, "cores")).splitlines()[1:33]]
        assert [int(core) for core, _, *state in cores if state == ["?", "frozen"]] == list(range(8, 16))
        directory.append_event("link", worker=1, status="restored", detail="")
        await until(pilot, lambda: "straggler: core 13" in trouble(app))
        directory.append_event("note", worker=2, text=DISK_IS_FULL)
        await until(pilot, lambda: "The disk here is full: logs and figures are frozen" in trouble(app))
        assert "straggler" not in trouble(app)


async def test_between_two_attempts_no_core_trains_and_none_is_behind(operator: StageOperator) -> None:
    directory = running(operator, trained=range(0, 200, 5))
    async with opened_run(operator, directory) as (app, pilot):
        cores = app.screen.query_one(CoreTableWidget)
        await until(pilot, lambda: "straggler: core 13" in trouble(app))
        assert "ex/s" in headline(app)
        cause = "restart 1 of 3: worker 1 exited with 1"
        directory.append_event("state", state="preparing", attempt=1, cause=f"{cause}{LAST_WORDS}what it printed")
        await until(pilot, lambda: shown(cores).count("· launching") == cores.size.height - 1)
        assert "straggler" not in trouble(app)
        assert "ex/s" not in headline(app)
        assert "0 of 32 cores" in headline(app)
        assert "what it printed" in trouble(app)
        directory.append_event("state", state="running")
        await until(pilot, lambda: "· launching" not in shown(cores) and "what it printed" not in trouble(app))
        assert cause in trouble(app)


async def test_what_the_cloud_said_about_a_lost_link_goes_when_the_link_is_back(operator: StageOperator) -> None:
    directory = running(operator, trained=range(0, 20, 5))
    said = "the Cloud TPU API says: slice my-tpu is READY; so worker 1 crashed or hangs"
    directory.append_event("link", worker=1, status="lost", detail="no answer")
    directory.append_event("note", text=said, slice="ready", gone=False, remedy="")
    async with opened_run(operator, directory) as (app, pilot):
        await until(pilot, lambda: "connection lost: worker 1" in trouble(app))
        directory.append_event("link", worker=1, status="restored", detail="")
        await until(pilot, lambda: "connection lost" not in trouble(app))
        assert said not in trouble(app)
        directory.append_event("note", text="slice my-tpu is READY again", slice="ready", waits_on_slice=False)
        await until(pilot, lambda: "READY again" in trouble(app))
