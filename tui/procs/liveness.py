"""Find out whether a process is running. PIDs are reused, so that a process is identified by its start time too."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path


def start_time(pid: int) -> str:
    """Return when a process started, in clock ticks since boot; the current time if that is unknown."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()[19]
    except (OSError, IndexError):
        return str(int(time.time()))


def is_living(pid: int, started: str) -> bool:
    """Return whether that process exists; without start times (macOS), any process with its PID counts."""
    return start_time(pid) == started if sys.platform == "linux" else pid_exists(pid)


def pid_exists(pid: int) -> bool:
    """Return whether any process has this PID."""
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        pass
    return True


def is_running(pid: int) -> bool:
    """Return whether a process is running (Linux); a zombie is not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in ("Z", "X")
    except (OSError, IndexError):
        return False
