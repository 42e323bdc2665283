"""Whether this machine can log in to each worker, and where it ends when it cannot."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TYPE_CHECKING

from tui.checks.row import CheckRow
from tui.checks.stream import Tell, gather_rows
from tui.pod.slice import Slice

if TYPE_CHECKING:
    from tui.ssh.fleet import Fleet, Reach


async def check_reachability(slice_: Slice, fleet: Fleet) -> AsyncIterator[CheckRow]:
    """A row for each worker, as they answer; a fresh login each, so that what is told holds now."""
    async for row in gather_rows([_of_worker(worker.index, fleet) for worker in slice_.workers]):
        yield row


def _of_worker(index: int, fleet: Fleet) -> Callable[[Tell], Awaitable[None]]:
    async def check(tell: Tell) -> None:
        tell(await reach_row(index, fleet))

    return check


async def reach_row(index: int, fleet: Fleet) -> CheckRow:
    """One worker's row: pass with the times it took, or fail with the stage's own sentence."""
    return row_of_reach(await fleet.reach(index))


def row_of_reach(reach: Reach) -> CheckRow:
    """The row that a try to log in amounts to."""
    if reach.error is None:
        return CheckRow("reachability", reach.worker, None, None, "pass", None, _times(reach))
    error = reach.error
    detail = f"{error.what}: {error.why}" if error.why else error.what
    return CheckRow("reachability", reach.worker, None, None, "fail", None, detail, error.remedy or None)


def _times(reach: Reach) -> str:
    parts = [
        f"{name} after {seconds * 1000:.0f} ms"
        for name, seconds in (("connected", reach.connected), ("logged in", reach.logged_in))
        if seconds is not None
    ]
    return ", ".join(parts) or "logged in"
