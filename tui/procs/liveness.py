"""Whether a process still runs. Numbers of processes are reused, so a start time identifies one."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path


def start_time(pid: int) -> str:
    """Return when a process started, in clock ticks since boot; the time now where nothing tells."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()[19]
    except (OSError, IndexError):
        return str(int(time.time()))


def is_living(pid: int, started: str) -> bool:
    """Return whether that very process is there; without start times (macOS), any process of that number is it."""
    if sys.platform == "linux":
        return start_time(pid) == started
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


def is_running(pid: int) -> bool:
    """Return whether a process of Linux runs; one that has exited and waits to be reaped does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in ("Z", "X")
    except (OSError, IndexError):
        return False
