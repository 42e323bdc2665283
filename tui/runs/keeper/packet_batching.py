"""An event loop that takes what many workers send in batches: waking up for each packet costs more than reading it.

A wake-up finds cold caches, asks the kernel, looks at timers; one that finds eight packets does so once for eight.
"""

from __future__ import annotations

import asyncio
import contextlib
import selectors
import time
from collections.abc import Coroutine, Iterator
from typing import Any

PAUSE = 0.025
"""Seconds; a quarter of the shortest time between two looks of a worker at its log, which delays lines anyway."""


class _Patient(selectors.DefaultSelector):
    """Lets `pause` seconds pass between two answers, unless the loop has something else to do meanwhile."""

    def __init__(self) -> None:
        super().__init__()
        self.pause = 0.0
        self._next = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """What is ready; a timer that is due (`timeout`, in seconds) waits for nothing."""
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


class Loop(asyncio.SelectorEventLoop):
    """asyncio's loop, which `unhurried` slows down."""

    def __init__(self) -> None:
        self.patient = _Patient()
        super().__init__(self.patient)


@contextlib.contextmanager
def unhurried(pause: float) -> Iterator[None]:
    """While the body runs, the network is looked at once in `pause` seconds at most; no effect on other loops.

    What came meanwhile waits in the kernel. The first packet after a silence is taken at once.
    """
    loop = asyncio.get_running_loop()
    if not isinstance(loop, Loop):
        yield
        return
    before, loop.patient.pause = loop.patient.pause, pause
    try:
        yield
    finally:
        loop.patient.pause = before


def run(main: Coroutine[Any, Any, None]) -> None:
    """Run to the end on a loop of that kind, as `asyncio.run` does, which takes no loop before Python 3.12."""
    loop = Loop()
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
