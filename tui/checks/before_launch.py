"""Quick checks of what can fail a launch, over connections that the launch continues to use."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import replace
from functools import partial

from tui.aio.fan_out import gather_rows, run_all
from tui.checks.check_row import CheckRow, Report, error_row
from tui.checks.check_thresholds import CheckThresholds
from tui.checks.port_checks import coordinator_port_rows
from tui.checks.slice_state import runtime_rows
from tui.checks.workers.check_facts import JOB, NO_INTERPRETER, Ask, Facts, FactsQuery, ask_over_sessions
from tui.checks.workers.consistency import clock_rows, version_rows
from tui.checks.workers.worker_rows import report_facts
from tui.errors import TpuTuiError
from tui.pod.ports import COORDINATOR_PORT, MESH_PORT
from tui.pod.slice import Slice
from tui.pod.worker import RUN_ROOT
from tui.ssh.fleet import Fleet

LAUNCH_PORTS = {"pjrt": (COORDINATOR_PORT,), "xrt": (MESH_PORT,)}
"""Ports of worker 0 where a run's processes find each other, by runtime; other runtimes are checked as PJRT."""


async def before_launch(
    slice_: Slice,
    fleet: Fleet,
    *,
    thresholds: Mapping[str, float] | None = None,
    run_root: str = RUN_ROOT,
    runtime: str = "pjrt",
    job: Callable[[int], str] | None = None,
    ask: Ask | None = None,
    collected: list[Facts] | None = None,
) -> AsyncIterator[CheckRow]:
    """Check what can fail a launch: login, disk, chips and their users, the ports of worker 0, clocks.

    `job` returns a worker's environment, by index, as `job_script.job_text` writes it; with it, the packages of the
    job's interpreter are compared too. `runtime` decides which ports of worker 0 are needed. `ask` queries a worker's
    facts, by default in a session per call, and `collected` receives them. Connections stay open in the fleet.
    """
    limits = CheckThresholds.read(thresholds or {})
    collected = [] if collected is None else collected
    ports = LAUNCH_PORTS.get(runtime, LAUNCH_PORTS["pjrt"])

    async def check_ports(index: int, report: Report) -> None:
        async for row in coordinator_port_rows(index, slice_, fleet, ports):
            report(row if runtime != "none" else _advisory(row))

    async def check(index: int, report: Report) -> None:
        try:
            await fleet.connect(index)
        except TpuTuiError as error:
            report(error_row("reachability", "fail", error, worker=index))
            return
        query = FactsQuery(run_root, versions=JOB if job else NO_INTERPRETER, job=job(index) if job else "")
        ask_worker, report_refusal = ask or ask_over_sessions(fleet), lambda row: report(_as_refusal(row))
        facts = report_facts(index, slice_, ask_worker, query, limits, collected, report_refusal)
        await run_all((facts, check_ports(index, report)))

    for row in runtime_rows(slice_):
        yield _advisory(row)
    async for row in gather_rows([partial(check, worker.index) for worker in slice_.workers]):
        yield row
    all_facts = sorted(collected, key=lambda facts: facts.worker)
    for row in (*(version_rows(all_facts) if job else ()), *clock_rows(all_facts, limits)):
        yield row


def _as_refusal(row: CheckRow) -> CheckRow:
    """Return a warning about a live run or used chips as a failure: the worker would refuse this launch."""
    return replace(row, status="fail") if row.status == "warn" and row.check in ("runs", "device") else row


def _advisory(row: CheckRow) -> CheckRow:
    """Return a failure as a warning: the run may not need this port or this runtime version."""
    return replace(row, status="warn") if row.status == "fail" else row
