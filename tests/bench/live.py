"""A live run at pod scale: 64 workers that write 1,000 lines a second each, flushed line by line.

First the cost of a headless reader, with real files and simulated time; then the cost of the keeper and the delay of
a line on its way into the mirror, over real SSH. The workers are addresses of one OpenSSH server; they, their jobs
and that server share this machine with the keeper, and only the keeper's CPU is reported.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from tests.bench.figures import Figure, at_least, at_most
from tests.bench.scale import SETTLING_SECONDS, cpu_of, keeper_pid, peak_of, polling_cost, simulated_run
from tests.logs.shapes import training
from tests.runs.ssh_pod import Pod, over, unattended
from tests.sshd import MISSING, openssh_worker
from tests.waiting import wait_until
from tui.runs.read.sample_reader import RunReader
from tui.runs.record.run_directory import RunDirectory

WORKERS, CORES, RATE = 64, 8, 1000
"""Workers, cores of each, lines a second of each."""

BATCHES = 10
"""Batches a second in which each worker's lines arrive."""

SECONDS = 10

JOB_SECONDS = 27
"""Seconds for which each worker's job writes; the keeper is observed for `OBSERVED_SECONDS` of them."""

OBSERVED_SECONDS = 8

STEADY_RATE = 0.95
"""Share of the intended lines a second that must have been written for the figures to be valid."""

_WRITER = """
import os, sys, time
rate, seconds, each = int(sys.argv[1]), int(sys.argv[2]), 10
worker = int(os.environ["TPU_TUI_WORKER"])
began, made = time.time(), 0
while made < rate * seconds:
    for _ in range(each):
        os.write(1, b"%.6f | Training Device=xla:0/%d Epoch=1 Step=%d Loss=2.50000 Rate=10.00 "
                    b"GlobalRate=9.00 Time=10:00:00\\n" % (time.time(), worker, made))
        made += 1
    time.sleep(max(0.0, began + made / rate - time.time()))
"""
"""Writes `rate` lines a second, each with its time of writing, in separate `write` calls."""


def figures() -> Iterator[Figure]:
    """Yield the reader's CPU as a share of one core, with real files and simulated time; then the keeper's."""
    with tempfile.TemporaryDirectory() as name:
        directory = simulated_run(Path(name), WORKERS)
        reader = RunReader(directory)
        spent = polling_cost(directory, reader, _batch, SECONDS, BATCHES)
        seen = reader.snapshot(now=float(SECONDS)).samples
    written = WORKERS * RATE * SECONDS
    yield Figure(
        f"{WORKERS} workers × {RATE:,} lines/s for {SECONDS} s, lines read",
        f"{seen:,}",
        f"{written:,}",
        seen == written,
    )
    yield at_most("reader and a snapshot at 10 Hz, share of a core", 100 * spent / SECONDS, 10, "%", 1)
    if MISSING:
        yield Figure("keeper over real SSH", MISSING)
    else:
        yield from _keeper_figures()


def _keeper_figures() -> Iterator[Figure]:
    """Yield figures of a real keeper: its CPU, and the time from a line written to that line in its mirror."""
    with tempfile.TemporaryDirectory(prefix="lv") as name:
        root = Path(name)
        os.environ["TPU_TUI_HOME"] = str(root / "home")
        extra = ("MaxStartups 1000:30:2000",)
        with openssh_worker(root, host="0.0.0.0", extra=extra) as server:
            pod = Pod([replace(server, index=n, host=f"127.0.100.{n + 1}") for n in range(WORKERS)], root / "home")
            try:
                directory = pod.running(
                    sys.executable, "-c", _WRITER, str(RATE), str(JOB_SECONDS), lease=60.0, grace=5.0
                )
                observed = _observe_keeper(directory)
                over(directory, 120)
                unattended(directory)
                exact = pod.mirrors_are_exact(directory)
            finally:
                pod.end_runs()
        written, took = _written_and_taken(directory)
    lines = RATE * JOB_SECONDS * WORKERS
    steady = (written >= observed.began) & (written < observed.ended)
    rate = np.count_nonzero(steady) / (observed.ended - observed.began) / WORKERS
    yield at_least(f"{WORKERS} OpenSSH workers, lines a second of each", rate, STEADY_RATE * RATE, "", 0)
    yield Figure("lines in the mirrors, byte for byte", f"{len(took):,}", f"{lines:,}", exact and len(took) == lines)
    yield at_most("keeper, share of a core", observed.share, 15, "%", 1)
    yield Figure("keeper, before that: the launch, and what it loads once", f"{observed.before:.2f} s of CPU")
    yield Figure("keeper, peak memory", f"{observed.memory:.0f} MB")
    median, late = np.percentile(took[steady], (50, 99)) * 1000
    yield at_most(f"from line written to line in the mirror, p99 (p50 {median:.0f} ms)", late, 400, "ms", 0)
    every = np.percentile(took, 99) * 1000
    yield Figure("the same, with the lines written before all workers were followed", f"{every:,.0f} ms")


@dataclass(frozen=True)
class Observation:
    """A keeper while every worker writes: its share of a core, peak memory, and when that was (Unix time)."""

    share: float
    before: float
    """CPU seconds since its start: the launch, and loading what watches for stalled cores."""
    memory: float
    began: float
    ended: float


def _observe_keeper(directory: RunDirectory) -> Observation:
    pid = keeper_pid(directory)
    wait_until(
        lambda: all(directory.log_path(n).exists() and directory.log_path(n).stat().st_size for n in range(WORKERS))
    )
    time.sleep(SETTLING_SECONDS)
    spent, began = cpu_of(pid), time.time()
    time.sleep(OBSERVED_SECONDS)
    ended = time.time()
    return Observation(100 * (cpu_of(pid) - spent) / (ended - began), spent, peak_of(pid), began, ended)


def _written_and_taken(directory: RunDirectory) -> tuple[np.ndarray, np.ndarray]:
    """Return when each line was written, and the seconds until the batch that holds its end was in the mirror."""
    ends: dict[int, list[int]] = {}
    times: dict[int, list[float]] = {}
    for arrival in directory.arrivals()[0]:
        ends.setdefault(arrival.worker, []).append(arrival.end)
        times.setdefault(arrival.worker, []).append(arrival.time)
    written, taken = [], []
    for worker in range(WORKERS):
        lines = directory.log_path(worker).read_bytes().splitlines(keepends=True)
        line_ends = np.cumsum([len(line) for line in lines])
        written.append(np.array([float(line[: line.index(b" ")]) for line in lines]))
        taken.append(np.array(times[worker])[np.searchsorted(ends[worker], line_ends)])
    return np.concatenate(written), np.concatenate(taken) - np.concatenate(written)


def _batch(worker: int, number: int) -> list[str]:
    """Return the lines of one worker that arrive in one batch."""
    return [
        training(worker * CORES + line % CORES, number * 10 + line // CORES, epoch=1)
        for line in range(RATE // BATCHES)
    ]
