"""What whoever waits for a run is told of it."""

from __future__ import annotations

from typing import Any

import pytest

from tui.commands.following import Teller
from tui.commands.output import Output
from tui.runs.directory import Attendance, Event


def told(capsys: pytest.CaptureFixture[str], *items: Event | Attendance) -> list[str]:
    teller = Teller("night", Output())
    for item in items:
        teller.tell(item)
    return capsys.readouterr().err.splitlines()


def event(kind: str, worker: int | None = None, **fields: Any) -> Event:
    return Event("2026-01-01T00:00:00Z", kind, worker, fields)


def failed(worker: int, detail: str, remedy: str = "") -> Event:
    return event("phase", worker, phase="prepare", status="failed", detail=detail, remedy=remedy)


def test_a_reason_that_many_workers_have_is_told_once_and_its_remedy_too(capsys: pytest.CaptureFixture[str]) -> None:
    stopping = event("state", state="stopping")
    over = event("state", 0, state="failed", cause="worker 0: no room", remedy="make some")
    phases = [failed(worker, "no room", "make some") for worker in (0, 3, 1)]
    assert told(capsys, *phases, failed(2, "no such command"), stopping, over) == [
        "worker 0: prepare failed: no room",
        "  → make some",
        "workers 1,3: prepare failed for the same reason as on worker 0",
        "worker 2: prepare failed: no such command",
        "night stopping",
        "night failed: worker 0: no room",
    ]


def test_reasons_that_differ_and_ask_for_the_same_say_so_once(capsys: pytest.CaptureFixture[str]) -> None:
    one, another = "10.0.0.1 refused", "10.0.0.2 refused"
    phases = failed(0, one, "wait"), failed(1, another, "wait"), failed(2, one, "wait")
    assert told(capsys, *phases, event("state", state="failed")) == [
        "worker 0: prepare failed: 10.0.0.1 refused",
        "  → wait",
        "worker 1: prepare failed: 10.0.0.2 refused",
        "worker 2: prepare failed for the same reason as on worker 0",
        "night failed",
    ]


def test_a_remedy_is_told_again_for_what_goes_wrong_later(capsys: pytest.CaptureFixture[str]) -> None:
    over = event("state", state="failed", cause="no room", remedy="make some")
    lines = told(capsys, failed(0, "no room", "make some"), over, failed(1, "no room at all", "make some"))
    assert lines[-2:] == ["worker 1: prepare failed: no room at all", "  → make some"]


def test_phases_that_go_well_are_not_worth_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert told(capsys, event("phase", 0, phase="connect", status="done")) == []


def test_an_absence_says_since_when_and_what_to_do(capsys: pytest.CaptureFixture[str]) -> None:
    lines = told(capsys, Attendance(False, 0.0), Attendance(False, None), Attendance(True, 5.0, 1))
    assert lines[0].startswith("nobody looks after night: ")
    assert lines[1].startswith("  → tpu-tui attach night ")
    assert lines[-1] == "night is looked after again"
    assert "since 1970-01-01 00:01:00Z" in told(capsys, Attendance(False, 60.0))[0]


def test_when_another_keeper_comes_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    teller = Teller("night", Output())
    for pause in (0.0, 30.0):
        teller.tell(Attendance(False), another_in=pause)
    at_once, later = capsys.readouterr().err.splitlines()
    assert at_once.endswith("the process that did has ended, another one is started")
    assert later.endswith("the process that did has ended, another one is started in 30 s")


def test_what_to_do_about_an_end_is_told_unless_the_cause_says_it(capsys: pytest.CaptureFixture[str]) -> None:
    cause = "worker 2: command not found: x. See that it is there"
    assert told(capsys, event("state", state="failed", cause=cause, remedy="see that it is there")) == [
        f"night failed: {cause}"
    ]
    assert told(capsys, event("state", state="failed", cause="no room", remedy="make room")) == [
        "night failed: no room",
        "  → make room",
    ]
