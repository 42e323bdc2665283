"""Checks that this machine can log in to each worker, step by step."""

from __future__ import annotations

from tui.checks.check_row import CheckRow, error_row, make_row
from tui.ssh.results import LoginResult

_CHECKS = ("tcp", "handshake", "host_key", "reachability")
"""The steps of a login, in order; `reachability`, the last, is the complete login."""
_CHECK_OF_STAGE = {"name": "tcp", "connect": "tcp", "greeting": "handshake", "host_key": "host_key"}


def login_rows(result: LoginResult) -> list[CheckRow]:
    """Return a row for each step of a login that passed, then one for the step that failed."""
    rows: list[CheckRow] = []
    for check in _CHECKS:
        if result.error is not None and check == _CHECK_OF_STAGE.get(result.stage, "reachability"):
            return [*rows, error_row(check, "fail", result.error, worker=result.worker)]
        rows.append(make_row(check, "pass", _describe_step(check, result), worker=result.worker))
    return rows


def _describe_step(check: str, result: LoginResult) -> str:
    if check == "tcp":
        return "connected" + _after(result.connected)
    if check == "handshake":
        took = None if result.logged_in is None or result.connected is None else result.logged_in - result.connected
        return "keys exchanged" + (f", {took * 1000:.0f} ms including the login" if took is not None else "")
    if check == "host_key":
        return "the host key is trusted"
    return "logged in" + _after(result.logged_in)


def _after(seconds: float | None) -> str:
    return "" if seconds is None else f" after {seconds * 1000:.0f} ms"
