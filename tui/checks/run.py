"""All checks that need a connection, worker by worker, told as the answers come."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from tui.checks.across import clock_rows, rows_across, runtime_rows, version_rows
from tui.checks.facts import JOB, LOGIN, NOBODY, Asking, Facts, ask_facts
from tui.checks.firewall_rows import read_rules, rows_of_rules
from tui.checks.ports import COORDINATOR_PORT, DEFAULT_PORTS, MESH_PORT, rows_from, rows_to_coordinator, scope_rows
from tui.checks.reachability import reach_rows
from tui.checks.row import CheckRow
from tui.checks.stream import Tell, gather_rows
from tui.checks.thresholds import Thresholds
from tui.checks.worker_rows import rows_of_facts
from tui.errors import TpuTuiError
from tui.pod.slice import Slice

if TYPE_CHECKING:
    from tui.cloud.firewall_rules import FirewallRules
    from tui.ssh.fleet import Fleet

RUN_ROOT = "~/.tpu-tui"
LAUNCH_PORTS = {"pjrt": (COORDINATOR_PORT,), "xrt": (MESH_PORT,)}
"""Where on worker 0 the processes of a run find each other, by runtime; the others as PJRT."""


async def run_checks(
    slice_: Slice,
    fleet: Fleet,
    ports: Sequence[int] = (),
    *,
    thresholds: Mapping[str, float] | None = None,
    run_root: str = RUN_ROOT,
    firewall: FirewallRules | None = None,
    route: str = "external",
    tags: Sequence[str] = (),
    account: str | None = None,
) -> AsyncIterator[CheckRow]:
    """Reachability of every worker, what each tells about itself, the ports of its peers, and what differs.

    `thresholds` are a profile's. With `firewall` its rules are read too and told beside the probes; `route` is how
    this machine reaches the workers, `tags` and `account` what rules know them by. Stopping the iteration stops
    what is under way.
    """
    limits = Thresholds.read(thresholds or {})
    asking = Asking(run_root, versions=LOGIN, code=True)
    told: list[Facts] = []
    probed: list[CheckRow] = []

    def of_worker(index: int) -> Callable[[Tell], Awaitable[None]]:
        async def check(tell: Tell) -> None:
            reached = await reach_rows(index, fleet)
            for row in reached:
                tell(row)
            if reached[-1].status == "pass":
                await _tell_facts(index, slice_, fleet, asking, limits, told, tell)
                async for row in rows_from(index, slice_, fleet, (*DEFAULT_PORTS, *ports)):
                    probed.append(row)
                    tell(row)
            elif len(slice_.workers) > 1:
                detail = "nothing can be tried from it: this machine cannot log in"
                tell(CheckRow("ports", index, None, None, "unknown", None, detail))

        return check

    reading = asyncio.ensure_future(read_rules(slice_, firewall)) if firewall is not None else None
    try:
        for row in (*runtime_rows(slice_), *scope_rows(slice_)):
            yield row
        async for row in gather_rows([of_worker(worker.index) for worker in slice_.workers]):
            yield row
        for row in rows_across(sorted(told, key=lambda facts: facts.worker), limits):
            yield row
        if reading is not None:
            rules = await reading
            seen = sorted({facts.origin for facts in told if facts.origin})
            for row in rows_of_rules(
                slice_,
                rules,
                ports=ports,
                probed=probed,
                route=route,
                jump=_jump_host(slice_, fleet),
                origins=seen,
                tags=tags,
                account=account,
            ):
                yield row
    finally:
        if reading is not None:
            reading.cancel()


def _jump_host(slice_: Slice, fleet: Fleet) -> str | None:
    """The jump host that logins go through, from the settings or from ~/.ssh/config."""
    from tui.ssh.access import login_to

    if fleet.access.jump or not slice_.workers:
        return fleet.access.jump
    return login_to(slice_.workers[0], fleet.access).jump


async def before_launch(
    slice_: Slice,
    fleet: Fleet,
    *,
    thresholds: Mapping[str, float] | None = None,
    run_root: str = RUN_ROOT,
    runtime: str = "pjrt",
    job: Callable[[int], str] | None = None,
) -> AsyncIterator[CheckRow]:
    """What can fail a launch and is quickly seen: login, room, chips and who holds them, the way to worker 0, clocks.

    With `job` (a worker's environment as `tui.runs.job.job_text` writes it, by index) also the versions that its
    interpreter has. `runtime` says which ports of worker 0 the run will need. Connections are kept, and used again by
    whoever has the fleet.
    """
    limits = Thresholds.read(thresholds or {})
    told: list[Facts] = []
    ports = LAUNCH_PORTS.get(runtime, LAUNCH_PORTS["pjrt"])

    def of_worker(index: int) -> Callable[[Tell], Awaitable[None]]:
        async def ways(tell: Tell) -> None:
            async for row in rows_to_coordinator(index, slice_, fleet, ports):
                tell(row if runtime != "none" else _advisory(row))

        async def check(tell: Tell) -> None:
            try:
                await fleet.connect(index)
            except TpuTuiError as error:
                detail = f"{error.what}: {error.why}" if error.why else error.what
                tell(CheckRow("reachability", index, None, None, "fail", None, detail, error.remedy or None))
                return
            asking = Asking(run_root, versions=JOB if job else NOBODY, job=job(index) if job else "")
            facts = _tell_facts(index, slice_, fleet, asking, limits, told, lambda row: tell(_taken(row)))
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


async def _tell_facts(
    index: int, slice_: Slice, fleet: Fleet, asking: Asking, limits: Thresholds, told: list[Facts], tell: Tell
) -> None:
    try:
        facts = await ask_facts(index, fleet, asking)
    except TpuTuiError as error:
        detail = f"{error.what}: {error.why}" if error.why else error.what
        tell(CheckRow("worker", index, None, None, "unknown", None, detail, error.remedy or None))
        return
    told.append(facts)
    for row in rows_of_facts(facts, slice_, limits):
        tell(row)
