"""Checks that this machine can log in to each worker, step by step."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tui.checks.check_row import CheckRow, error_row, make_row

if TYPE_CHECKING:
    from tui.ssh.exec.port_probe import LoginResult
    from tui.ssh.fleet import Fleet

_STEPS = (("connect", "tcp"), ("greeting", "handshake"), ("host_key", "host_key"), ("login", "reachability"))
"""The stages of a login and their checks; `reachability`, the last, is the complete login."""
_COUNTED_AS = {"name": "connect", **{stage: stage for stage, _ in _STEPS}}


async def reach_rows(index: int, fleet: Fleet) -> list[CheckRow]:
    """Return one worker's rows; the last one passes, or has the reason why the login failed."""
    return rows_of_reach(await fleet.try_login(index))


def rows_of_reach(reach: LoginResult) -> list[CheckRow]:
    """Return the rows of a login: the steps that passed, then the one that failed."""
    rows: list[CheckRow] = []
    ended = _COUNTED_AS.get(reach.stage, "login")
    for stage, check in _STEPS:
        if stage == ended and reach.error is not None:
            return [*rows, error_row(check, "fail", reach.error, worker=reach.worker)]
        rows.append(make_row(check, "pass", _passed(check, reach), worker=reach.worker))
    return rows


def _passed(check: str, reach: LoginResult) -> str:
    if check == "tcp":
        return "connected" + _after(reach.connected)
    if check == "handshake":
        took = None if reach.logged_in is None or reach.connected is None else reach.logged_in - reach.connected
        return "keys exchanged" + (f", {took * 1000:.0f} ms including the login" if took is not None else "")
    if check == "host_key":
        return "the host key is trusted"
    return "logged in" + _after(reach.logged_in)


def _after(seconds: float | None) -> str:
    return "" if seconds is None else f" after {seconds * 1000:.0f} ms"
