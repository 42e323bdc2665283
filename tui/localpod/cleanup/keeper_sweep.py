"""The keepers of a local pod's runs: processes of other commands, which end by themselves once the pod is gone."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path

from tui.runs.record.run_index import list_runs
from tui.settings import LOCAL_PROFILE

PATIENCE_SECONDS = 10.0
"""How long `local up` waits for them; they look for their pod every second."""
_LOOK_SECONDS = 0.05


def keepers(runs_home: Path) -> set[int]:
    """The processes on this machine that keep a run of the local pod, by the runs of this home."""
    return set(_living(runs_home))


def _living(runs_home: Path) -> Iterator[int]:
    for directory in list_runs(runs_home):
        if directory.run.profile == LOCAL_PROFILE:
            attended = directory.attended()
            if attended.alive and attended.pid is not None and _lives(attended.pid):
                yield attended.pid


async def await_keepers(pids: set[int], patience: float = PATIENCE_SECONDS) -> set[int]:
    """Wait until these processes have ended; those that have not within `patience` seconds."""
    deadline = time.monotonic() + patience
    # Another process's end wakes nobody here.
    while (left := {pid for pid in pids if _lives(pid)}) and time.monotonic() < deadline:  # noqa: ASYNC110
        await asyncio.sleep(_LOOK_SECONDS)
    return left


def _lives(pid: int) -> bool:
    """Whether the process runs; one that has ended and whose parent has not asked how counts as gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in ("Z", "X")
    except (OSError, IndexError):
        return False
