"""A VM that shuts down: SIGTERM, and SIGHUP right after it, to every process of its SSH sessions.

systemd signals a session's scope, which holds the sshd of the connection, the supervisor, its logger and the job.
Processes that have not ended after a time limit are killed.
"""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path

import pytest

from tests.runs.pipes import PipeWorker, a_run, content_of, ended, needs_linux, tagged
from tests.runs.ssh_pod import Pod, over
from tests.sshd import MARK, OpensshWorker, needs_sshd
from tests.waiting import wait_until
from tui.pod.run import RunState
from tui.runs.record.run_status import status_of

pytestmark = [needs_linux, pytest.mark.timing]
SAVING = """
exec 2>/dev/null  # its shell names each `sleep` that is ended
trap '' HUP
trap 'for part in 1 2 3 4 5; do sleep 0.2; echo "saving part $part"; done; echo Saved Model Checkpoint; exit 143' TERM
echo training
while :; do sleep 0.1; done
"""
"""A job that prints while it saves a checkpoint; each write fails if its output has no reader any more."""
SAVING_OUTPUT = b"".join(b"saving part %d\n" % part for part in range(1, 6)) + b"Saved Model Checkpoint\n"


def shut_down(worker: OpensshWorker) -> None:
    """Signal every process in the scopes of a worker's sessions, and accept no further connection."""
    assert worker.process is not None
    worker.process.send_signal(signal.SIGSTOP)
    scope = [*worker.connections(), *_marked(f"{MARK}={worker.mark}".encode())]
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGCONT):
        _send(number, scope)
    worker.stop()


def _marked(mark: bytes) -> list[int]:
    """Return the processes with this variable in their environment."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if mark in (process / "environ").read_bytes().split(b"\0"):
                found.append(int(process.name))
    return found


def _send(number: signal.Signals, pids: list[int]) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


@needs_sshd
def test_the_output_and_exit_of_a_job_whose_vm_is_shut_down_are_recorded(pod: Pod) -> None:
    directory = pod.running("sh", "-c", SAVING, on_failure="leave")
    remote, mirror = pod.remote(directory, 1), directory.log_path(1)
    wait_until(lambda: content_of(mirror) == b"training\n")
    shut_down(pod.workers[1])
    wait_until(lambda: not tagged((remote / "tag").read_text().strip()))
    assert (remote / "log").read_bytes() == b"training\n" + SAVING_OUTPUT
    wait_until((remote / "status").exists)
    pod.workers[1].start()
    wait_until(lambda: status_of(directory).workers[1].ended)
    part = status_of(directory).workers[1]
    assert (part.exit_code, part.signal, part.recorded) == (143, None, True)
    assert mirror.read_bytes() == b"training\n" + SAVING_OUTPUT
    pod.stop(directory)
    assert over(directory).state is RunState.STOPPED


@pytest.mark.bash
def test_a_supervisor_that_is_terminated_waits_for_its_job(worker: PipeWorker) -> None:
    """The job itself starts with the default signal handlers."""
    run = a_run("sh", "-c", "echo begun; kill -s HUP $$; echo never")
    held = a_run("sh", "-c", SAVING)
    worker.launch(run).through()
    assert (ended(worker, run)["exit"], ended(worker, run)["signal"]) == ("129", "HUP")
    worker.launch(held).through()
    wait_until(lambda: content_of(worker.directory(held) / "log") == b"training\n")
    mark = f"HOME={worker.home}".encode()
    for number in (signal.SIGTERM, signal.SIGHUP):
        _send(number, _marked(mark))
    status = ended(worker, held)
    assert (status["exit"], status["signal"]) == ("143", "")
    assert (worker.directory(held) / "log").read_bytes() == b"training\n" + SAVING_OUTPUT
