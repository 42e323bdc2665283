"""What a command tells on stderr, and the moments that its words mean."""

from __future__ import annotations

import io
import os
import pty
from datetime import datetime, timezone

import pytest

from tui.commands.parser.argument_types import ago
from tui.commands.terminal import stdio
from tui.commands.terminal.output import Output
from tui.errors import UsageError, WorkerError

pytestmark = pytest.mark.py310


def test_what_to_do_about_many_is_reported_once(capsys: pytest.CaptureFixture[str]) -> None:
    denied = [
        WorkerError("permission denied", worker=worker, why=f"to 10.0.0.{worker}", remedy="add the key")
        for worker in range(3)
    ]
    Output().problems([*denied, WorkerError("no answer", worker=3, remedy="look at it")])
    assert capsys.readouterr().err.splitlines() == [
        "tpu-tui: worker 0: permission denied: to 10.0.0.0",
        "tpu-tui: worker 1: permission denied: to 10.0.0.1",
        "tpu-tui: worker 2: permission denied: to 10.0.0.2",
        "  → add the key",
        "tpu-tui: worker 3: no answer",
        "  → look at it",
    ]


def test_what_many_workers_say_alike_is_reported_of_all_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    late = [WorkerError("no answer", worker=worker, why="too late", remedy="look at it") for worker in range(128)]
    other = WorkerError("denied", worker=64, remedy="add a key")
    Output().problems([*late[:64], other, *late[65:], UsageError("no answer", why="too late", remedy="look at it")])
    assert capsys.readouterr().err.splitlines() == [
        "tpu-tui: workers 0-63,65-127: no answer: too late",
        "  → look at it",
        "tpu-tui: worker 64: denied",
        "  → add a key",
        "tpu-tui: no answer: too late",
        "  → look at it",
    ]


def test_so_long_ago_is_a_moment_however_long() -> None:
    hour = ago("1h")
    assert hour is not None
    assert 3600 <= (datetime.now(timezone.utc) - hour).total_seconds() < 3660
    assert ago("999999999999d") == datetime.min.replace(tzinfo=timezone.utc)


@pytest.mark.parametrize("text", ["", "d", "7", "-1d", "1.5h", "7w", "2026-01-31"])
def test_what_is_no_span_is_none(text: str) -> None:
    assert ago(text) is None


def test_a_terminal_that_takes_no_orders_is_sent_none(monkeypatch: pytest.MonkeyPatch) -> None:
    controller, device = pty.openpty()
    with os.fdopen(device, "w") as terminal, os.fdopen(controller, "rb"):
        monkeypatch.setenv("TERM", "xterm")
        assert stdio.understands_controls(terminal)
        monkeypatch.setenv("TERM", "dumb")
        assert not stdio.understands_controls(terminal)
    with io.StringIO() as file:
        assert not stdio.understands_controls(file)
