"""Time that a person gave a worker: it stands still while that person is being asked for something."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Coroutine, Iterator
from typing import Any, TypeVar

from tui.ssh.config.access import Prompter

_GLANCE = 0.2
"""Seconds between two looks whether a question is still open."""
_Result = TypeVar("_Result")


class PromptClock:
    """Hands questions to a person, and knows for how long one or more of them have been open."""

    def __init__(self, prompter: Prompter) -> None:
        self._prompter = prompter
        self._open = 0
        self._since = 0.0
        self._seconds = 0.0

    @property
    def seconds(self) -> float:
        """Seconds that a person was being asked so far."""
        return self._seconds + (time.monotonic() - self._since if self._open else 0.0)

    async def secret(self, text: str) -> str | None:
        """A passphrase or one-time code; None when the person would rather not."""
        with self._asking():
            return await self._prompter.secret(text)

    async def trust(self, worker: str, key_type: str, fingerprint: str) -> bool:
        """Whether a host key that nobody vouches for is to be believed from now on."""
        with self._asking():
            return await self._prompter.trust(worker, key_type, fingerprint)

    @contextlib.contextmanager
    def _asking(self) -> Iterator[None]:
        if not self._open:
            self._since = time.monotonic()
        self._open += 1
        try:
            yield
        finally:
            self._open -= 1
            if not self._open:
                self._seconds += time.monotonic() - self._since


async def wait_for(
    seconds: float, work: Coroutine[Any, Any, _Result], asked: PromptClock | None
) -> tuple[_Result, float]:
    """What the work comes to, and the seconds that it left of those it had; cancelled it is when they are over.

    Raises asyncio.TimeoutError then.
    """
    before = time.monotonic() - (asked.seconds if asked else 0.0)
    working = asyncio.ensure_future(work)
    left = seconds
    try:
        while left > 0:
            await asyncio.wait({working}, timeout=max(left, _GLANCE) if asked else left)
            left = seconds + before - time.monotonic() + (asked.seconds if asked else 0.0)
            if working.done():
                return working.result(), max(left, 0.0)
        raise asyncio.TimeoutError
    finally:
        working.cancel()
        await asyncio.wait({working})
