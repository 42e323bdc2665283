"""Run all checks that need a connection, on all workers at once; yield rows as answers arrive."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from tui.aio.fan_out import gather_rows
from tui.checks.check_row import CheckRow, Report, make_row
from tui.checks.check_thresholds import CheckThresholds
from tui.checks.firewall.firewall_rows import firewall_rows, read_rules
from tui.checks.port_checks import DEFAULT_PORTS, port_rows_from, scope_rows
from tui.checks.slice_state import runtime_rows
from tui.checks.workers.check_facts import LOGIN, Facts, FactsQuery, ask_over_sessions
from tui.checks.workers.consistency import clock_rows, code_rows, version_rows
from tui.checks.workers.login_check import login_rows
from tui.checks.workers.worker_rows import report_facts
from tui.pod.slice import Slice
from tui.pod.worker import RUN_ROOT
from tui.ssh.config.access import login_to
from tui.ssh.fleet import Fleet

if TYPE_CHECKING:
    from tui.cloud.compute.firewall_rules import FirewallRules


async def run_checks(
    slice_: Slice,
    fleet: Fleet,
    ports: Sequence[int] = (),
    *,
    thresholds: Mapping[str, float] | None = None,
    run_root: str = RUN_ROOT,
    firewall: FirewallRules | None = None,
    tags: Sequence[str] = (),
    account: str | None = None,
) -> AsyncIterator[CheckRow]:
    """Check every worker's login, its facts, the ports of its peers, and differences between workers.

    `thresholds` are a profile's. With `firewall`, the rules are compared with the probes; `tags` and `account` are
    the network tags and the service account by which rules may name the workers. Stopping the iteration cancels the
    checks.
    """
    limits = CheckThresholds.read(thresholds or {})
    query = FactsQuery(run_root, versions=LOGIN, code=True)
    collected: list[Facts] = []
    probed: list[CheckRow] = []

    async def check(index: int, report: Report) -> None:
        reached = login_rows(await fleet.try_login(index))
        for row in reached:
            report(row)
        if reached[-1].status == "pass":
            await report_facts(index, slice_, ask_over_sessions(fleet), query, limits, collected, report)
            async for row in port_rows_from(index, slice_, fleet, (*DEFAULT_PORTS, *ports)):
                probed.append(row)
                report(row)
        elif len(slice_.workers) > 1:
            detail = "no port can be probed from it: this machine cannot log in"
            report(make_row("ports", "unknown", detail, worker=index))

    reading = asyncio.ensure_future(read_rules(slice_, firewall)) if firewall is not None else None
    try:
        for row in (*runtime_rows(slice_), *scope_rows(slice_)):
            yield row
        async for row in gather_rows([partial(check, worker.index) for worker in slice_.workers]):
            yield row
        all_facts = sorted(collected, key=lambda facts: facts.worker)
        for row in (*version_rows(all_facts), *code_rows(all_facts), *clock_rows(all_facts, limits)):
            yield row
        if reading is not None:
            rules = await reading
            origins = sorted({facts.origin for facts in collected if facts.origin})
            for row in firewall_rows(
                slice_,
                rules,
                ports=ports,
                probed=probed,
                route=fleet.access.route,
                jump=await _jump_host(slice_, fleet),
                origins=origins,
                tags=tags,
                account=account,
            ):
                yield row
    finally:
        if reading is not None:
            reading.cancel()


async def _jump_host(slice_: Slice, fleet: Fleet) -> str | None:
    """Return the jump host that logins go through, from the settings or from ~/.ssh/config."""
    if fleet.access.jump or not slice_.workers:
        return fleet.access.jump
    return (await login_to(slice_.workers[0], fleet.access)).jump
