"""An event loop that reads the packets of many workers in batches: a wake-up for each costs more than reading it.

A wake-up finds cold caches, enters the kernel and checks the timers. One that finds eight packets does so once for
eight.
"""

from __future__ import annotations

import asyncio
import contextlib
import selectors
import time
from collections.abc import Coroutine, Iterator
from typing import Any

BATCH_INTERVAL_S = 0.025
"""A quarter of the shortest poll interval of a worker's follower, which delays lines anyway."""


class _BatchingSelector(selectors.DefaultSelector):
    """Lets `pause` seconds pass between two results, unless a timer of the loop is due before."""

    def __init__(self) -> None:
        super().__init__()
        self.pause = 0.0
        self._next = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Return what is ready; wait for at most `timeout` seconds, the time to the next timer."""
        if self.pause and (timeout is None or timeout > 0):
            early = self._next - time.monotonic()
            if early > 0:
                rest = early if timeout is None else min(early, timeout)
                time.sleep(rest)
                timeout = None if timeout is None else timeout - rest
        ready = super().select(timeout)
        if self.pause and ready:
            self._next = time.monotonic() + self.pause
        return ready


class BatchingLoop(asyncio.SelectorEventLoop):
    """asyncio's event loop, which `batched_reads` slows down."""

    def __init__(self) -> None:
        self.selector = _BatchingSelector()
        super().__init__(self.selector)


@contextlib.contextmanager
def batched_reads(pause: float) -> Iterator[None]:
    """Read the network at most once in `pause` seconds while the body runs; no effect on other loops.

    Packets wait in the kernel meanwhile. The first packet after a silence is read at once.
    """
    loop = asyncio.get_running_loop()
    if not isinstance(loop, BatchingLoop):
        yield
        return
    before, loop.selector.pause = loop.selector.pause, pause
    try:
        yield
    finally:
        loop.selector.pause = before


def run_in_batches(main: Coroutine[Any, Any, None]) -> None:
    """Run a coroutine on a `BatchingLoop`, as `asyncio.run` does, which takes no loop factory before Python 3.12."""
    loop = BatchingLoop()
    try:
        loop.run_until_complete(main)
    finally:
        left = asyncio.all_tasks(loop)
        for task in left:
            task.cancel()
        if left:
            loop.run_until_complete(asyncio.wait(left))
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.run_until_complete(loop.shutdown_default_executor())
        loop.close()
