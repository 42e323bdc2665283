"""A run's directory that lies elsewhere, opened in the console."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.console.driving import opened_run, running
from tests.console.stage import StageOperator, a_slice
from tui.console.screens.run import ActingRunScreen, RunScreen

pytestmark = pytest.mark.timing


async def test_it_is_shown_without_what_acts_on_it_and_no_keeper_is_started(own_home: Path, tmp_path: Path) -> None:
    directory = running(StageOperator(tmp_path / "elsewhere", a_slice()), range(3))
    operator = StageOperator(own_home, a_slice())
    found = operator.runs.open(str(directory.path))
    async with opened_run(operator, found) as (app, pilot):
        assert not isinstance(app.screen, ActingRunScreen)
        await pilot.press("x")
        assert not isinstance(app.screen, ActingRunScreen)
        assert isinstance(app.screen, RunScreen)
        assert app.screen.feed.title == directory.id
        messages = [str(notification.message) for notification in app._notifications]
        assert [message for message in messages if "is only read: it lies outside" in message] == messages
    assert not (directory.path / "keeper").exists()
