"""Run several pieces of work concurrently and yield results as they come; ending the iteration cancels the rest."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from contextlib import aclosing
from typing import Any, TypeVar

from tui.errors import TpuTuiError, WorkerError

_Result = TypeVar("_Result")


async def as_completed(work: Iterable[Awaitable[_Result]]) -> AsyncGenerator[_Result, None]:
    """Run all the work concurrently and yield each result as soon as it is known. Raises the first exception."""
    ended: asyncio.Queue[asyncio.Future[_Result]] = asyncio.Queue()
    tasks = [asyncio.ensure_future(piece) for piece in work]
    try:
        for task in tasks:
            task.add_done_callback(ended.put_nowait)
        for _ in tasks:
            yield (await ended.get()).result()
    finally:
        await cancel_all(tasks)


async def cancel_all(tasks: Iterable[asyncio.Future[Any]]) -> list[Any]:
    """Cancel the tasks that have not ended; wait until all have, and return their results and exceptions in order."""
    tasks = list(tasks)
    for task in tasks:
        task.cancel()
    return await asyncio.gather(*tasks, return_exceptions=True)


async def run_all(work: Iterable[Awaitable[object]]) -> None:
    """Run all the work concurrently; the first exception cancels the rest and is raised."""
    async for _ in as_completed(work):
        pass


async def gather_rows(
    work: Iterable[Callable[[Callable[[_Result], None]], Awaitable[None]]],
) -> AsyncGenerator[_Result, None]:
    """Run all the work concurrently; yield each row that a piece of work passes to the function that it gets."""
    rows: asyncio.Queue[_Result | None] = asyncio.Queue()

    async def do_all() -> None:
        try:
            await run_all(piece(rows.put_nowait) for piece in work)
        finally:
            rows.put_nowait(None)

    task = asyncio.ensure_future(do_all())
    try:
        while (row := await rows.get()) is not None:
            yield row
        await task
    finally:
        await cancel_all([task])


async def for_each_worker(
    indices: Iterable[int], work: Callable[[int], Awaitable[_Result]]
) -> AsyncGenerator[tuple[int, _Result | WorkerError], None]:
    """Run `work` for all workers concurrently; yield each worker's result as soon as it is known.

    A TpuTuiError of one worker is its result; any other exception cancels the others and is raised.
    """

    async def one(index: int) -> tuple[int, _Result | WorkerError]:
        try:
            return index, await work(index)
        except TpuTuiError as error:
            return index, as_worker_error(error, index)

    async with aclosing(as_completed(map(one, indices))) as answers:
        async for answer in answers:
            yield answer


def as_worker_error(error: TpuTuiError, index: int) -> WorkerError:
    """Return the error as a WorkerError that names the worker."""
    if isinstance(error, WorkerError):
        if error.worker is None:
            error.worker = index
        return error
    return WorkerError(error.what, worker=index, why=error.why, remedy=error.remedy)
