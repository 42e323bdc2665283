"""The same work for many workers at once, what became of each told as it becomes known."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from typing import TypeVar

from tui.errors import TpuTuiError, WorkerError

_Result = TypeVar("_Result")


async def for_each_worker(
    indices: Iterable[int], work: Callable[[int], Awaitable[_Result]]
) -> AsyncIterator[tuple[int, _Result | WorkerError]]:
    """Do `work` for every worker at once; what became of each, as it becomes known.

    What one worker's work raises of our own errors is its result; anything else ends the whole, others cancelled.
    """
    ended: asyncio.Queue[asyncio.Task[tuple[int, _Result | WorkerError]]] = asyncio.Queue()

    async def one(index: int) -> tuple[int, _Result | WorkerError]:
        try:
            return index, await work(index)
        except TpuTuiError as error:
            return index, as_worker_error(error, index)

    tasks = [asyncio.ensure_future(one(index)) for index in indices]
    try:
        for task in tasks:
            task.add_done_callback(ended.put_nowait)
        for _ in tasks:
            yield (await ended.get()).result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def as_worker_error(error: TpuTuiError, index: int) -> WorkerError:
    """An error of one worker's, that worker named."""
    if isinstance(error, WorkerError):
        if error.worker is None:
            error.worker = index
        return error
    return WorkerError(error.what, worker=index, why=error.why, remedy=error.remedy)
