"""Print, at a terminal only, which workers have not answered for a while."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator, Callable, Sequence

from tui.commands.terminal.output import Output
from tui.text.ranks import name_ranks

NOTICE_AFTER_S = 3.0
"""Wait before the first notice; each further wait is twice as long."""


@contextlib.asynccontextmanager
async def notice_of_missing_workers(missing: Callable[[], Sequence[int]], out: Output) -> AsyncIterator[None]:
    """Print which workers are `missing` if the body of the `with` takes long."""
    if out.as_json or not sys.stderr.isatty():
        yield
        return
    notice = asyncio.ensure_future(_print_notice(missing, out))
    try:
        yield
    finally:
        notice.cancel()
        await asyncio.wait({notice})


async def _print_notice(missing: Callable[[], Sequence[int]], out: Output) -> None:
    wait_s = NOTICE_AFTER_S
    named: list[int] = []
    while True:
        await asyncio.sleep(wait_s)
        wait_s *= 2
        ranks = list(missing())
        if ranks and ranks != named:
            out.note(f"No answer yet from {name_ranks('worker', ranks)} …")
            named = ranks
