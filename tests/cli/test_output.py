"""The messages of a command on stderr, and durations that mean a moment in the past."""

from __future__ import annotations

import asyncio
import io
import os
import pty
import sys
from datetime import datetime, timezone

import pytest

from tui.commands.parser.argument_types import ago
from tui.commands.terminal import stdio, waiting_notice
from tui.commands.terminal.output import Output
from tui.errors import UsageError, WorkerError

pytestmark = pytest.mark.py310


def test_a_remedy_that_many_errors_share_is_reported_once(capsys: pytest.CaptureFixture[str]) -> None:
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


def test_equal_errors_of_many_workers_are_reported_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
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


async def test_workers_that_have_not_answered_are_named_again_once_they_are_fewer(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waiting_notice, "NOTICE_AFTER_S", 0.01)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    rounds = iter([[0, 1, 2, 5], [0, 1, 2, 5], [1, 5], [1, 5], []])
    was_last = asyncio.Event()

    def missing() -> list[int]:
        left = next(rounds)
        if not left:
            was_last.set()
        return left

    async with waiting_notice.notice_of_missing_workers(missing, Output()):
        await was_last.wait()
    assert capsys.readouterr().err.splitlines() == [
        "No answer yet from workers 0-2,5 …",
        "No answer yet from workers 1,5 …",
    ]


def test_a_duration_ago_is_a_moment_however_long_it_is() -> None:
    hour = ago("1h")
    assert hour is not None
    assert 3600 <= (datetime.now(timezone.utc) - hour).total_seconds() < 3660
    assert ago("999999999999d") == datetime.min.replace(tzinfo=timezone.utc)


@pytest.mark.parametrize("text", ["", "d", "7", "-1d", "1.5h", "7w", "2026-01-31"])
def test_text_that_is_no_duration_is_none(text: str) -> None:
    assert ago(text) is None


def test_only_terminals_that_understand_control_sequences_get_them(monkeypatch: pytest.MonkeyPatch) -> None:
    controller, device = pty.openpty()
    with os.fdopen(device, "w") as terminal, os.fdopen(controller, "rb"):
        monkeypatch.setenv("TERM", "xterm")
        assert stdio.understands_controls(terminal)
        monkeypatch.setenv("TERM", "dumb")
        assert not stdio.understands_controls(terminal)
    with io.StringIO() as file:
        assert not stdio.understands_controls(file)
