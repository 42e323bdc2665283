from __future__ import annotations

from pathlib import Path

import pytest

from tui.pod.job_options import JobOptions
from tui.pod.run import Run, RunState, make_run_id
from tui.pod.worker import Worker
from tui.runs.failure_rules import WorkerOutcome, explain, final_state, first_failure, read_last_lines, remedy_of_kill

pytestmark = pytest.mark.py310

FINE = WorkerOutcome(0, time="2026-11-21T10:00:05+00:00")
EARLY = WorkerOutcome(1, time="2026-11-21T10:00:01+00:00")
LATE = WorkerOutcome(134, signal="ABRT", time="2026-11-21T10:00:02+00:00")
GONE = WorkerOutcome(None, recorded=False)


def test_the_first_failure_is_the_earliest_by_the_workers_clocks_not_by_arrival() -> None:
    assert first_failure({3: LATE, 0: FINE, 2: EARLY, 1: GONE}) == 2
    assert first_failure({0: FINE, 1: GONE}) == 1
    assert first_failure({0: FINE}) is None


@pytest.mark.parametrize(
    ("outcomes", "by_user", "state"),
    [
        ({0: FINE, 1: FINE}, False, RunState.SUCCEEDED),
        ({0: FINE, 1: EARLY}, False, RunState.FAILED),
        ({0: FINE, 1: GONE}, False, RunState.LOST),
        ({0: FINE, 1: WorkerOutcome(None, recorded=False, absent=True)}, False, RunState.FAILED),
        ({0: LATE, 1: GONE}, False, RunState.FAILED),
        ({0: LATE, 1: GONE}, True, RunState.STOPPED),
    ],
)
def test_the_final_state_follows_from_the_outcomes_and_a_stop_by_the_user(
    outcomes: dict[int, WorkerOutcome], by_user: bool, state: RunState
) -> None:
    assert final_state(outcomes, stopped_by_person=by_user, first=first_failure(outcomes)) is state


def test_a_failure_is_explained_with_its_last_lines() -> None:
    assert explain(2, EARLY, "boom") == "worker 2 exited with 1; its last lines: boom"
    assert "SIGABRT" in explain(0, LATE, "")
    assert "out of memory" in explain(0, WorkerOutcome(137, signal="KILL", out_of_memory=True), "")


def test_last_lines_are_short_and_cannot_reach_the_terminal_raw(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"old\n" * 9999 + b"one\n\ntwo \x1b[31mred\xff\n" + b"x" * 5000)
    text = read_last_lines(log)
    assert text.startswith("one | two ")
    assert "\x1b" not in text
    assert len(text) < 700
    assert read_last_lines(tmp_path / "none") == ""


def test_the_cause_of_a_kill_is_named_as_far_as_it_is_known() -> None:
    run = Run(make_run_id("x"), "night", JobOptions(("true",)), tuple(Worker(index) for index in range(8)))
    by_kernel, by_unknown = WorkerOutcome(137, signal="KILL", out_of_memory=True), WorkerOutcome(137, signal="KILL")
    assert "the kernel's OOM killer acted on this worker" in explain(5, by_kernel, "")
    assert "memory" not in explain(5, by_unknown, "")
    for outcome in (by_kernel, by_unknown):
        remedy = remedy_of_kill(run, 5, outcome)
        assert remedy is not None
        assert remedy.startswith("tpu-tui exec night --worker 5 -- dmesg | tail ")
    for outcome in (EARLY, LATE, GONE, WorkerOutcome(None, recorded=False, unreachable="is gone")):
        assert remedy_of_kill(run, 5, outcome) is None
