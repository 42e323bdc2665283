"""Rows of many workers as one stream."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

from tui.checks.check_row import CheckRow

Report = Callable[[CheckRow], None]
"""Adds a row to the stream."""


async def gather_rows(work: Sequence[Callable[[Report], Awaitable[None]]]) -> AsyncIterator[CheckRow]:
    """Run all checks at once and yield their rows; ending the iteration cancels the checks."""
    rows: asyncio.Queue[CheckRow | None] = asyncio.Queue()

    async def do_all() -> None:
        try:
            await asyncio.gather(*(check(rows.put_nowait) for check in work))
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
