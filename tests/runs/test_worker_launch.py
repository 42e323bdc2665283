"""Checks of worker.sh before a launch, and the end of jobs that are not confirmed, over pipes."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.runs.pipes import PipeWorker, a_run, ended, needs_linux, tag_of, tagged
from tests.waiting import wait_until
from tui.runs.worker.calls import worker_script

pytestmark = [needs_linux, pytest.mark.timing]


def test_the_script_calls_no_program_that_a_bare_worker_lacks() -> None:
    words = {
        word.strip("$()\";'|") for line in worker_script().splitlines() if "#" not in line for word in line.split()
    }
    assert not words & {
        "grep",
        "sed",
        "awk",
        "find",
        "xargs",
        "ps",
        "pgrep",
        "pkill",
        "tar",
        "gzip",
        "python3",
        "perl",
    }


def test_a_missing_command_is_named_before_anything_starts(worker: PipeWorker) -> None:
    run = a_run("no-such-command")
    answer = worker.launch(run).answer()
    assert (answer.word, answer.text) == ("refused", "command command not found: no-such-command")
    assert not worker.directory(run).exists()


def test_a_script_that_is_not_executable_is_named_before_anything_starts(worker: PipeWorker) -> None:
    (worker.home / "train.sh").write_text("exit 0\n")
    run = a_run("./train.sh")
    answer = worker.launch(run).answer()
    assert (answer.word, answer.text) == ("refused", "command command is not executable: ./train.sh")
    assert not worker.directory(run).exists()


@pytest.mark.bash
def test_a_second_run_is_refused_with_the_first_ones_pid_and_command(worker: PipeWorker) -> None:
    first, second = a_run("sleep", "321"), a_run("true")
    pid = worker.launch(first).through()
    answer = worker.launch(second).answer()
    assert answer.word == "refused"
    assert answer.text == f"busy run {first.id} pid {pid} command sleep 321"
    assert not worker.directory(second).exists()
    worker.ask("stop", first, 10, 0)
    worker.launch(second).through()
    ended(worker, second)


def test_the_process_that_holds_a_device_is_named(worker: PipeWorker, tmp_path: Path) -> None:
    device = tmp_path / "accel0"
    device.touch()
    worker.env["TPU_TUI_DEVICES"] = str(device)
    with device.open() as held, subprocess.Popen(["sleep", "77"], stdin=held) as owner:
        run = a_run("true")
        held.close()
        answer = worker.launch(run).answer()
        assert answer.word == "refused"
        assert f"device {device} pid {owner.pid}" in answer.text
        assert "sleep 77" in answer.text
        owner.kill()
        owner.wait()
    worker.launch(run).through()
    ended(worker, run)
    with device.open() as held, subprocess.Popen(["sleep", "78"], stdin=held) as owner:
        held.close()
        assert worker.ask("stop", run, 10, 0)[0][0].word == "unconfirmed"
        owner.kill()
    assert worker.ask("stop", run, 10, 0)[0][0].word == "stopped"


def test_a_launch_without_go_leaves_no_trace(worker: PipeWorker) -> None:
    run = a_run("touch", str(worker.root / "ran"))
    launch = worker.launch(run)
    assert launch.answer().word == "armed"
    assert launch.process.stdin
    launch.process.stdin.close()
    assert launch.answer().word == "disarmed"
    wait_until(lambda: not worker.directory(run).exists())
    assert not (worker.root / "ran").exists()


@pytest.mark.bash
def test_a_started_job_ends_itself_when_its_launcher_dies_before_the_confirmation(worker: PipeWorker) -> None:
    run = a_run("sleep", "1000")
    launch = worker.launch(run)
    launch.answer()
    launch.send(b"go!")
    assert launch.answer().word == "started"
    tag = tag_of(worker, run)
    assert tagged(tag)
    launch.process.stdin.close()  # type: ignore[union-attr]
    launch.process.stdout.close()  # type: ignore[union-attr]
    assert ended(worker, run)["aborted"] == "1"
    assert not tagged(tag)


def test_a_started_job_ends_itself_when_its_lease_runs_out_in_silence(worker: PipeWorker) -> None:
    run = a_run("sleep", "1000")
    launch = worker.launch(run)
    launch.answer()
    launch.send(b"go!")
    launch.answer()
    assert launch.answer().word == "aborted"
    assert ended(worker, run)["aborted"] == "1"
    assert not tagged(tag_of(worker, run))
