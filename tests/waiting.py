"""Wait in tests until a condition holds, with an event loop or without one; and see whether a process is alive."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path

DEADLINE = 60.0
"""Seconds allowed for what takes one or two on an idle machine."""
_POLL_INTERVAL_S = 0.02


def wait_until(condition: Callable[[], object], what: str = "it holds", *, seconds: float = DEADLINE) -> None:
    """Wait until a condition holds; fail with `what` after the deadline."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not within {seconds:.0f} s: {what}"
        time.sleep(_POLL_INTERVAL_S)


async def until(condition: Callable[[], object], what: str = "it holds", *, seconds: float = DEADLINE) -> None:
    """Wait like `wait_until`, while the event loop runs."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not within {seconds:.0f} s: {what}"
        await asyncio.sleep(_POLL_INTERVAL_S)


def is_running(pid: int) -> bool:
    """Return whether a process is alive; a zombie is not."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] not in "ZX"
