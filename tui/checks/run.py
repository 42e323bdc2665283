"""All checks that need a connection, worker by worker, told as the answers come."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from tui.checks.across import clock_rows, rows_across, runtime_rows
from tui.checks.facts import Facts, ask_facts
from tui.checks.firewall_rows import check_firewall
from tui.checks.ports import rows_from, rows_to_coordinator, scope_rows
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
    told: list[Facts] = []
    probed: list[CheckRow] = []

    def of_worker(index: int) -> Callable[[Tell], Awaitable[None]]:
        async def check(tell: Tell) -> None:
            reached = await reach_rows(index, fleet)
            for row in reached:
                tell(row)
            if reached[-1].status == "pass":
                await _tell_facts(index, slice_, fleet, run_root, limits, told, tell)
                async for row in rows_from(index, slice_, fleet, ports):
                    probed.append(row)
                    tell(row)
            elif len(slice_.workers) > 1:
                detail = "nothing can be tried from it: this machine cannot log in"
                tell(CheckRow("ports", index, None, None, "unknown", None, detail))

        return check

    for row in (*runtime_rows(slice_), *scope_rows(slice_)):
        yield row
    async for row in gather_rows([of_worker(worker.index) for worker in slice_.workers]):
        yield row
    for row in rows_across(sorted(told, key=lambda facts: facts.worker), limits):
        yield row
    if firewall is not None:
        for row in await check_firewall(
            slice_, firewall, ports=ports, probed=probed, route=route, tags=tags, account=account
        ):
            yield row


async def before_launch(
    slice_: Slice,
    fleet: Fleet,
    *,
    thresholds: Mapping[str, float] | None = None,
    run_root: str = RUN_ROOT,
) -> AsyncIterator[CheckRow]:
    """What can fail a launch and is quickly seen: login, room, chips and who holds them, the way to worker 0, clocks.

    Connections are kept, and used again by whoever has the fleet.
    """
    limits = Thresholds.read(thresholds or {})
    told: list[Facts] = []

    def of_worker(index: int) -> Callable[[Tell], Awaitable[None]]:
        async def check(tell: Tell) -> None:
            try:
                await fleet.connect(index)
            except TpuTuiError as error:
                detail = f"{error.what}: {error.why}" if error.why else error.what
                tell(CheckRow("reachability", index, None, None, "fail", None, detail, error.remedy or None))
                return
            await _tell_facts(index, slice_, fleet, run_root, limits, told, tell, versions=False)
            async for row in rows_to_coordinator(index, slice_, fleet):
                tell(row)

        return check

    for row in runtime_rows(slice_):
        yield row
    async for row in gather_rows([of_worker(worker.index) for worker in slice_.workers]):
        yield row
    for row in clock_rows(sorted(told, key=lambda facts: facts.worker), limits):
        yield row


async def _tell_facts(
    index: int,
    slice_: Slice,
    fleet: Fleet,
    run_root: str,
    limits: Thresholds,
    told: list[Facts],
    tell: Tell,
    *,
    versions: bool = True,
) -> None:
    try:
        facts = await ask_facts(index, fleet, run_root, versions=versions)
    except TpuTuiError as error:
        detail = f"{error.what}: {error.why}" if error.why else error.what
        tell(CheckRow("worker", index, None, None, "unknown", None, detail, error.remedy or None))
        return
    told.append(facts)
    for row in rows_of_facts(facts, slice_, limits):
        tell(row)
