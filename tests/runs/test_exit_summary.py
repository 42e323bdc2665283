"""The exit codes of a run in one line: the culprit comes first, and a requested stop is no failure."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from tui.console.render.pod_rows import format_exit_codes
from tui.pod.job_options import JobOptions
from tui.pod.run import Run, make_run_id
from tui.pod.worker import Worker
from tui.runs.record.event_log import Event
from tui.runs.record.exit_summary import ended_with_the_others, exit_summary, restart_sentences
from tui.runs.record.keeper_file import KeeperStatus
from tui.runs.record.run_status import Restart, RunStatus, StatusFold

TIME = "2026-11-23T10:00:00Z"


def ended(
    codes: Mapping[int, int], state: str, *, first: int | None = None, by: str | None = None, signals: bool = True
) -> RunStatus:
    """Return the status of a run whose workers ended with these codes."""
    run = Run(make_run_id("x"), "pod", JobOptions(("true",)), tuple(Worker(index) for index in codes))
    names = {143: "TERM", 137: "KILL"}
    events = [Event(TIME, "state", None, {"state": "running"})]
    if first is not None:
        events.append(Event(TIME, "failure", first, {"cause": f"worker {first} exited with {codes[first]}"}))
    if by is not None:
        events.append(Event(TIME, "stop_requested", None, {"by": by}))
    for worker, code in codes.items():
        signal = names.get(code) if signals else None
        events.append(Event(TIME, "exit", worker, {"exit_code": code, "signal": signal}))
    events.append(Event(TIME, "state", None, {"state": state}))
    return StatusFold(run).take(events).status(KeeperStatus(False))


def test_restarts_with_the_same_cause_share_a_sentence() -> None:
    causes = ["worker 1 exited with 3; its last lines: x", "worker 1 exited with 3", "the slice was preempted"]
    restarts = [Restart(attempt, TIME, cause) for attempt, cause in enumerate(causes, 1)]
    assert restart_sentences(restarts) == [
        "restarts 1-2: worker 1 exited with 3",
        "restart 3: the slice was preempted",
    ]
    many = [Restart(attempt, TIME, f"worker {attempt} exited with 1") for attempt in range(1, 10)]
    assert restart_sentences(many)[-2:] == ["restart 7: worker 7 exited with 1", "and 2 more restarts"]


def test_a_failure_is_named_before_the_keeper_has_looked_for_an_earlier_one() -> None:
    live = ended({0: 7}, "running")
    assert (live.cause, live.short_cause) == (None, "worker 0 exited with 7")
    assert ended({0: 75}, "running").short_cause == ""
    assert ended({0: 7}, "running", by="user").short_cause == ""
    assert ended({0: 0}, "running").short_cause == ""


OTHERS_STOPPED = {worker: 3 if worker == 5 else 143 for worker in range(8)}


@pytest.mark.parametrize(
    ("codes", "first", "expected"),
    [
        (OTHERS_STOPPED, 5, "w5: 3 · others stopped (143)"),
        ({0: 143, 1: 137, 2: 143}, 1, "w1: SIGKILL · others stopped (143)"),
        ({0: 1, 1: 143, 2: 137}, 0, "w0: 1 · others stopped (137, 143)"),
        ({0: 1, 1: 143}, 0, "w0: 1 · the other stopped (143)"),
        ({0: 1, 1: 75, 2: 75, 3: 143}, 0, "w0: 1 · 2 lost it (75) · 1 stopped (143)"),
        ({0: 1, 1: 0, 2: 2, 3: 2}, 0, "w0: 1 · w1: 0 · w2-3: 2"),
    ],
)
def test_after_a_failure_the_culprit_comes_first(codes: dict[int, int], first: int, expected: str) -> None:
    status = ended(codes, "failed", first=first, by="policy")
    assert exit_summary(status) == expected
    assert (format_exit_codes(status).text, format_exit_codes(status).tone) == (expected, "bad")


def test_the_culprit_comes_first_among_thousands_of_workers() -> None:
    codes = dict.fromkeys(range(2048), 143) | {1999: 1}
    assert exit_summary(ended(codes, "failed", first=1999, by="policy")) == "w1999: 1 · others stopped (143)"


@pytest.mark.parametrize("code", [143, 137, 0, 1])
def test_exit_codes_after_a_requested_stop_are_not_red(code: int) -> None:
    status = ended(dict.fromkeys(range(3), code), "stopped", by="user")
    assert (format_exit_codes(status).text, format_exit_codes(status).tone) == (f"{code} {code} {code}", "dim")


def test_codes_of_a_run_that_failed_without_a_named_culprit_are_red() -> None:
    status = ended({0: 0, 1: 1}, "failed")
    assert (format_exit_codes(status).text, format_exit_codes(status).tone) == ("0 1", "bad")
    many = ended(dict.fromkeys(range(64), 0), "succeeded")
    assert (format_exit_codes(many).text, format_exit_codes(many).tone) == ("0×64", "dim")


def test_in_a_failed_run_only_workers_that_failed_themselves_are_red() -> None:
    status = ended({0: 1, 1: 143, 2: 75, 3: 2}, "failed", first=0, by="policy")
    assert [ended_with_the_others(status, part) for part in status.workers] == [False, True, True, False]
    alone = ended({0: 1, 1: 143}, "failed", first=0)
    assert [ended_with_the_others(alone, part) for part in alone.workers] == [False, False]


def test_nobody_goes_on_in_a_run_that_ended_before_its_job_was_started() -> None:
    run = Run(make_run_id("x"), "pod", JobOptions(("true",)), (Worker(0), Worker(1)))
    events = [
        Event(TIME, "failure", 1, {"cause": "another run is alive here"}),
        Event(TIME, "state", None, {"state": "failed"}),
    ]
    assert exit_summary(StatusFold(run).take(events).status(KeeperStatus(False))) == "– –"
    assert exit_summary(ended({0: 0, 1: 3}, "failed", first=1)) == "w1: 3 · w0: 0"
