"""All checks that need a connection, worker by worker, told as the answers come."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from tui.checks.check_row import CheckRow
from tui.checks.check_thresholds import CheckThresholds
from tui.checks.firewall.firewall_rows import read_rules, rows_of_rules
from tui.checks.merge_rows import Report, gather_rows
from tui.checks.port_checks import DEFAULT_PORTS, rows_from, scope_rows
from tui.checks.workers.check_facts import LOGIN, RUN_ROOT, Facts, FactsQuery, over
from tui.checks.workers.consistency import rows_across, runtime_rows
from tui.checks.workers.login_check import reach_rows
from tui.checks.workers.worker_rows import report_facts
from tui.pod.slice import Slice

if TYPE_CHECKING:
    from tui.cloud.compute.firewall_rules import FirewallRules
    from tui.ssh.fleet import Fleet


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
    limits = CheckThresholds.read(thresholds or {})
    asking = FactsQuery(run_root, versions=LOGIN, code=True)
    told: list[Facts] = []
    probed: list[CheckRow] = []

    def of_worker(index: int) -> Callable[[Report], Awaitable[None]]:
        async def check(tell: Report) -> None:
            reached = await reach_rows(index, fleet)
            for row in reached:
                tell(row)
            if reached[-1].status == "pass":
                await report_facts(index, slice_, over(fleet), asking, limits, told, tell)
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
                jump=await _jump_host(slice_, fleet),
                origins=seen,
                tags=tags,
                account=account,
            ):
                yield row
    finally:
        if reading is not None:
            reading.cancel()


async def _jump_host(slice_: Slice, fleet: Fleet) -> str | None:
    """The jump host that logins go through, from the settings or from ~/.ssh/config."""
    from tui.ssh.config.access import ask_login_to

    if fleet.access.jump or not slice_.workers:
        return fleet.access.jump
    return (await ask_login_to(slice_.workers[0], fleet.access)).jump
