"""Who may write a run's mirror: one process at a time, by a lock on the `keeper` file."""

from __future__ import annotations

import fcntl
import os
import socket
import time
from contextlib import suppress
from pathlib import Path

from tui.runs.directory import KEEPER_FILE, RunDirectory

_TRIES = 50
_PAUSE = 0.02
"""Somebody who only looks whether a keeper lives holds the lock for a moment: try again for a second in all."""


class Claim:
    """The lock on a run directory's mirror; whoever holds it is the run's keeper on this machine."""

    def __init__(self, descriptor: int, path: Path) -> None:
        self._descriptor = descriptor
        self._path = path

    @classmethod
    def take(cls, directory: RunDirectory) -> Claim | None:
        """Take the lock, None when another process has it. It is inherited by a fork and freed by the last holder."""
        path = directory.path / KEEPER_FILE
        descriptor = os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        for _ in range(_TRIES):
            if _locked(descriptor):
                return cls(descriptor, path)
            time.sleep(_PAUSE)
        os.close(descriptor)
        return None

    def sign(self) -> None:
        """Write `pid start-time host`; the start time (clock ticks since boot) tells a reused pid apart."""
        pid = os.getpid()
        text = f"{pid} {_start_time(pid)} {socket.gethostname()}\n".encode()
        with suppress(OSError):
            os.pwrite(self._descriptor, text, 0)
            os.ftruncate(self._descriptor, len(text))

    def beat(self) -> None:
        """Touch the file: a sign of life for other machines, and the `since` of an unattended run."""
        with suppress(OSError):
            os.utime(self._descriptor)

    def release(self) -> None:
        """Give the lock up."""
        self.beat()
        os.close(self._descriptor)


def _locked(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _start_time(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()[19]
    except (OSError, IndexError):
        return str(int(time.time()))
