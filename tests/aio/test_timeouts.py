"""Tests of time limits: work that takes too long is ended, and no cancellation of the caller is lost."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from types import SimpleNamespace

import pytest

from tui.aio.timeouts import within
from tui.ssh.sync import upload

pytestmark = pytest.mark.py310

Wait = Callable[[Awaitable[bytes]], Awaitable[object]]

needs_wait_for_defect = pytest.mark.skipif(
    sys.version_info >= (3, 12), reason="Python 3.12 has a wait_for without the defect"
)


async def cancelled_as_the_work_ends(wait: Wait) -> bool:
    """Cancel a task at the moment when the work it waits for ends; return whether the task is cancelled."""
    line: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

    async def work() -> bytes:
        return await line

    async def run() -> object:
        return await wait(work())

    task = asyncio.create_task(run())
    for _ in range(4):
        await asyncio.sleep(0)
    line.set_result(b"@n done\n")
    task.cancel()
    await asyncio.wait({task})
    return task.cancelled()


async def expect_an_answer(work: Awaitable[bytes]) -> object:
    """Wait for a worker's answer as an upload does."""
    sending = object.__new__(upload._Upload)
    sending._call = SimpleNamespace(nonce="n")
    return await sending._expect(SimpleNamespace(stdout=SimpleNamespace(readline=lambda: work)), "done")


@needs_wait_for_defect
async def test_wait_for_loses_a_cancellation_so_that_an_upload_with_it_would_continue(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert not await cancelled_as_the_work_ends(lambda work: asyncio.wait_for(work, 60))
    monkeypatch.setattr(upload, "within", asyncio.wait_for)
    assert not await cancelled_as_the_work_ends(expect_an_answer)


@pytest.mark.parametrize("wait", [lambda work: within(work, 60), expect_an_answer], ids=["within", "upload"])
async def test_a_cancellation_is_not_lost(wait: Wait) -> None:
    assert await cancelled_as_the_work_ends(wait)


async def test_work_that_takes_too_long_is_cancelled_and_ends_before_the_error() -> None:
    ended: list[str] = []

    async def work() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            await asyncio.sleep(0)
            ended.append("cleaned up")

    with pytest.raises(asyncio.TimeoutError):
        await within(work(), 0.01)
    assert ended == ["cleaned up"]
    assert await within(asyncio.sleep(0, "result"), None) == "result"
    assert await within(asyncio.sleep(0, "result"), 60) == "result"
