"""Print the progress of a change in the cloud, and its answer for --json."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from tui.commands.terminal.output import Output

_LISTS = {"slice": "slices", "group": "groups list"}
"""The commands that show what a change did."""


async def print_steps(
    steps: AsyncIterator[str], ref: str, action: str, out: Output, *, dry_run: bool, noun: str = "slice"
) -> int:
    """Print each step on stderr as it comes, and return 0; the change goes on when the wait is interrupted."""
    printed: list[str] = []
    try:
        async for step in steps:
            printed.append(step)
            out.note(step)
    except asyncio.CancelledError:
        if printed:
            out.note(f"Interrupted. The request continues in the cloud; check it with tpu-tui {_LISTS[noun]}.")
        raise
    if dry_run:
        out.note("Nothing was changed.")
    if out.as_json:
        out.document({noun: ref, "action": action, "dry_run": dry_run, "steps": printed})
    return 0
