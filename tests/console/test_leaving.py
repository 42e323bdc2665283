"""Tests of leaving screens and dialogs: other dialogs stay, and no file of the run stays open."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import psutil
import pytest
from textual.events import Key
from textual.pilot import Pilot
from textual.widgets import Button

from tests.console.driving import FULL, dialog_text, opened_run, running, table, until
from tests.console.stage import StageLaunches, StageOperator, a_slice
from tui.console.app import ConsoleApp
from tui.console.screens.dialog import QuitDialog, SecretDialog, TextDialog
from tui.console.screens.pod import PodScreen
from tui.console.screens.run import RunScreen
from tui.errors import TpuTuiError
from tui.runs.record.run_directory import RunDirectory

pytestmark = pytest.mark.timing


class _SlowOperator(StageOperator):
    """An operator whose launches take until `taken` is set, and then may fail."""

    problem: TpuTuiError | None = None

    def __init__(self, home: Path) -> None:
        super().__init__(home, a_slice())
        self.taken = asyncio.Event()
        self.launches = _SlowLaunches(self)


class _SlowLaunches(StageLaunches):
    async def start(self, spec: Any) -> RunDirectory:
        stage = self.stage
        assert isinstance(stage, _SlowOperator)
        await stage.taken.wait()
        if stage.problem is not None:
            raise stage.problem
        return await super().start(spec)


async def _start_launch(app: ConsoleApp, pilot: Pilot[None]) -> None:
    await until(pilot, lambda: table(app, "slices").row_count())
    await pilot.press("n", "enter")
    launch = app.screen.query_one("#launch", Button)
    await until(pilot, lambda: not launch.disabled and launch.has_focus)
    await pilot.press("enter")
    await until(pilot, lambda: "Starting the run's keeper" in dialog_text(app))


def _notifications_text(app: ConsoleApp) -> str:
    return "\n".join(str(notification.message) for notification in app._notifications)


async def test_a_launch_that_completes_after_its_dialog_was_left_closes_no_other_dialog(own_home: Path) -> None:
    operator = _SlowOperator(own_home)
    app = ConsoleApp(operator, default_command=("true",))
    async with app.run_test(size=FULL) as pilot:
        await _start_launch(app, pilot)
        await pilot.press("escape", "question_mark")
        await until(pilot, lambda: isinstance(app.screen, TextDialog))
        operator.taken.set()
        await until(pilot, lambda: "was already launched" in _notifications_text(app))
        assert operator.runs.list_statuses()[0].run.id in _notifications_text(app)
        assert isinstance(app.screen, TextDialog)


async def test_a_launch_that_fails_after_its_dialog_was_left_is_reported(own_home: Path) -> None:
    operator = _SlowOperator(own_home)
    operator.problem = TpuTuiError("the run's keeper does not start", why="no space left on device")
    app = ConsoleApp(operator, default_command=("true",))
    async with app.run_test(size=FULL) as pilot:
        await _start_launch(app, pilot)
        await pilot.press("escape")
        await until(pilot, lambda: isinstance(app.screen, PodScreen))
        operator.taken.set()
        await until(pilot, lambda: "no space left on device" in _notifications_text(app))


async def test_a_cancelled_question_below_another_dialog_closes_after_that_dialog(operator: StageOperator) -> None:
    app = ConsoleApp(operator)
    async with app.run_test(size=FULL) as pilot:
        await until(pilot, lambda: operator.prompter is not None)
        assert operator.prompter is not None
        secret = asyncio.ensure_future(operator.prompter.secret("one-time code"))
        await until(pilot, lambda: isinstance(app.screen, SecretDialog))
        await pilot.press("ctrl+q")
        await until(pilot, lambda: isinstance(app.screen, QuitDialog))
        secret.cancel()
        with pytest.raises(asyncio.CancelledError):
            await secret
        await pilot.pause()
        assert isinstance(app.screen, QuitDialog)
        await pilot.press("escape")
        await until(pilot, lambda: isinstance(app.screen, PodScreen))


async def test_a_run_opened_twice_at_once_has_one_screen(operator: StageOperator) -> None:
    running(operator)
    app = ConsoleApp(operator)
    async with app.run_test(size=FULL) as pilot:
        await until(pilot, lambda: table(app, "runs").row_count())
        await pilot.press("4")
        for _ in range(2):
            app.post_message(Key("enter", "\r"))
        await until(pilot, lambda: isinstance(app.screen, RunScreen) and app.screen.ready)
        await pilot.press("escape")
        await until(pilot, lambda: isinstance(app.screen, PodScreen))


async def test_a_run_that_was_left_has_no_file_open(operator: StageOperator) -> None:
    directory = running(operator, trained=range(0, 20, 5))

    def files() -> list[str]:
        opened = (Path(file.path) for file in psutil.Process().open_files())
        return [path.name for path in opened if path.suffix == ".log" and path.is_relative_to(directory.path)]

    async with opened_run(operator, directory) as (app, pilot):
        await until(pilot, lambda: len(files()) >= len(directory.run.workers))
        await pilot.press("escape")
        await until(pilot, lambda: isinstance(app.screen, PodScreen) and not files())
