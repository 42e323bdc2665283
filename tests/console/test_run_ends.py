from __future__ import annotations

import pytest

from tests.console.driving import FULL, fail, running, shown, table, until
from tests.console.stage import StageOperator
from tui.console.app import ConsoleApp
from tui.console.data.pollers import RUNS

pytestmark = pytest.mark.timing


async def test_each_end_of_a_run_is_announced_once_and_a_stop_or_an_earlier_end_is_not(
    operator: StageOperator,
) -> None:
    ended, failing, stopping = (running(operator, id=f"r{n}-20261121-090000-a1b2") for n in range(3))
    ended.append_event("state", state="succeeded")
    app = ConsoleApp(operator)
    async with app.run_test(size=FULL) as pilot:
        await until(pilot, lambda: table(app, "runs").row_count() == 3)
        stopping.append_event("state", state="stopped")
        await until(pilot, lambda: "stopped" in shown(table(app, "runs")))
        fail(failing)
        await until(pilot, lambda: app._notifications)
        taken = app.store.get(RUNS).revision
        await until(pilot, lambda: app.store.get(RUNS).revision > taken + 1)
        assert [notification.message for notification in app._notifications] == [f"{failing.id} failed: exit code 1"]


async def test_the_end_of_a_run_is_announced_on_every_screen(operator: StageOperator) -> None:
    directory = running(operator)
    app = ConsoleApp(operator)
    bells: list[bool] = []
    app.bell = lambda: bells.append(True)  # type: ignore[method-assign]
    async with app.run_test(size=FULL) as pilot:
        await until(pilot, lambda: table(app, "runs").row_count())
        fail(directory)
        await until(pilot, lambda: app._notifications)
        assert bells == [True]
        [notification] = app._notifications
        assert notification.message == f"{directory.id} failed: exit code 1"
        assert notification.severity == "error"
