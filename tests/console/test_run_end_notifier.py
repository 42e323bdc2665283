from __future__ import annotations

import pytest

from tests.console.driving import FULL, fail, running, table, until
from tests.console.stage import StageOperator
from tui.console.app import ConsoleApp
from tui.console.data.run_end_notifier import RunEndNotifier, format_run_end

pytestmark = pytest.mark.timing


def test_each_end_of_a_run_is_reported_once_and_earlier_ones_are_not(operator: StageOperator) -> None:
    ended, failing, stopping = (running(operator, id=f"r{n}-20261121-090000-a1b2") for n in range(3))
    ended.append_event("state", state="succeeded")
    endings = RunEndNotifier()
    statuses = lambda: [operator.runs.status_of(directory) for directory in (ended, failing, stopping)]  # noqa: E731
    assert endings.newly_ended(statuses()) == []
    fail(failing)
    stopping.append_event("state", state="stopped")
    assert [format_run_end(status) for status in endings.newly_ended(statuses())] == [
        f"{failing.id} failed: exit code 1"
    ]
    assert endings.newly_ended(statuses()) == []


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
