"""The `keeper` file of a run: which process signed it, its last heartbeat, and what that means for the run.

It holds `pid start-time host awake`; `awake` is the machine's clock of seconds awake (CLOCK_MONOTONIC) at the last
heartbeat, which stands still while a laptop sleeps: a keeper that wakes up has time for a heartbeat before it counts
as stuck. For files without it, the time of their last change counts.
"""

from __future__ import annotations

import fcntl
import os
import socket
import time
from dataclasses import dataclass
from datetime import datetime, timezone
from io import FileIO
from pathlib import Path
from typing import Any

from tui.errors import TpuTuiError
from tui.procs.liveness import is_living, start_time
from tui.settings.home import open_regular, read_regular
from tui.text.numbers import parse_integer
from tui.text.printable import one_line
from tui.text.timestamps import to_utc

KEEPER_FILE = "keeper"
HEARTBEAT_INTERVAL_S = 5.0
"""Seconds between two touches of the keeper file."""
STALE_AFTER_S = 4 * HEARTBEAT_INTERVAL_S
"""After this many seconds without a touch, a keeper counts as stuck, or on another machine as dead."""
MOST_PID = 2**31 - 1
_MOST_BYTES = 1024
_MOST_HOST = 255


@dataclass(frozen=True, slots=True)
class KeeperStatus:
    """Whether a run has a live keeper; `since` is its last sign of life (Unix time), None if it never had one.

    `stuck`: the keeper's process is alive and holds the run's lock, but had no heartbeat for `silent_s` seconds.
    """

    alive: bool
    since: float | None = None
    pid: int | None = None
    host: str | None = None
    stuck: bool = False
    silent_s: float = 0.0

    @property
    def state(self) -> str:
        """Return `running`, `stuck` or `gone`."""
        return "running" if self.alive else "stuck" if self.stuck else "gone"

    def to_json(self) -> dict[str, Any] | None:
        """Return the document's `keeper`; None where no keeper ever signed."""
        if self.since is None:
            return None
        seen_at = to_utc(datetime.fromtimestamp(self.since, timezone.utc))
        return {"pid": self.pid, "host": self.host, "state": self.state, "seen": seen_at}


@dataclass(frozen=True, slots=True)
class Signature:
    """A keeper's signature: its process, its machine, and the seconds awake at its last heartbeat."""

    pid: int
    started: str
    host: str
    awake_s: float | None = None

    @property
    def is_here(self) -> bool:
        """Return whether it is a process of this machine."""
        return self.host == socket.gethostname()

    @property
    def lives(self) -> bool:
        """Return whether its process is alive; a process on another machine is assumed to be."""
        return not self.is_here or is_living(self.pid, self.started)


def make_signature() -> bytes:
    """Return this process's signature as of now."""
    pid = os.getpid()
    return f"{pid} {start_time(pid)} {socket.gethostname()} {time.monotonic():.3f}\n".encode()


def parse_signature(data: bytes) -> Signature | None:
    """Return the signature in a keeper file; None where there is none."""
    fields = data[:_MOST_BYTES].decode("utf-8", "replace").split()
    pid = parse_integer(fields[0], MOST_PID) if len(fields) > 2 else None
    if pid is None:
        return None
    seconds, _, thousandths = (fields[3] if len(fields) > 3 else "").partition(".")
    whole, rest = parse_integer(seconds), parse_integer(thousandths)
    awake = None if whole is None or rest is None or len(thousandths) != 3 else whole + rest / 1000
    return Signature(pid, fields[1], one_line(fields[2])[:_MOST_HOST], awake)


def read_keeper_status(path: str) -> KeeperStatus:
    """Return whether a keeper lives: by its lock and its heartbeat, on another machine by its heartbeat alone."""
    try:
        with FileIO(open_regular(path)) as file:
            data, beat = file.read(_MOST_BYTES), os.fstat(file.fileno()).st_mtime
            locked = _is_locked(file.fileno())
    except OSError:
        return KeeperStatus(alive=False)
    signed = parse_signature(data)
    if signed is None:
        return KeeperStatus(locked, beat if data.strip() else None)
    silent = _silent_for(signed, beat)
    is_silent = silent > STALE_AFTER_S
    # A command that brings the mirror up to date also locks the run for a moment, when its keeper is dead.
    stuck = locked and is_silent and signed.lives
    alive = locked and not stuck if signed.is_here or locked else not is_silent
    return KeeperStatus(alive, beat, signed.pid, signed.host, stuck, silent)


def _silent_for(signed: Signature, beat: float) -> float:
    """Return the seconds awake since a keeper's last heartbeat."""
    awake = time.monotonic() - signed.awake_s if signed.is_here and signed.awake_s is not None else -1.0
    return awake if awake >= 0 else max(0.0, time.time() - beat)


def _is_locked(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    fcntl.flock(descriptor, fcntl.LOCK_UN)
    return False


def read_signature(path: Path) -> Signature | None:
    """Return the last signature of a keeper file; None where there is none."""
    try:
        return parse_signature(read_regular(path, size=_MOST_BYTES))
    except OSError:
        return None


def describe_stuck_keeper(attended: KeeperStatus) -> str:
    """Describe which process is stuck, and for how long."""
    return f"its keeper (pid {attended.pid} on {attended.host}) has not moved for {attended.silent_s:.0f} s"


def describe_stuck_remedy(run_id: str, attended: KeeperStatus) -> str:
    """Return the commands that continue a stuck keeper, or replace it."""
    on_host = "" if attended.host == socket.gethostname() else f" there, on {attended.host}"
    return f"kill -CONT {attended.pid}, or kill -9 {attended.pid}{on_host}; then tpu-tui attach {run_id}"


class StuckKeeperError(TpuTuiError):
    """A run's keeper is alive and stuck: no other one can take its place."""

    def __init__(self, run_id: str, attended: KeeperStatus) -> None:
        super().__init__(
            f"the keeper of {run_id} is stuck",
            why=describe_stuck_keeper(attended),
            remedy=describe_stuck_remedy(run_id, attended),
        )
