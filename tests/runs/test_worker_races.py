"""Two commands for the same run on one worker at the same time: each gets a correct answer."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.runs.pipes import PipeWorker, a_run, content_of, ended, needs_linux
from tests.waiting import wait_until
from tui.runs.worker.queries import RemoteState, parse_state

pytestmark = [needs_linux, pytest.mark.timing]


def _run_before(worker: PipeWorker, program: str, script: str) -> None:
    """Run `script` each time before the worker calls a program."""
    path = Path(worker.path) / program
    real = path.resolve()
    path.unlink()
    path.write_text(f'#!/bin/sh\n{script}\nexec {real} "$@"\n')
    path.chmod(0o755)


def test_a_run_that_is_being_prepared_is_reported_as_undecided_and_not_deleted(worker: PipeWorker) -> None:
    run = a_run("true")
    launch = worker.launch(run, held_back=1)
    wait_until((worker.directory(run) / "run.json").exists)
    assert parse_state(worker.ask("status", run)[0][0]) is RemoteState.UNDECIDED
    assert worker.ask("delete", run)[0][0].word == "alive"
    launch.send(b"}")
    launch.through()


def test_an_attempt_that_another_keeper_launches_is_refused_as_launched_elsewhere(worker: PipeWorker) -> None:
    run = a_run("true")
    worker.launch(run).through()
    ended(worker, run)
    first = worker.launch(run, attempt=1, again=True)
    assert first.answer().word == "armed"
    refused = worker.launch(run, attempt=1, again=True).answer()
    assert (refused.word, refused.text.split(" ")[0]) == ("refused", "elsewhere")
    first.send(b"go!")
    assert first.answer().word == "started"


def test_a_directory_that_another_keeper_made_at_the_same_time_is_left_alone(worker: PipeWorker) -> None:
    run = a_run("true")
    worker.launch(run).through()
    ended(worker, run)
    _run_before(worker, "mkdir", f'case $1 in {worker.directory(run)}) /bin/mkdir "$1"; echo 1 >"$1/attempt" ;; esac')
    refused = worker.launch(run, attempt=1, again=True).answer()
    assert (refused.word, refused.text.split(" ")[0]) == ("refused", "elsewhere")
    assert (worker.directory(run) / "attempt").read_text() == "1\n"


def test_a_job_that_is_stopped_before_it_starts_ends_its_launch_at_once(worker: PipeWorker) -> None:
    run = a_run("sleep", "1000")
    here = worker.directory(run)
    stopped = f'case "$*" in *cancel*) echo 10 >{here}/cancel; : >{here.parent}/stopped-0 ;; esac'
    _run_before(worker, "setsid", stopped)
    launch = worker.launch(run, lease=600)
    assert launch.answer().word == "armed"
    launch.send(b"go!")
    answer = launch.answer()
    assert (answer.word, answer.fields.get("stopped")) == ("aborted", "1")
    assert ended(worker, run)["exit"] == "143"


def test_a_launch_that_a_stop_ends_leaves_no_directory_although_the_stop_writes_into_it(worker: PipeWorker) -> None:
    run = a_run("true")
    here, met = worker.directory(run), worker.root / "met"
    # As rm does if a file was made since it listed the directory.
    _run_before(
        worker, "rm", f"case $2 in {here}) [ -e {met} ] || {{ : >{met}; echo 10 >{here}/cancel; exit 1; }} ;; esac"
    )
    launch = worker.launch(run)
    assert launch.answer().word == "armed"
    (here.parent / "stopped-0").touch()
    launch.send(b"go!")
    assert launch.answer().word == "disarmed"
    assert met.exists()
    assert not here.exists()


def test_a_launch_that_is_being_undone_is_not_decided_yet(worker: PipeWorker) -> None:
    run = a_run("sh", "-c", "trap '' TERM; sleep 1000 & sleep 1000; wait")
    launch = worker.launch(run)
    assert launch.answer().word == "armed"
    launch.send(b"go!")
    assert launch.answer().word == "started"
    assert launch.process.stdin
    launch.process.stdin.close()
    wait_until((worker.directory(run) / "aborted").exists)
    answer = worker.ask("status", run)[0][0]
    was_ended = (worker.directory(run) / "status").stat().st_size if answer.number("exit") is not None else 0
    assert parse_state(answer) is (RemoteState.ABORTED if was_ended else RemoteState.UNDECIDED)
    ended(worker, run)
    assert parse_state(worker.ask("status", run)[0][0]) is RemoteState.ABORTED


def test_after_a_second_stop_the_end_is_still_recorded_as_stopped(worker: PipeWorker) -> None:
    run = a_run("sh", "-c", "trap 'exit 0' TERM; echo on; sleep 1000 & wait")
    worker.launch(run).through()
    wait_until(lambda: content_of(worker.directory(run) / "log") == b"on\n")
    for _ in range(2):
        assert worker.ask("stop", run, 10, 1)[0][0].fields["exit"] == "0"
    end = next(answer for answer in worker.ask("follow", run, 0, 10, 0)[0] if answer.word == "end")
    assert end.fields["stopped"] == "1"


def test_a_stop_between_two_attempts_does_not_say_that_nothing_ever_ran(worker: PipeWorker) -> None:
    run = a_run("true")
    worker.launch(run).through()
    ended(worker, run)
    assert worker.launch(run, attempt=1, again=True).answer().word == "armed"
    assert worker.ask("stop", run, 10, 1)[0][0].fields == {"never": "1", "before": "1"}
