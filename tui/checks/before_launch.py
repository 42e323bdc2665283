"""What can fail a launch and is quickly seen, asked over connections that the launch goes on with."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from tui.checks.check_row import CheckRow
from tui.checks.check_thresholds import CheckThresholds
from tui.checks.merge_rows import Report, gather_rows
from tui.checks.port_checks import COORDINATOR_PORT, MESH_PORT, rows_to_coordinator
from tui.checks.workers.check_facts import JOB, NOBODY, RUN_ROOT, Ask, Facts, FactsQuery, over
from tui.checks.workers.consistency import clock_rows, runtime_rows, version_rows
from tui.checks.workers.worker_rows import report_facts
from tui.errors import TpuTuiError
from tui.pod.slice import Slice

if TYPE_CHECKING:
    from tui.ssh.fleet import Fleet

LAUNCH_PORTS = {"pjrt": (COORDINATOR_PORT,), "xrt": (MESH_PORT,)}
"""Where on worker 0 the processes of a run find each other, by runtime; the others as PJRT."""


async def before_launch(
    slice_: Slice,
    fleet: Fleet,
    *,
    thresholds: Mapping[str, float] | None = None,
    run_root: str = RUN_ROOT,
    runtime: str = "pjrt",
    job: Callable[[int], str] | None = None,
    ask: Ask | None = None,
    told: list[Facts] | None = None,
) -> AsyncIterator[CheckRow]:
    """What can fail a launch and is quickly seen: login, room, chips and who holds them, the way to worker 0, clocks.

    With `job` (a worker's environment as `job_script.job_text` writes it, by index) also the versions that its
    interpreter has. `runtime` says which ports of worker 0 the run will need. Connections are kept, and used again by
    whoever has the fleet. `ask` is how workers are asked about themselves, a session each unless it is given; what
    they tell is added to `told`.
    """
    limits = CheckThresholds.read(thresholds or {})
    told = [] if told is None else told
    ports = LAUNCH_PORTS.get(runtime, LAUNCH_PORTS["pjrt"])

    def of_worker(index: int) -> Callable[[Report], Awaitable[None]]:
        async def ways(tell: Report) -> None:
            async for row in rows_to_coordinator(index, slice_, fleet, ports):
                tell(row if runtime != "none" else _advisory(row))

        async def check(tell: Report) -> None:
            try:
                await fleet.connect(index)
            except TpuTuiError as error:
                detail = f"{error.what}: {error.why}" if error.why else error.what
                tell(CheckRow("reachability", index, None, None, "fail", None, detail, error.remedy or None))
                return
            asking = FactsQuery(run_root, versions=JOB if job else NOBODY, job=job(index) if job else "")
            facts = report_facts(
                index, slice_, ask or over(fleet), asking, limits, told, lambda row: tell(_taken(row))
            )
            await asyncio.gather(facts, ways(tell))

        return check

    for row in runtime_rows(slice_):
        yield _advisory(row)
    async for row in gather_rows([of_worker(worker.index) for worker in slice_.workers]):
        yield row
    known = sorted(told, key=lambda facts: facts.worker)
    for row in (*(version_rows(known) if job else ()), *clock_rows(known, limits)):
        yield row


def _taken(row: CheckRow) -> CheckRow:
    """A worker where another run is alive, or holds the chips, works; but it would refuse this one."""
    return replace(row, status="fail") if row.status == "warn" and row.check in ("runs", "device") else row


def _advisory(row: CheckRow) -> CheckRow:
    """What a run may do without is no reason to stop it: a port when no runtime is ours, the type's usual system."""
    return replace(row, status="warn") if row.status == "fail" else row
