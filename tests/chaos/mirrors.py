"""Faults while a run is followed: whatever is cut, killed or frozen, every mirror equals its worker's log."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

from tests.chaos.drops import dropping, is_inside
from tests.chaos.proxy import CutProxy
from tests.runs.ssh_pod import Pod, digest, over, unattended
from tests.sshd import OpensshWorker
from tui.pod.run import RunState
from tui.pod.worker import Worker
from tui.runs.keeper.start import ensure_keeper
from tui.runs.record.run_directory import RunDirectory
from tui.runs.record.run_status import status_of

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
DROPS = {"silence": 100, "loss": 30}
"""Faults that need a network namespace, with the percentage of packets that is dropped for a while."""


class ProxiedPod(Pod):
    """A pod whose workers are reached through proxies."""

    def __init__(self, workers: Sequence[OpensshWorker], home: Path, proxies: Sequence[CutProxy]) -> None:
        super().__init__(workers, home)
        self.proxies = proxies
        self.busy = [threading.Lock() for _ in workers]
        """Locks that allow one fault at a time on each worker, and below on the keeper."""
        self.replacing = threading.Lock()

    @property
    def launch_workers(self) -> tuple[Worker, ...]:
        return tuple(
            replace(worker.worker, port=proxy.port) for worker, proxy in zip(self.workers, self.proxies, strict=True)
        )


def strike(pod: ProxiedPod, directory: RunDirectory, kind: str, rng: random.Random) -> None:
    """Inject one fault on a random worker or on the keeper."""
    index = rng.randrange(len(pod.workers))
    if kind == "kill":
        with pod.replacing:
            replace_keeper(pod, directory)
        return
    with pod.busy[index]:
        worker = pod.workers[index]
        if kind == "cut":
            pod.proxies[index].cut()
        elif kind == "restart":
            worker.stop()
            worker.start()
        elif kind == "freeze":
            worker.freeze()
            time.sleep(rng.uniform(0.5, 3))
            worker.thaw()
        else:
            with dropping(pod.proxies[index].port, DROPS[kind]):
                time.sleep(rng.uniform(0.5, 5))


def replace_keeper(pod: ProxiedPod, directory: RunDirectory) -> None:
    """Kill the keeper and start another one."""
    attendance = directory.keeper_status()
    if attendance.alive and attendance.pid:
        with contextlib.suppress(ProcessLookupError):
            os.kill(attendance.pid, signal.SIGKILL)
    unattended(directory)
    asyncio.run(ensure_keeper(directory, pod.access, timeouts=pod.timeouts))


def storm(
    pod: ProxiedPod, rng: random.Random, *, lines: int, seconds: float, pause: float, strikers: int = 1
) -> Counter[str]:
    """Follow a run that writes numbered lines of binary junk for about `seconds`, under faults; return their counts.

    Checks that every mirror equals its worker's log in the end. `strikers` threads inject faults at the same time,
    each with a random pause of up to `pause` seconds between its faults.
    """
    directory = pod.running(sys.executable, "-c", WRITER, str(lines), str(seconds))
    kinds = (*FAULTS, *(DROPS if is_inside() else ()))

    def writing() -> bool:
        return any(not (pod.remote(directory, index) / "status").exists() for index in range(len(pod.workers)))

    def inject_faults(own: random.Random) -> Counter[str]:
        struck: Counter[str] = Counter()
        while writing():
            kind = own.choice(kinds)
            strike(pod, directory, kind, own)
            struck[kind] += 1
            time.sleep(own.uniform(0, pause))
        return struck

    with ThreadPoolExecutor(strikers) as pool:
        counts = [pool.submit(inject_faults, random.Random(rng.random())) for _ in range(strikers)]
        struck = sum((one.result() for one in counts), Counter[str]())
    over(directory, seconds * 3 + 300)
    status = status_of(directory)
    assert status.state is RunState.SUCCEEDED, status
    for index in range(len(pod.workers)):
        mirror, log = directory.log_path(index), pod.remote(directory, index) / "log"
        assert digest(mirror) == digest(log), f"worker {index}: {mirror.stat().st_size} of {log.stat().st_size}"
        assert b"%d" % (lines - 1) in (line.split(b" ", 1)[0] for line in mirror.read_bytes().split(b"\n"))
    unattended(directory)
    return struck
