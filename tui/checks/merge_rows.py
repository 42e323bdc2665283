"""Rows of many workers as one stream."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

from tui.checks.check_row import CheckRow

Report = Callable[[CheckRow], None]
"""Hands a row on to whoever reads the stream."""


async def gather_rows(work: Sequence[Callable[[Report], Awaitable[None]]]) -> AsyncIterator[CheckRow]:
    """Do all the work at once and yield what it tells; an end of the reading cancels what is under way."""
    rows: asyncio.Queue[CheckRow | None] = asyncio.Queue()

    async def do_all() -> None:
        try:
            await asyncio.gather(*(one(rows.put_nowait) for one in work))
        finally:
            rows.put_nowait(None)

    task = asyncio.ensure_future(do_all())
    try:
        while (row := await rows.get()) is not None:
            yield row
        await task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
