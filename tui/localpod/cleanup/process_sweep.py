"""Which processes belong to a pod, and how they end: the marks that they carry, and the sweep that kills them.

Two marks, either of which is enough. The environment names the pod and the worker, but a job can scrub it. A resource
limit that nobody reaches (the CPU time of real-time tasks, getrlimit(2) RLIMIT_RTTIME, set to tens of thousands of
years) is inherited through fork, exec, setsid and `env -i` and can't be raised without CAP_SYS_RESOURCE. A run's own
mark, a file-lock limit kept in its `tag` file, is a third.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

POD_VARIABLE = "TPU_TUI_POD"
WORKER_VARIABLE = "TPU_TUI_POD_WORKER"

_SERIAL_BITS = 16
_POD_BITS = 40
_MARK_FLOOR = 1 << 62
"""Keeps every mark at 10^18 µs and more, which no real-time task uses up."""
POD_SERIAL = (1 << _SERIAL_BITS) - 1
"""The pod's own processes. It is the highest serial: a limit can be lowered by anybody, raised only by root."""

_LIMIT = re.compile(rb"^Max realtime timeout +(\d+) ", re.MULTILINE)
_RUN_TAG = re.compile(rb"^Max file locks +(\d+) ", re.MULTILINE)
_GONE = b"ZX"
_RUN_TAGS = ".tpu-tui/runs/*/*/tag"


@dataclass(frozen=True)
class Mark:
    """What the processes of one pod (`worker` None) or of one of its workers carry."""

    pod: str
    worker: str | None = None
    serial: int = POD_SERIAL

    @property
    def limit(self) -> int:
        """The resource limit's value, µs."""
        return _MARK_FLOOR | (int(self.pod, 16) % (1 << _POD_BITS)) << _SERIAL_BITS | self.serial

    @property
    def environment(self) -> dict[str, str]:
        """The variables to start a process with."""
        return {POD_VARIABLE: self.pod} | ({WORKER_VARIABLE: self.worker} if self.worker else {})

    def put_on(self) -> None:
        """Mark this process and whatever it starts. Where a lower limit is in force the environment must do."""
        import resource

        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_RTTIME, (self.limit, self.limit))

    def is_on_limits(self, limits: bytes) -> bool:
        """Whether the text of /proc/PID/limits shows this mark; a pod's mark is on all of its workers' processes."""
        found = _LIMIT.search(limits)
        if found is None:
            return False
        value = int(found[1])
        return value == self.limit if self.worker else value >> _SERIAL_BITS == self.limit >> _SERIAL_BITS

    def is_on_environment(self, environ: bytes) -> bool:
        """Whether the bytes of /proc/PID/environ show this mark."""
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


def _is_gone(pid: int) -> bool:
    """Whether it ended already and only waits to be reaped."""
    stat = _read(f"/proc/{pid}/stat")
    state = stat[stat.rfind(b")") + 2 :][:1]
    return state in _GONE


def run_tags(homes: Iterable[Path]) -> frozenset[bytes]:
    """The marks of the runs in these home directories."""
    tags = set()
    for home in homes:
        for path in home.glob(_RUN_TAGS):
            text = _read(str(path)).strip()
            if text.isdigit():
                tags.add(text)
    return frozenset(tags)


def belongs(pid: int, marks: Sequence[Mark], tags: frozenset[bytes] = frozenset()) -> bool:
    """Whether a living process carries one of the marks, or one of the runs' tags."""
    limits = _read(f"/proc/{pid}/limits")
    marked = any(mark.is_on_limits(limits) for mark in marks)
    if not marked:
        environ = _read(f"/proc/{pid}/environ")
        marked = any(mark.is_on_environment(environ) for mark in marks)
    if not marked and tags:
        tag = _RUN_TAG.search(limits)
        marked = tag is not None and tag[1] in tags
    return marked and not _is_gone(pid)


def members(marks: Sequence[Mark], tags: frozenset[bytes] = frozenset()) -> Iterator[int]:
    """The living processes that carry one of the marks, this one left out."""
    own = os.getpid()
    for name in os.listdir("/proc"):  # noqa: PTH208 - as above
        if name.isdecimal() and int(name) != own and belongs(int(name), marks, tags):
            yield int(name)


def _kill(pid: int, marks: Sequence[Mark], tags: frozenset[bytes]) -> None:
    """Kill it if it still is who it was: the descriptor pins the process, so that a reused number is not hit."""
    with contextlib.suppress(OSError):
        handle = os.pidfd_open(pid)
        try:
            if belongs(pid, marks, tags):
                signal.pidfd_send_signal(handle, signal.SIGKILL)
        finally:
            os.close(handle)


def sweep(marks: Sequence[Mark], homes: Iterable[Path] = (), *, seconds: float = 20.0) -> list[int]:
    """Kill what carries one of the marks until two looks find nothing; returns the pids that would not go."""
    pause = 0.01
    tags = run_tags(homes)
    deadline = time.monotonic() + seconds
    quiet = 0
    while quiet < 2:
        found = list(members(marks, tags))
        if found and time.monotonic() > deadline:
            return found
        quiet = 0 if found else quiet + 1
        for pid in found:
            _kill(pid, marks, tags)
        time.sleep(pause)
    return []
