"""A live run at pod scale: what a headless reader costs beside 64 workers that write 1,000 lines a second each."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from tests.bench.figures import Figure, at_most
from tests.logs.shapes import training
from tui.pod.run import Run
from tui.pod.worker import Worker
from tui.runs.directory import RunDirectory
from tui.runs.reader import RunReader

WORKERS, CORES, RATE = 64, 8, 1000
"""Workers, cores of each, lines a second of each."""

BATCHES = 10
"""Batches a second in which each worker's lines arrive."""

SECONDS = 10


def figures() -> Iterator[Figure]:
    """The reader's CPU as a share of one core: the run's time is simulated, the files are real."""
    with tempfile.TemporaryDirectory() as name:
        workers = tuple(Worker(index, internal_ip=f"10.0.0.{index + 1}") for index in range(WORKERS))
        run = Run(id="bench-20260101-000000-abcd", slice="bench", argv=("x",), workers=workers)
        directory = RunDirectory.create(Path(name), run)
        reader = RunReader(directory)
        spent = _polled(directory, reader)
        seen = reader.snapshot(now=float(SECONDS)).samples
    written = WORKERS * RATE * SECONDS
    yield Figure(
        f"{WORKERS} workers × {RATE:,} lines/s for {SECONDS} s, lines read",
        f"{seen:,}",
        f"{written:,}",
        seen == written,
    )
    yield at_most("reader and a snapshot at 10 Hz, share of a core", 100 * spent / SECONDS, 10, "%", 1)


def _polled(directory: RunDirectory, reader: RunReader) -> float:
    """CPU seconds of polling and looking while batch after batch arrives."""
    spent = 0.0
    ends = [0] * WORKERS
    for turn in range(SECONDS * BATCHES):
        for worker in range(WORKERS):
            lines = (
                training(worker * CORES + n % CORES, turn * 10 + n // CORES, epoch=1) + "\n"
                for n in range(RATE // BATCHES)
            )
            data = "".join(lines).encode()
            with directory.log_path(worker).open("ab") as file:
                file.write(data)
            ends[worker] += len(data)
            directory.append_arrival(worker, ends[worker], turn / BATCHES)
        began = time.process_time()
        while reader.poll():
            pass
        reader.snapshot(now=turn / BATCHES)
        spent += time.process_time() - began
    return spent
