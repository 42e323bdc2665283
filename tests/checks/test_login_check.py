from __future__ import annotations

import pytest

from tui.checks.workers.login_check import login_rows
from tui.errors import WorkerError
from tui.ssh.results import LoginResult


@pytest.mark.parametrize(
    ("stage", "checks"),
    [
        ("name", ["tcp"]),
        ("connect", ["tcp"]),
        ("greeting", ["tcp", "handshake"]),
        ("host_key", ["tcp", "handshake", "host_key"]),
        ("login", ["tcp", "handshake", "host_key", "reachability"]),
        ("a stage not known here", ["tcp", "handshake", "host_key", "reachability"]),
    ],
)
def test_the_rows_of_a_failed_login_end_at_its_stage_with_the_error(stage: str, checks: list[str]) -> None:
    error = WorkerError("cannot log in", worker=3, why="because", remedy="do this")

    rows = login_rows(LoginResult(3, stage, 0.01, None, error))

    assert [row.check for row in rows] == checks
    assert [row.status for row in rows] == ["pass"] * (len(checks) - 1) + ["fail"]
    assert (rows[-1].detail, rows[-1].remedy) == ("cannot log in: because", "do this")


def test_a_login_reports_how_long_its_steps_took() -> None:
    rows = login_rows(LoginResult(0, "ready", 0.010, 0.050))

    assert [row.detail for row in rows] == [
        "connected after 10 ms",
        "keys exchanged, 40 ms including the login",
        "the host key is trusted",
        "logged in after 50 ms",
    ]
