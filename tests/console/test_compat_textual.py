"""Contract tests of private names of Textual, and tests that a terminal that is not read blocks nothing."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import pytest
from textual.drivers._writer_thread import MAX_QUEUED_WRITES, WriterThread
from textual.geometry import Size
from textual.pilot import Pilot

from tests.console.driving import FULL, opened_pod, opened_run, running, table, until
from tests.console.stage import StageOperator, train
from tui.console.app import ConsoleApp
from tui.console.platform._compat_textual import MAX_WAITING_WRITES, remove_notifications, set_scrolled_size
from tui.console.screens.dialog import TextDialog
from tui.console.screens.run import RunScreen

pytestmark = pytest.mark.timing

UNREAD_TICKS = 60
"""Batches of training lines that arrive while the terminal is not read."""


@pytest.fixture
def terminal() -> Iterator[IO[str]]:
    with Path(os.devnull).open("w") as file:
        yield file


def fill(app: ConsoleApp, terminal: IO[str]) -> WriterThread:
    """Give the app a writer that writes nothing, with so many writes waiting that painting pauses."""
    writer = WriterThread(terminal)  # it is never started
    app._driver._writer_thread = writer  # type: ignore[union-attr]
    for _ in range(MAX_WAITING_WRITES + 1):
        writer.write("")
    return writer


def drain(writer: WriterThread) -> None:
    while not writer._queue.empty():
        writer._queue.get()


async def test_painting_pauses_below_the_number_of_writes_at_which_textual_blocks() -> None:
    assert MAX_WAITING_WRITES < MAX_QUEUED_WRITES


async def test_a_terminal_that_was_not_read_is_painted_when_it_is_read_again(
    operator: StageOperator, terminal: IO[str]
) -> None:
    async with opened_pod(operator) as (app, pilot):
        writer = fill(app, terminal)
        app.refresh()
        await until(pilot, lambda: app.is_repaint_pending)
        await pilot.press("4", "3")
        assert table(app, "checks").has_focus
        drain(writer)
        await until(pilot, lambda: not app.is_repaint_pending)


async def test_while_the_terminal_is_not_read_no_writes_accumulate_and_the_first_key_acts_at_once(
    operator: StageOperator, terminal: IO[str]
) -> None:
    directory = running(operator, trained=range(2))
    async with opened_run(operator, directory) as (app, pilot):
        writer = fill(app, terminal)
        for step in range(2, UNREAD_TICKS):
            train(directory, [step])
            await pilot.pause(0.02)
        assert writer._queue.qsize() <= MAX_WAITING_WRITES + 1
        drain(writer)
        pressed = time.process_time()
        await press_and_leave(pilot, app)
        assert time.process_time() - pressed < 1.0


async def press_and_leave(pilot: Pilot[None], app: ConsoleApp) -> None:
    await pilot.press("escape")
    await until(pilot, lambda: not isinstance(app.screen, RunScreen))


async def test_one_notification_can_be_removed(operator: StageOperator) -> None:
    app = ConsoleApp(operator)
    async with app.run_test(size=FULL) as pilot:
        app.notify("one", timeout=60)
        app.notify("two", timeout=60)
        await until(pilot, lambda: len(app._notifications) == 2)
        remove_notifications(app, lambda shown: shown.message == "one")
        assert [shown.message for shown in app._notifications] == ["two"]


async def test_a_key_runs_its_binding_at_once_and_one_without_a_binding_does_not(operator: StageOperator) -> None:
    async with opened_pod(operator) as (app, _):
        assert not await app.run_binding("f12")
        assert await app.run_binding("question_mark")
        assert isinstance(app.screen, TextDialog)


async def test_the_scrolled_size_of_a_view_changes_without_a_layout(operator: StageOperator) -> None:
    async with opened_pod(operator) as (app, _):
        view = table(app, "slices")
        set_scrolled_size(view, Size(view.size.width, 500))
        assert view.max_scroll_y == 500 - view.scrollable_content_region.height
        assert view.vertical_scrollbar.window_virtual_size == 500
