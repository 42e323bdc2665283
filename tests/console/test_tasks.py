"""Tests of the console's named tasks."""

from __future__ import annotations

import asyncio
import inspect

from tui.console.data.tasks import Tasks


class SlowEnd:
    """Work that takes a moment to end after it was cancelled."""

    def __init__(self, seconds: float = 0.01) -> None:
        self.seconds = seconds
        self.has_begun = asyncio.Event()
        self.has_ended = False

    async def run(self) -> None:
        self.has_begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(self.seconds)
            self.has_ended = True


async def test_closing_waits_for_a_task_that_was_cancelled_before() -> None:
    tasks, work = Tasks(), SlowEnd()
    tasks.start("report", work.run())
    await work.has_begun.wait()
    assert tasks.cancel("report")
    assert not tasks.is_running("report")
    await tasks.close()
    assert work.has_ended


async def test_closing_waits_for_a_task_that_another_one_has_replaced() -> None:
    tasks, old, new = Tasks(), SlowEnd(0.1), SlowEnd()
    for work in (old, new):
        tasks.start("report", work.run())
        await work.has_begun.wait()
    await tasks.close()
    assert old.has_ended
    assert new.has_ended
    assert not tasks.running("")


async def test_work_that_is_cancelled_before_it_begins_is_closed() -> None:
    tasks, running = Tasks(), SlowEnd().run()
    tasks.start("checks", running)
    await tasks.close()
    assert inspect.getcoroutinestate(running) == inspect.CORO_CLOSED
