"""Timeouts that pause while a person is prompted."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Iterator
from typing import TypeVar

from tui.ssh.config.access import Prompter

_CHECK_INTERVAL_S = 0.2
"""Seconds between checks whether a prompt is still open."""
_Result = TypeVar("_Result")


class PromptClock:
    """Passes prompts on, and measures for how long at least one of them was open."""

    def __init__(self, prompter: Prompter) -> None:
        self._prompter = prompter
        self._open = 0
        self._since = 0.0
        self._seconds = 0.0

    @property
    def seconds(self) -> float:
        """Seconds during which a prompt was open so far."""
        return self._seconds + (time.monotonic() - self._since if self._open else 0.0)

    async def secret(self, text: str) -> str | None:
        """Return a passphrase or one-time code; None when the person declines."""
        with self._prompting():
            return await self._prompter.secret(text)

    async def trust(self, worker: str, key_type: str, fingerprint: str) -> bool:
        """Return whether the person trusts an unknown host key from now on."""
        with self._prompting():
            return await self._prompter.trust(worker, key_type, fingerprint)

    @contextlib.contextmanager
    def _prompting(self) -> Iterator[None]:
        if not self._open:
            self._since = time.monotonic()
        self._open += 1
        try:
            yield
        finally:
            self._open -= 1
            if not self._open:
                self._seconds += time.monotonic() - self._since


async def wait_for(seconds: float, work: Awaitable[_Result], prompts: PromptClock | None) -> tuple[_Result, float]:
    """Return the result of `work` and the seconds left. Time during which `prompts` has a prompt open does not count.

    When the seconds are over, cancels `work` and raises asyncio.TimeoutError.
    """
    before = time.monotonic() - (prompts.seconds if prompts else 0.0)
    working = asyncio.ensure_future(work)
    remaining = seconds
    try:
        while remaining > 0:
            await asyncio.wait({working}, timeout=max(remaining, _CHECK_INTERVAL_S) if prompts else remaining)
            remaining = seconds + before - time.monotonic() + (prompts.seconds if prompts else 0.0)
            if working.done():
                return working.result(), max(remaining, 0.0)
        raise asyncio.TimeoutError
    finally:
        working.cancel()
        await asyncio.wait({working})
