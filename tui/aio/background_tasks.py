"""Tasks that run beside other work, until their owner closes."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from tui.aio.fan_out import cancel_all


class BackgroundTasks:
    """Tasks that run until they end or `close` cancels them."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Start a task and return it."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def close(self) -> None:
        """Cancel every task and wait until all have stopped."""
        await cancel_all(self._tasks)
