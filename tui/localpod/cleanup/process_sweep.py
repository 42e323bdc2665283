"""The marks that a pod's processes carry, and the sweep that kills every process that carries one.

There are two marks; either is enough. The environment names the pod and the worker, but a job can scrub it. A
resource limit that no process reaches (the CPU time of real-time tasks, getrlimit(2) RLIMIT_RTTIME, set to tens of
thousands of years) is inherited through fork, exec, setsid and `env -i`; raising it takes CAP_SYS_RESOURCE.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

POD_VARIABLE = "TPU_TUI_POD"
WORKER_VARIABLE = "TPU_TUI_POD_WORKER"

_SERIAL_BITS = 16
_POD_BITS = 40
_MARK_FLOOR = 1 << 62
"""Keeps every mark at 10^18 µs or more, which no real-time task uses up."""
POD_SERIAL = (1 << _SERIAL_BITS) - 1
"""The serial of the pod's own processes. It is the highest: only root may raise a limit."""

_LIMIT = re.compile(rb"^Max realtime timeout +(\d+) ", re.MULTILINE)
_ENDED_STATES = (b"Z", b"X")
"""States of a process in /proc/PID/stat (proc(5)): zombie and dead."""
_SWEEP_INTERVAL_S = 0.01
_SWEEP_TIMEOUT_S = 20.0


@dataclass(frozen=True)
class Mark:
    """The mark of the processes of one pod (`worker` None) or of one of its workers."""

    pod: str
    worker: str | None = None
    serial: int = POD_SERIAL

    @property
    def limit(self) -> int:
        """Return the value of the resource limit, in µs."""
        return _MARK_FLOOR | (int(self.pod, 16) % (1 << _POD_BITS)) << _SERIAL_BITS | self.serial

    @property
    def environment(self) -> dict[str, str]:
        """Return the variables that a process of the pod is started with."""
        return {POD_VARIABLE: self.pod} | ({WORKER_VARIABLE: self.worker} if self.worker else {})

    def put_on(self) -> None:
        """Mark this process and its future children; under a lower limit, only the environment marks them."""
        import resource

        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_RTTIME, (self.limit, self.limit))

    def is_on_limits(self, limits: bytes) -> bool:
        """Return whether the text of /proc/PID/limits shows this mark; a pod's mark covers its workers' processes."""
        match = _LIMIT.search(limits)
        if match is None:
            return False
        value = int(match[1])
        return value == self.limit if self.worker else value >> _SERIAL_BITS == self.limit >> _SERIAL_BITS

    def is_on_environment(self, environ: bytes) -> bool:
        """Return whether the bytes of /proc/PID/environ show this mark."""
        if self.pod.encode() not in environ:
            return False
        variables = set(environ.split(b"\0"))
        return all(f"{name}={value}".encode() in variables for name, value in self.environment.items())


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as file:  # noqa: PTH123 - pathlib triples the cost of a sweep
            return file.read()
    except OSError:
        return b""


def _has_ended(pid: int) -> bool:
    """Return whether the process has ended and only waits to be reaped."""
    stat = _read(f"/proc/{pid}/stat")
    return stat[stat.rfind(b")") + 2 :][:1] in _ENDED_STATES


def belongs(pid: int, marks: Sequence[Mark]) -> bool:
    """Return whether a living process carries one of the marks."""
    limits, environ = _read(f"/proc/{pid}/limits"), _read(f"/proc/{pid}/environ")
    is_marked = any(mark.is_on_limits(limits) or mark.is_on_environment(environ) for mark in marks)
    return is_marked and not _has_ended(pid)


def members(marks: Sequence[Mark]) -> Iterator[int]:
    """Yield the living processes that carry one of the marks, except this one."""
    own = os.getpid()
    for name in os.listdir("/proc"):  # noqa: PTH208 - as above
        if name.isdecimal() and int(name) != own and belongs(int(name), marks):
            yield int(name)


def _kill(pid: int, marks: Sequence[Mark]) -> None:
    """Kill a process if it still carries a mark. The descriptor pins it, so that a reused PID is never killed."""
    with contextlib.suppress(OSError):
        handle = os.pidfd_open(pid)
        try:
            if belongs(pid, marks):
                signal.pidfd_send_signal(handle, signal.SIGKILL)
        finally:
            os.close(handle)


def sweep(marks: Sequence[Mark]) -> list[int]:
    """Kill marked processes until two passes in a row find none; return the pids that are still there at the end."""
    deadline = time.monotonic() + _SWEEP_TIMEOUT_S
    empty_passes = 0
    while empty_passes < 2:
        pids = list(members(marks))
        if pids and time.monotonic() > deadline:
            return pids
        empty_passes = 0 if pids else empty_passes + 1
        for pid in pids:
            _kill(pid, marks)
        time.sleep(_SWEEP_INTERVAL_S)
    return []
