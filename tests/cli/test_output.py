"""What a command tells on stderr, and the moments that its words mean."""

from __future__ import annotations

import io
import os
import pty
from datetime import datetime, timezone

import pytest

from tui.commands import streams
from tui.commands.arguments import ago
from tui.commands.output import Output
from tui.errors import WorkerError


def test_what_to_do_about_many_is_told_once(capsys: pytest.CaptureFixture[str]) -> None:
    denied = [WorkerError("permission denied", worker=worker, remedy="add the key") for worker in range(3)]
    Output().problems([*denied, WorkerError("no answer", worker=3, remedy="look at it")])
    assert capsys.readouterr().err.splitlines() == [
        "tpu-tui: worker 0: permission denied",
        "tpu-tui: worker 1: permission denied",
        "tpu-tui: worker 2: permission denied",
        "  → add the key",
        "tpu-tui: worker 3: no answer",
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
    ours, theirs = pty.openpty()
    with os.fdopen(theirs, "w") as terminal, os.fdopen(ours, "rb"):
        monkeypatch.setenv("TERM", "xterm")
        assert streams.obeys(terminal)
        monkeypatch.setenv("TERM", "dumb")
        assert not streams.obeys(terminal)
    with io.StringIO() as file:
        assert not streams.obeys(file)
