"""Signal a child process of asyncio without taking its exit code from asyncio."""

from __future__ import annotations

import os
import signal
from asyncio.subprocess import Process
from contextlib import suppress


def kill_child(process: Process, number: int = signal.SIGKILL) -> None:
    """Send a signal to a child that has not ended.

    `Process.kill` polls the child first. If it has just ended, asyncio's own wait then finds no child: it prints a
    warning and reports exit code 255 (python/cpython#127049, before Python 3.12.8).
    """
    if process.returncode is None:
        with suppress(ProcessLookupError):
            os.kill(process.pid, number)
