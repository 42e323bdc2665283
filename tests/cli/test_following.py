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


def test_a_reason_that_many_workers_have_is_told_once(capsys: pytest.CaptureFixture[str]) -> None:
    why = {"detail": "no room", "remedy": "make some"}
    failed = [event("phase", worker, phase="prepare", status="failed", **why) for worker in range(3)]
    other = event("phase", 3, phase="prepare", status="failed", detail="no such command")
    assert told(capsys, *failed, other) == [
        "worker 0: prepare failed: no room",
        "  → make some",
        "worker 1: prepare failed for the same reason",
        "worker 2: prepare failed for the same reason",
        "worker 3: prepare failed: no such command",
    ]


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
