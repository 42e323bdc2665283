"""All checks that need a connection, worker by worker, told as the answers come."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import TYPE_CHECKING

from tui.checks.ports import rows_from, scope_rows
from tui.checks.reachability import reach_row
from tui.checks.row import CheckRow
from tui.checks.stream import Tell, gather_rows
from tui.pod.slice import Slice

if TYPE_CHECKING:
    from tui.ssh.fleet import Fleet


async def run_checks(slice_: Slice, fleet: Fleet, ports: Sequence[int] = ()) -> AsyncIterator[CheckRow]:
    """Reachability of every worker, and from each that lets us in the ports of its peers.

    Stopping the iteration stops what is under way.
    """
    for row in scope_rows(slice_):
        yield row
    async for row in gather_rows([_of_worker(worker.index, slice_, fleet, ports) for worker in slice_.workers]):
        yield row


def _of_worker(index: int, slice_: Slice, fleet: Fleet, ports: Sequence[int]) -> Callable[[Tell], Awaitable[None]]:
    async def check(tell: Tell) -> None:
        reached = await reach_row(index, fleet)
        tell(reached)
        if reached.status == "pass":
            async for row in rows_from(index, slice_, fleet, ports):
                tell(row)
        elif len(slice_.workers) > 1:
            detail = "nothing can be tried from it: this machine cannot log in"
            tell(CheckRow("ports", index, None, None, "unknown", None, detail))

    return check
