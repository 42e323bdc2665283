"""Faults while a run is followed: whatever is cut, killed or frozen, every mirror equals its worker's log."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import signal
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from tests.chaos.proxy import CutProxy
from tests.runs.ssh_pod import Pod, digest, unattended
from tests.sshd import OpensshWorker
from tui.pod.run import RunState
from tui.pod.worker import Worker
from tui.runs.directory import RunDirectory
from tui.runs.keeper import attend
from tui.runs.status import status_of

WRITER = """
import os, sys, time
lines, seconds = int(sys.argv[1]), float(sys.argv[2])
out = sys.stdout.buffer
began = time.monotonic()
for i in range(lines):
    out.write(b"%d " % i + os.urandom(24) + b"\\n")
    if i % 50 == 0:
        out.flush()
        time.sleep(max(0, began + seconds * i / lines - time.monotonic()))
"""
FAULTS = ("cut", "restart", "kill", "freeze")


class ProxiedPod(Pod):
    """A pod whose workers are reached through proxies."""

    def __init__(self, workers: Sequence[OpensshWorker], home: Path, proxies: Sequence[CutProxy]) -> None:
        super().__init__(workers, home)
        self.proxies = proxies

    @property
    def nouns(self) -> tuple[Worker, ...]:
        return tuple(
            replace(worker.worker, port=proxy.port) for worker, proxy in zip(self.workers, self.proxies, strict=True)
        )


def strike(pod: ProxiedPod, directory: RunDirectory, kind: str, rng: random.Random) -> None:
    """One fault, on one worker or on the keeper."""
    worker = rng.randrange(len(pod.workers))
    if kind == "cut":
        pod.proxies[worker].cut()
    elif kind == "restart":
        pod.workers[worker].stop()
        pod.workers[worker].start()
    elif kind == "kill":
        attendance = directory.attended()
        if attendance.alive and attendance.pid:
            with contextlib.suppress(ProcessLookupError):
                os.kill(attendance.pid, signal.SIGKILL)
        unattended(directory)
        asyncio.run(attend(directory, pod.access, patience=pod.patience))
    else:
        pod.workers[worker].freeze()
        time.sleep(rng.uniform(0.5, 3))
        pod.workers[worker].thaw()


def storm(pod: ProxiedPod, rng: random.Random, *, lines: int, seconds: float, pause: float) -> Counter[str]:
    """A run that writes numbered lines with binary junk for about `seconds`, under faults until it has ended.

    Asserts that every mirror is its worker's log to the byte, always a prefix on the way; the faults are counted.
    """
    directory = pod.running(sys.executable, "-c", WRITER, str(lines), str(seconds))
    struck: Counter[str] = Counter()
    deadline = time.monotonic() + seconds * 3 + 120
    while not status_of(directory).state.is_over:
        assert time.monotonic() < deadline, status_of(directory)
        writing = any(not (pod.remote(directory, index) / "status").exists() for index in range(len(pod.workers)))
        if writing:
            kind = rng.choice(FAULTS)
            strike(pod, directory, kind, rng)
            struck[kind] += 1
        time.sleep(rng.uniform(0, pause))
    status = status_of(directory)
    assert status.state is RunState.SUCCEEDED, status.cause
    for index in range(len(pod.workers)):
        mirror, log = directory.log_path(index), pod.remote(directory, index) / "log"
        assert digest(mirror) == digest(log), f"worker {index}: {mirror.stat().st_size} of {log.stat().st_size}"
        numbers = [int(line.split(b" ", 1)[0]) for line in mirror.read_bytes().split(b"\n") if _is_numbered(line)]
        assert [number for number in numbers if number == lines - 1]
    unattended(directory)
    return struck


def _is_numbered(line: bytes) -> bool:
    return line.split(b" ", 1)[0].isdigit()
