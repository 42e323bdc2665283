"""Single rows of `status`."""

from __future__ import annotations

from typing import Any

import pytest

from tests.run_records import make_run
from tui.commands.status import _format_progress, _unreachable
from tui.pod.worker import Worker
from tui.runs.record.event_log import Event
from tui.runs.record.keeper_file import KeeperStatus
from tui.runs.record.run_status import RunStatus, StatusFold

TIME = "2026-11-23T10:00:00Z"
LOSS = "slice local was preempted (PREEMPTED)"


def with_lost_worker(detail: str, cause: str | None = None) -> RunStatus:
    run = make_run("r-20260101-000000-abcd", "pod", ("x",), (Worker(0), Worker(1)))
    events = [
        Event(TIME, "state", None, {"state": "running"}),
        Event(TIME, "link", 1, {"status": "lost", "detail": detail}),
    ]
    if cause is not None:
        events.append(Event(TIME, "failure", 1, {"cause": cause}))
    return StatusFold(run).take(events).status(KeeperStatus(False))


def test_a_worker_that_is_gone_is_named_in_a_sentence() -> None:
    assert _unreachable(with_lost_worker(f"is gone: {LOSS}")) == f"worker 1 is gone: {LOSS}"
    assert _unreachable(with_lost_worker("no route to host")) == "worker 1: no route to host"


def test_a_cause_is_not_repeated_for_a_worker_that_is_gone() -> None:
    assert _unreachable(with_lost_worker(f"is gone: {LOSS}", f"{LOSS}; worker 1 is gone")) == "worker 1 is gone"


@pytest.mark.parametrize(
    ("progress", "expected"),
    [
        (None, None),
        ({"share": None, "share_of": None, "epochs": 3, "steps": None, "seconds_left": None}, None),
        (
            {"share": 0.389, "share_of": "epochs", "epochs": 90, "steps": 312, "seconds_left": 7300.4},
            "38 % of 90 epochs, about 2 h left",
        ),
        (
            {"share": 0.389, "share_of": "steps", "epochs": None, "steps": 600, "seconds_left": None},
            "38 % of 600 steps",
        ),
    ],
)
def test_the_share_that_is_done_is_a_row(progress: dict[str, Any] | None, expected: str | None) -> None:
    assert _format_progress(progress) == expected
