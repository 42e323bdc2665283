"""Whether this machine can log in to each worker, step by step, and where it ends when it cannot."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TYPE_CHECKING

from tui.checks.check_row import CheckRow
from tui.checks.merge_rows import Report, gather_rows
from tui.pod.slice import Slice

if TYPE_CHECKING:
    from tui.ssh.exec.port_probe import LoginResult
    from tui.ssh.fleet import Fleet

_STEPS = (("connect", "tcp"), ("greeting", "handshake"), ("host_key", "host_key"), ("login", "reachability"))
"""The stages of a login and the checks they amount to; `reachability` is the last, being let in."""
_COUNTED_AS = {"name": "connect", **{stage: stage for stage, _ in _STEPS}}


async def check_reachability(slice_: Slice, fleet: Fleet) -> AsyncIterator[CheckRow]:
    """The steps of every worker's login, as they answer; a fresh login each, so that what is told holds now."""
    async for row in gather_rows([_of_worker(worker.index, fleet) for worker in slice_.workers]):
        yield row


def _of_worker(index: int, fleet: Fleet) -> Callable[[Report], Awaitable[None]]:
    async def check(tell: Report) -> None:
        for row in await reach_rows(index, fleet):
            tell(row)

    return check


async def reach_rows(index: int, fleet: Fleet) -> list[CheckRow]:
    """One worker's rows; the last passes when it let us in, else it carries the sentence why not."""
    return rows_of_reach(await fleet.try_login(index))


def rows_of_reach(reach: LoginResult) -> list[CheckRow]:
    """The rows that a try to log in amounts to: the steps that were passed, then the one where it ended."""
    rows: list[CheckRow] = []
    ended = _COUNTED_AS.get(reach.stage, "login")
    for stage, check in _STEPS:
        if stage == ended and reach.error is not None:
            error = reach.error
            detail = f"{error.what}: {error.why}" if error.why else error.what
            return [*rows, CheckRow(check, reach.worker, None, None, "fail", None, detail, error.remedy or None)]
        rows.append(CheckRow(check, reach.worker, None, None, "pass", None, _passed(check, reach)))
    return rows


def _passed(check: str, reach: LoginResult) -> str:
    if check == "tcp":
        return "connected" + _after(reach.connected)
    if check == "handshake":
        took = None if reach.logged_in is None or reach.connected is None else reach.logged_in - reach.connected
        return "keys exchanged" + (f", with the login {took * 1000:.0f} ms" if took is not None else "")
    if check == "host_key":
        return "the host key is the known one"
    return "logged in" + _after(reach.logged_in)


def _after(seconds: float | None) -> str:
    return "" if seconds is None else f" after {seconds * 1000:.0f} ms"
