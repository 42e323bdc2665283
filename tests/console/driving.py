"""Helpers that drive the console as a user does: press keys and read the screen."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from textual.pilot import Pilot
from textual.widgets import Static

from tests.console.stage import StageOperator, a_slice, begin, make_run, train, write
from tui.console.app import ConsoleApp
from tui.console.screens.run import RunScreen
from tui.console.widgets.headline import Headline
from tui.console.widgets.log.log_pane import LogPane
from tui.console.widgets.problem_panel import ProblemPanel
from tui.console.widgets.tables.line_table import LineTable
from tui.runs.record.run_directory import RunDirectory

DEADLINE = 60.0
FULL, SMALL = (140, 44), (80, 24)
TRACEBACK = b"Traceback (most recent call last):\n  File train.py\nFileNotFoundError: shard-00031.tar\n"


async def until(pilot: Pilot[None], what: Callable[[], object]) -> None:
    """Let the app work until a condition holds; fail after a generous deadline."""
    loop = asyncio.get_running_loop()
    end = loop.time() + DEADLINE
    while not what():
        assert loop.time() < end, "the condition never became true"
        await pilot.pause(0.02)


def table(app: ConsoleApp, name: str) -> LineTable:
    return app.screen.query_one(f"#{name}", LineTable)


def shown(widget: LineTable | LogPane) -> str:
    return "\n".join(widget.render_line(y).text.rstrip() for y in range(widget.size.height))


def headline(app: ConsoleApp) -> str:
    return "\n".join(app.screen.query_one("#headline", Headline).lines)


def trouble(app: ConsoleApp) -> str:
    return "\n".join(app.screen.query_one(ProblemPanel).lines)


def dialog_text(app: ConsoleApp) -> str:
    return "\n".join(str(label.content) for label in app.screen.query(Static))


def running(operator: StageOperator, trained: range = range(0), **more: object) -> RunDirectory:
    """Make a run on all workers, whose logs hold the `trained` steps."""
    directory = RunDirectory.create(operator.settings.runs_home, make_run(a_slice(), **more))
    begin(directory)
    train(directory, trained)
    return directory


@asynccontextmanager
async def opened_run(
    operator: StageOperator, directory: RunDirectory, size: tuple[int, int] = FULL
) -> AsyncIterator[tuple[ConsoleApp, Pilot[None]]]:
    """Open the console on a run, and wait until the run's screen can be drawn."""
    app = ConsoleApp(operator, open_run=directory)
    async with app.run_test(size=size) as pilot:
        await until(pilot, lambda: isinstance(app.screen, RunScreen) and app.screen.ready)
        yield app, pilot


@asynccontextmanager
async def opened_pod(
    operator: StageOperator, size: tuple[int, int] = FULL, **options: Any
) -> AsyncIterator[tuple[ConsoleApp, Pilot[None]]]:
    """Open the console on its pod screen, and wait until the slices are listed."""
    app = ConsoleApp(operator, **options)
    async with app.run_test(size=size) as pilot:
        await until(pilot, lambda: table(app, "slices").row_count())
        yield app, pilot


def fail(directory: RunDirectory, cause: str = "exit code 1", *, over: bool = True) -> None:
    train(directory, range(0, 20, 5))
    write(directory, 2, TRACEBACK)
    directory.append_event("exit", worker=2, exit_code=1, signal=None, size=1, cause="exit code 1")
    directory.append_event("failure", worker=2, exit_code=1, cause=cause)
    if over:
        directory.append_event("state", state="failed")
