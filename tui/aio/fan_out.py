"""Do the same work for many workers at once, yielding results as they come."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from typing import TypeVar

from tui.errors import TpuTuiError, WorkerError

_Result = TypeVar("_Result")


async def for_each_worker(
    indices: Iterable[int], work: Callable[[int], Awaitable[_Result]]
) -> AsyncIterator[tuple[int, _Result | WorkerError]]:
    """Do `work` for every worker concurrently; yield each worker's result as soon as it is known.

    A TpuTuiError of one worker is its result; any other exception cancels the others and is raised.
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
    """Return the error as a WorkerError that names the worker."""
    if isinstance(error, WorkerError):
        if error.worker is None:
            error.worker = index
        return error
    return WorkerError(error.what, worker=index, why=error.why, remedy=error.remedy)
