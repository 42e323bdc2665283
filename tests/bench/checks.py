"""Time of the checks of 32 workers, which are real sshds on loopback; this machine is client and server."""

from __future__ import annotations

import asyncio
import shlex
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack
from pathlib import Path
from statistics import median

from tests.bench.figures import Figure, at_most
from tests.sshd import MISSING, OpensshWorker, openssh_worker
from tui.aio.fan_out import as_completed
from tui.checks.before_launch import before_launch
from tui.checks.check_row import CheckRow
from tui.checks.port_checks import port_rows_from
from tui.checks.run_checks import run_checks
from tui.pod.slice import Slice
from tui.ssh.fleet import Fleet

WORKERS = 32
ROUNDS = 3
PORTS = (22, 8476, 8477)
MATRIX_SECONDS = 5.0
BEFORE_LAUNCH_SECONDS = 2.0

Check = Callable[[Slice, Fleet], AsyncIterator[CheckRow]]


def figures() -> list[Figure]:
    """Return wall-clock seconds, logins included, and this client's CPU; the workers use the same CPU."""
    if MISSING:
        return [Figure("32 workers", MISSING)]
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="h8-")))
        workers = [
            stack.enter_context(openssh_worker(directory, index=index, host=f"127.0.9.{index + 1}"))
            for index in range(WORKERS)
        ]
        return [
            *_timed("ports, 32 workers × 3", workers, _three_ports, MATRIX_SECONDS),
            *_timed("before a launch of Python, 32 workers", workers, _before_python, BEFORE_LAUNCH_SECONDS),
            *_timed("every check, 32 workers × 5 ports", workers, run_checks, None),
        ]


async def _three_ports(slice_: Slice, fleet: Fleet) -> AsyncIterator[CheckRow]:
    async def rows_of(index: int) -> list[CheckRow]:
        return [row async for row in port_rows_from(index, slice_, fleet, PORTS)]

    async for rows in as_completed(rows_of(worker.index) for worker in slice_.workers):
        for row in rows:
            yield row


def _before_python(slice_: Slice, fleet: Fleet) -> AsyncIterator[CheckRow]:
    return before_launch(slice_, fleet, job=lambda _index: f"set -- {shlex.quote(sys.executable)} train.py\n")


def _timed(what: str, workers: list[OpensshWorker], check: Check, limit: float | None) -> list[Figure]:
    slice_ = Slice("lab", source="hosts_file", workers=tuple(worker.worker for worker in workers))
    took = [asyncio.run(_once(slice_, workers[0], check)) for _ in range(ROUNDS)]
    wall, cpu, rows = (median(one[place] for one in took) for place in range(3))
    first = Figure(what, f"{wall:,.2f} s") if limit is None else at_most(what, wall, limit, "s")
    return [first, Figure(f"{what}: client's CPU, {rows:,.0f} rows", f"{cpu:,.2f} s")]


async def _once(slice_: Slice, worker: OpensshWorker, check: Check) -> tuple[float, float, int]:
    began, used = time.monotonic(), time.process_time()
    async with Fleet(slice_.workers, worker.access()) as fleet:
        rows = [row async for row in check(slice_, fleet)]
        took = time.monotonic() - began
    return took, time.process_time() - used, len(rows)
