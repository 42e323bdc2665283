"""Wait for the keepers of a local pod's runs, which end by themselves after the pod."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

from tui.procs.liveness import is_running
from tui.runs.record.run_index import list_runs
from tui.settings import LOCAL_PROFILE

KEEPERS_END_S = 10.0
"""The longest wait of `local up` for the keepers, which check four times a second whether their pod runs."""
_POLL_INTERVAL_S = 0.05


def living_keepers(runs_home: Path) -> set[int]:
    """Return the PIDs of this machine's keepers of the local pod's runs, of those in `runs_home`."""
    runs = [directory for directory in list_runs(runs_home) if directory.run.profile == LOCAL_PROFILE]
    return {
        status.pid
        for status in (directory.keeper_status() for directory in runs)
        if status.alive and status.pid is not None and is_running(status.pid)
    }


async def await_keepers(pids: set[int]) -> set[int]:
    """Wait at most `KEEPERS_END_S` seconds until these processes have ended; return those that have not."""
    deadline = time.monotonic() + KEEPERS_END_S
    # The end of a process that is not a child cannot be awaited.
    while (remaining := {pid for pid in pids if is_running(pid)}) and time.monotonic() < deadline:  # noqa: ASYNC110
        await asyncio.sleep(_POLL_INTERVAL_S)
    return remaining
