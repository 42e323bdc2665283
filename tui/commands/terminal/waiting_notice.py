"""Who has not answered yet, told once to a person at a terminal who has been waiting for a while."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator, Callable, Sequence

from tui.commands.terminal.output import Output
from tui.text.ranks import format_ranks

PATIENCE = 3.0
"""Seconds after which a person wonders."""


@contextlib.asynccontextmanager
async def telling_who_is_waited_for(missing: Callable[[], Sequence[int]], out: Output) -> AsyncIterator[None]:
    """While the body waits for workers, tell which of them are `missing`, where somebody watches."""
    if out.as_json or not sys.stderr.isatty():
        yield
        return
    telling = asyncio.ensure_future(_tell(missing, out))
    try:
        yield
    finally:
        telling.cancel()
        await asyncio.wait({telling})


async def _tell(missing: Callable[[], Sequence[int]], out: Output) -> None:
    await asyncio.sleep(PATIENCE)
    if ranks := missing():
        out.note(f"No answer yet of worker{'s' if len(ranks) > 1 else ''} {format_ranks(ranks)} …")
