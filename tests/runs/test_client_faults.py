"""Faults of the machine on which the keeper runs: reboots, suspensions, deaths in the middle of a write."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.runs.ssh_pod import Pod, over, unattended
from tests.sshd import needs_sshd
from tests.waiting import wait_until
from tui.pod.job_options import JobOptions
from tui.pod.run import Run, RunState
from tui.pod.worker import Worker
from tui.runs.keeper.start import ensure_keeper
from tui.runs.read.line_reader import LineReader
from tui.runs.record.run_directory import RunDirectory
from tui.runs.record.run_status import status_of

pytestmark = [needs_sshd, pytest.mark.timing]

COUNTING = 'i=0; while [ ! -e "$HOME/end" ]; do echo "line $i"; i=$((i+1)); sleep 0.02; done; echo last'


@pytest.fixture
def counting(pod: Pod) -> Iterator[RunDirectory]:
    """Launch a run whose workers print numbered lines until the file `end` exists."""
    directory = pod.running("sh", "-c", COUNTING)
    wait_until(lambda: all(length(directory, index) > 100 for index in range(3)))
    yield directory
    pod.end_runs()


def length(directory: RunDirectory, worker: int) -> int:
    path = directory.log_path(worker)
    return path.stat().st_size if path.exists() else 0


def kill_keeper(directory: RunDirectory) -> None:
    os.kill(directory.keeper_status().pid or 0, signal.SIGKILL)
    unattended(directory)


def resume_and_end(pod: Pod, directory: RunDirectory) -> None:
    """Let a keeper continue, end the job, and check that every line is mirrored once and in order."""
    before = [length(directory, index) for index in range(3)]
    if not directory.keeper_status().alive:
        assert asyncio.run(ensure_keeper(directory, pod.access, timeouts=pod.timeouts))
    wait_until(lambda: all(length(directory, index) > before[index] + 50 for index in range(3)))
    for worker in pod.workers:
        (worker.home / "end").touch()
    assert over(directory).state is RunState.SUCCEEDED, status_of(directory).cause
    unattended(directory)
    assert pod.mirrors_are_exact(directory)
    lines = [(line.worker, line.text) for line in LineReader(directory).poll(final=True)]
    for index in range(3):
        logged = directory.log_path(index).read_text().splitlines()
        assert [text for worker, text in lines if worker == index] == logged
        assert logged == [*(f"line {number}" for number in range(len(logged) - 1)), "last"]


def test_a_mirror_is_continued_exactly_after_its_keeper_was_killed_before_it_noted_an_arrival(
    pod: Pod, counting: RunDirectory
) -> None:
    kill_keeper(counting)
    log = (pod.remote(counting, 1) / "log").read_bytes()
    size = length(counting, 1)
    with counting.log_path(1).open("ab") as mirror:
        mirror.write(log[size : size + 7])
    with (counting.path / "arrivals").open("ab") as arrivals:
        arrivals.write(b"2 12")
    with (counting.path / "events.jsonl").open("ab") as events:
        events.write(b'{"time": "2026-11-21T10:1')
    resume_and_end(pod, counting)


def test_a_mirror_that_a_power_loss_cut_short_is_continued_from_its_end(pod: Pod, counting: RunDirectory) -> None:
    kill_keeper(counting)
    with counting.log_path(0).open("r+b") as mirror:
        mirror.truncate(length(counting, 0) - 43)
    resume_and_end(pod, counting)


def test_after_a_reboot_another_process_with_the_pid_of_the_old_keeper_is_no_keeper(
    pod: Pod, counting: RunDirectory
) -> None:
    kill_keeper(counting)
    (counting.path / "keeper").write_text(f"{os.getpid()} 1 {socket.gethostname()}\n")
    assert not counting.keeper_status().alive
    assert status_of(counting).attended.since is not None
    resume_and_end(pod, counting)


def test_a_suspended_keeper_continues_and_no_other_takes_its_place(pod: Pod, counting: RunDirectory) -> None:
    keeper = counting.keeper_status().pid or 0
    os.kill(keeper, signal.SIGSTOP)
    try:
        remote = pod.remote(counting, 2) / "log"
        size = length(counting, 2)
        wait_until(lambda: remote.stat().st_size > size + 1000)
        assert counting.keeper_status().alive
        assert not asyncio.run(ensure_keeper(counting, pod.access, timeouts=pod.timeouts))
    finally:
        os.kill(keeper, signal.SIGCONT)
    resume_and_end(pod, counting)


@pytest.mark.parametrize("document", [b"", b'{"spec": {"run": '])
def test_a_keeper_whose_command_was_killed_before_it_sent_its_input_does_nothing(pod: Pod, document: bytes) -> None:
    directory = RunDirectory.create(pod.home / "runs", pod.spec("sleep", "1000").run)
    command = [sys.executable, "-m", "tui.runs.keeper", str(directory.path)]
    with pytest.raises(subprocess.CalledProcessError):
        subprocess.run(command, input=document, check=True)
    assert not directory.keeper_status().alive
    assert not directory.events_size()


def test_a_keeper_that_ends_by_a_defect_of_tpu_tui_adds_a_note_to_the_run(tmp_path: Path) -> None:
    run = Run("night-20260101-000000-abcd", "pod", JobOptions(("true",)), (Worker(0, internal_ip="192.0.2.1"),))
    directory = RunDirectory.create(tmp_path, run)
    document = b'{"patience": {"no_such_patience": 1}}'
    subprocess.run([sys.executable, "-m", "tui.runs.keeper", str(directory.path)], input=document, check=True)
    wait_until(lambda: status_of(directory).notes)
    (note,) = status_of(directory).notes
    assert "a fault of tpu-tui (TypeError: " in note
    assert "no_such_patience" in note
