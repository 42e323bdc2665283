"""A VM that is shut down in order: SIGTERM, and SIGHUP right after it, to every process of its SSH sessions.

systemd does so to a session's scope, in which the server of the connection, the supervisor, its logger and the job
are; what has not ended when its time is up is killed.
"""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path

import pytest

from tests.runs.pipes import PipeWorker, a_run, ended, needs_linux, tagged, until
from tests.runs.ssh_pod import Pod, over
from tests.sshd import MARK, OpensshWorker, needs_sshd
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
"""A job that says a good deal while it saves, each line a write that fails where nobody reads it."""
SAID = b"".join(b"saving part %d\n" % part for part in range(1, 6)) + b"Saved Model Checkpoint\n"


def shut_down(worker: OpensshWorker) -> None:
    """Signal what the scopes of a worker's sessions hold, and take no connection any more."""
    assert worker.process is not None
    worker.process.send_signal(signal.SIGSTOP)
    scope = [*worker.connections(), *_marked(f"{MARK}={worker.mark}".encode())]
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGCONT):
        _send(number, scope)
    worker.stop()


def _marked(mark: bytes) -> list[int]:
    """The processes that have that in their environment."""
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
def test_what_a_job_says_and_does_when_its_vm_is_shut_down_is_on_record(pod: Pod) -> None:
    directory = pod.running("sh", "-c", SAVING, on_failure="leave")
    remote, mirror = pod.remote(directory, 1), directory.log_path(1)
    until(lambda: mirror.exists() and mirror.read_bytes() == b"training\n")
    shut_down(pod.workers[1])
    until(lambda: not tagged((remote / "tag").read_text().strip()))
    assert (remote / "log").read_bytes() == b"training\n" + SAID
    until((remote / "status").exists, 10)
    pod.workers[1].start()
    until(lambda: status_of(directory).workers[1].ended)
    part = status_of(directory).workers[1]
    assert (part.exit_code, part.signal, part.recorded) == (143, None, True)
    assert mirror.read_bytes() == b"training\n" + SAID
    pod.stop(directory)
    assert over(directory).state is RunState.STOPPED


@pytest.mark.bash
def test_a_supervisor_that_is_told_to_end_waits_for_its_job(worker: PipeWorker) -> None:
    """Under both shells, and the job has the defaults all the same."""
    run = a_run("sh", "-c", "echo begun; kill -s HUP $$; echo never")
    held = a_run("sh", "-c", SAVING)
    worker.launch(run).through()
    assert (ended(worker, run)["exit"], ended(worker, run)["signal"]) == ("129", "HUP")
    worker.launch(held).through()
    until(lambda: (worker.directory(held) / "log").read_bytes() == b"training\n")
    mark = f"HOME={worker.home}".encode()
    for number in (signal.SIGTERM, signal.SIGHUP):
        _send(number, _marked(mark))
    status = ended(worker, held)
    assert (status["exit"], status["signal"]) == ("143", "")
    assert (worker.directory(held) / "log").read_bytes() == b"training\n" + SAID
