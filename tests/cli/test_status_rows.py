"""Single rows of `status`."""

from __future__ import annotations

from tests.run_records import make_run
from tui.commands.status import _unreachable
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
