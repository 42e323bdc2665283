from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import pytest

from tui.commands.runs import describe_keeper
from tui.pod.job_options import JobOptions
from tui.pod.run import Run, RunState
from tui.pod.worker import Worker
from tui.runs.record.event_log import Event
from tui.runs.record.keeper_file import KeeperStatus
from tui.runs.record.run_directory import EVENTS_FILE, RunDirectory
from tui.runs.record.run_status import RunStatus, StatusFold, status_of

pytestmark = pytest.mark.py310

RUN = Run(id="r-20261121-101500-00aa", slice="pod", job=JobOptions(("true",)), workers=(Worker(0), Worker(1)))


def event(kind: str, worker: int | None = None, **fields: Any) -> Event:
    return Event("2026-11-21T10:15:00+00:00", kind, worker, fields)


def status(*events: Event, alive: bool = True) -> RunStatus:
    return StatusFold(RUN).take(events).status(KeeperStatus(alive, 1.0, 7))


def test_a_run_without_events_is_preparing() -> None:
    seen = status()
    assert seen.state is RunState.PREPARING
    assert seen.exit_codes == (None, None)
    assert [worker.worker for worker in seen.workers] == [0, 1]


def test_exit_codes_are_in_the_order_of_the_workers() -> None:
    seen = status(event("state", state="running"), event("exit", 1, exit_code=3, signal=None, size=9))
    assert seen.exit_codes == (None, 3)
    assert seen.workers[1].ended
    assert not seen.workers[0].ended
    assert seen.started == "2026-11-21T10:15:00+00:00"
    assert seen.ended is None


@pytest.mark.parametrize("final", ["succeeded", "failed", "stopped", "lost"])
def test_a_run_that_is_over_stays_as_it_ended(final: str) -> None:
    seen = status(
        event("state", state="running"),
        event("state", state=final, cause="because"),
        event("state", state="running"),
        event("stop_requested", by="user"),
    )
    assert seen.state == RunState(final)
    assert seen.cause == "because"
    assert seen.ended is not None


def test_a_stop_makes_it_stopping_until_it_is_stopped() -> None:
    stopping = [event("state", state="running"), event("stop_requested", by="user", grace=30)]
    assert status(*stopping).state is RunState.STOPPING
    assert status(*stopping, event("state", state="running")).state is RunState.STOPPING
    assert status(*stopping, event("state", state="stopped")).state is RunState.STOPPED


def test_the_first_failure_is_the_cause_and_later_ones_are_not() -> None:
    seen = status(
        event("failure", 1, exit_code=7, cause="worker 1 exited with 7"),
        event("failure", 0, exit_code=1, cause="worker 0 exited with 1"),
    )
    assert (seen.first_failure, seen.cause) == (1, "worker 1 exited with 7")


def test_phases_and_links_are_recorded_per_worker() -> None:
    seen = status(
        event("phase", 0, phase="prepare", status="failed", detail="command not found: x", remedy="--sync"),
        event("link", 1, status="lost", detail="timed out"),
    )
    assert (seen.workers[0].phase, seen.workers[0].phase_status) == ("prepare", "failed")
    assert (seen.workers[0].detail, seen.workers[0].remedy) == ("command not found: x", "--sync")
    assert (seen.workers[1].link, seen.workers[1].link_detail) == ("lost", "timed out")


def test_an_unconfirmed_stop_does_not_end_a_worker() -> None:
    seen = status(
        event("stop", 0, confirmed=True, exit_code=143, detail=""),
        event("stop", 1, confirmed=False, exit_code=None, detail="not reached"),
    )
    assert seen.exit_codes == (143, None)
    assert [worker.ended for worker in seen.workers] == [True, False]
    assert seen.workers[1].stop_detail == "not reached"


def test_only_a_run_that_is_not_over_can_be_unattended() -> None:
    assert describe_keeper(status(event("state", state="running"), alive=False)).startswith("unattended since 1970-")
    assert describe_keeper(status(event("state", state="running"), alive=True)) == "yes"
    assert describe_keeper(status(event("state", state="failed"), alive=False)) == ""


def test_events_of_a_newer_version_do_no_harm() -> None:
    odd = [
        event("weather", report="sunny"),
        event("state", state="hibernating"),
        event("state", state=["running"]),
        event("stop_requested", grace="soon"),
        event("note", stall="silent", workers=[[1]]),
        event("told", attempt="first", ended=[]),
        event("told", attempt=0, ended=[{}]),
    ]
    assert status(*odd, alive=False).state is RunState.PREPARING
    assert status(*odd, event("state", state="running"), alive=False).state is RunState.RUNNING


def test_a_new_attempt_begins_with_clean_workers() -> None:
    seen = status(
        event("exit", 0, exit_code=1, signal=None, size=3),
        event("state", state="failed", cause="crash"),
        event("state", state="preparing", attempt=1),
    )
    assert (seen.state, seen.attempt, seen.cause, seen.exit_codes) == (RunState.PREPARING, 1, None, (None, None))


class Counted(RunDirectory):
    """A run directory that records the offsets from which its events are read."""

    def __init__(self, path: Path, run: Run) -> None:
        super().__init__(path, run)
        self.offsets: list[int] = []

    def events(self, offset: int = 0) -> tuple[list[Event], int]:
        self.offsets.append(offset)
        return super().events(offset)


def test_a_second_status_reads_only_new_events(tmp_path: Path) -> None:
    directory = Counted.create(tmp_path, RUN)
    assert isinstance(directory, Counted)
    directory.append_event("state", state="running")
    assert status_of(directory).state is RunState.RUNNING
    size = directory.events_size()
    status_of(directory)
    directory.append_event("exit", worker=1, exit_code=3, signal=None, size=9)
    assert status_of(directory).exit_codes == (None, 3)
    assert directory.offsets == [0, size]
    assert status_of(directory) == status_of(RunDirectory.open(directory.path))


def test_a_phase_recorded_just_before_a_new_attempt_does_not_belong_to_it() -> None:
    started = event("phase", 0, phase="start", status="done")
    seen = status(event("state", state="running"), started, event("state", state="preparing", attempt=1))
    assert seen.workers[0].phase is None
    assert status(event("state", state="running"), started).workers[0].phase == "start"


def test_an_incomplete_event_counts_once_it_is_complete(tmp_path: Path) -> None:
    directory = RunDirectory.create(tmp_path, RUN)
    directory.append_event("state", state="running")
    events = directory.path / EVENTS_FILE
    last = b'{"time": "2026-11-21T10:15:00+00:00", "event": "exit", "worker": 0, "exit_code": 7}\n'
    with events.open("ab") as file:
        file.write(last[:30])
    assert status_of(directory).exit_codes == (None, None)
    with events.open("ab") as file:
        file.write(last[30:])
    assert status_of(directory).exit_codes == (7, None)


def test_an_updated_record_and_removed_events_are_noticed(tmp_path: Path) -> None:
    directory = RunDirectory.create(tmp_path, RUN)
    directory.append_event("state", state="running")
    directory.append_event("exit", worker=0, exit_code=7)
    assert status_of(directory).run.code_hash is None
    directory.update_run(replace(RUN, code_hash="00aa"))
    assert status_of(directory).run.code_hash == "00aa"
    assert status_of(directory).exit_codes == (7, None)
    (directory.path / EVENTS_FILE).write_bytes(b"")
    assert status_of(directory).state is RunState.PREPARING
    assert status_of(directory).exit_codes == (None, None)


class TestWorkerReports:
    """What workers report of a run that no keeper of this machine has followed to its end."""

    ENDED: ClassVar[list[dict[str, Any]]] = [
        {"worker": 0, "exit_code": 0, "ended": "2026-11-21T10:20:00Z"},
        {"worker": 1, "exit_code": 3, "ended": "2026-11-21T10:19:00Z"},
    ]

    def seen(self, *ended: dict[str, Any], attempt: int = 0, restarts: int = 0, pid: int | None = None) -> RunStatus:
        events = [event("state", state="running"), event("told", attempt=attempt, ended=ended)]
        attended = KeeperStatus(pid is not None, 1.0, pid)
        return StatusFold(replace(RUN, job=replace(RUN.job, restarts=restarts))).take(events).status(attended)

    def test_a_run_is_over_when_every_worker_has_ended(self) -> None:
        seen = self.seen(*self.ENDED)
        assert (seen.state, seen.exit_codes, seen.cause) == (RunState.FAILED, (0, 3), "worker 1 exited with 3")
        assert (seen.is_worker_report, seen.is_whole, seen.ended) == (True, False, "2026-11-21T10:20:00Z")

    def test_a_worker_that_has_ended_does_not_end_the_others(self) -> None:
        seen = self.seen(self.ENDED[0])
        assert (seen.state, [part.ended for part in seen.workers]) == (RunState.RUNNING, [True, False])

    def test_a_report_counts_for_other_processes_and_not_for_the_keeper_itself(self) -> None:
        assert self.seen(*self.ENDED, pid=1).state is RunState.FAILED
        assert self.seen(*self.ENDED, pid=os.getpid()).state is RunState.RUNNING

    def test_a_later_attempt_is_shown_before_its_logs_are_mirrored(self) -> None:
        seen = self.seen(attempt=2, restarts=2)
        assert (seen.state, seen.attempt, seen.mirrored, seen.cause) == (RunState.RUNNING, 2, 0, "restart 2 of 2")
        assert self.seen(*self.ENDED, attempt=2, restarts=2).state is RunState.FAILED

    def test_a_run_is_not_over_while_it_may_be_restarted(self) -> None:
        seen = self.seen(*self.ENDED, attempt=1, restarts=2)
        assert (seen.state, seen.ended) == (RunState.PREPARING, None)
        assert seen.cause == "worker 1 exited with 3; restart 2 of 2 is to come"

    def test_what_a_keeper_has_followed_takes_precedence_over_a_report(self) -> None:
        report = event("told", attempt=0, ended=self.ENDED)
        assert status(event("state", state="succeeded"), report, alive=False).state is RunState.SUCCEEDED
        next_one = event("state", state="preparing", attempt=1, cause="restart 1 of 1")
        assert status(report, next_one, alive=False).exit_codes == (None, None)


def test_a_state_event_holds_the_boot_id_and_the_uptime(tmp_path: Path) -> None:
    directory = RunDirectory.create(tmp_path, RUN)
    moments = [directory.append_event("state", state="running") for _ in range(2)]
    if "boot" in moments[0].fields:  # only where the machine has a boot id
        assert moments[0].get("boot") == moments[1].get("boot")
        assert moments[0].get("up") <= moments[1].get("up")


@pytest.mark.parametrize(
    ("shown", "boot", "up", "ended"),
    [
        ("2026-11-21T09:15:46+00:00", "b1", 146.0, "2026-11-21T10:15:46.000000+00:00"),  # set back by an hour
        ("2026-11-21T11:15:46+00:00", "b1", 146.0, "2026-11-21T10:15:46.000000+00:00"),  # set forward
        ("2026-11-21T10:15:46+00:00", "b1", 147.0, "2026-11-21T10:15:46+00:00"),
        (
            "2026-11-21T11:15:46+00:00",
            "b2",
            146.0,
            "2026-11-21T11:15:46+00:00",
        ),  # rebooted, or another machine
        ("2026-11-21T11:15:46+00:00", None, "?", "2026-11-21T11:15:46+00:00"),
    ],
)
def test_the_duration_of_a_run_does_not_depend_on_changes_of_the_wall_clock(
    shown: str, boot: str | None, up: object, ended: str
) -> None:
    seen = status(
        event("state", state="running", boot="b1", up=100.0),
        Event(shown, "state", None, {"state": "succeeded", "boot": boot, "up": up}),
    )
    assert (seen.started, seen.ended) == ("2026-11-21T10:15:00+00:00", ended)


class TestRestart:
    """The cause of a restart is shown while the next attempt runs; it is not the cause of that attempt's end."""

    AGAIN: ClassVar[list[Event]] = [
        event("state", state="running"),
        event("failure", 1, cause="worker 1 exited with 3"),
        event("state", state="preparing", attempt=1, cause="restart 1 of 2: worker 1 exited with 3"),
        event("state", state="running"),
    ]

    def test_an_attempt_that_runs_names_the_cause_of_its_restart(self) -> None:
        seen = status(*self.AGAIN)
        assert seen.is_training_again
        assert seen.cause == "restart 1 of 2: worker 1 exited with 3"

    def test_a_run_that_succeeded_in_the_end_names_its_restarts_with_their_causes(self) -> None:
        again = event("state", state="preparing", attempt=2, cause="restart 2 of 2: worker 1 exited with 3")
        seen = status(*self.AGAIN, again, event("state", state="running"), event("state", state="succeeded"))
        assert (seen.state, seen.cause) == (RunState.SUCCEEDED, None)
        causes = [(restart.attempt, restart.cause) for restart in seen.restarts]
        assert causes == [(1, "worker 1 exited with 3"), (2, "worker 1 exited with 3")]
        assert seen.restarts[0].time == "2026-11-21T10:15:00+00:00"

    def test_a_stop_by_a_person_is_not_caused_by_the_failure_before_the_restart(self) -> None:
        seen = status(*self.AGAIN, event("stop_requested", by="user"), event("state", state="stopped"))
        assert (seen.state, seen.cause) == (RunState.STOPPED, None)

    def test_a_failure_after_the_restart_is_the_cause(self) -> None:
        failed = status(*self.AGAIN, event("failure", 0, cause="worker 0 exited with 5"))
        assert not failed.is_training_again
        assert failed.cause == "worker 0 exited with 5"
        stopped = status(
            *self.AGAIN, event("failure", 0, cause="worker 0 exited with 5"), event("state", state="stopped")
        )
        assert stopped.cause == "worker 0 exited with 5"
