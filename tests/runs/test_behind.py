"""A keeper whose record is older than its workers' state: another keeper has restarted the run meanwhile."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from pathlib import Path

import pytest

from tests.runs.ssh_pod import Pod, over, unattended
from tests.runs.test_discover import adopted
from tests.sshd import needs_sshd
from tests.waiting import wait_until
from tui.pod.run import RunState
from tui.runs.keeper.start import ensure_keeper
from tui.runs.record.run_directory import RunDirectory
from tui.runs.record.run_status import status_of

pytestmark = [needs_sshd, pytest.mark.timing]
ONCE_MORE = """
echo "try $TPU_TUI_ATTEMPT"
[ "$TPU_TUI_ATTEMPT" = 0 ] || until [ -e "$HOME/end" ]; do sleep 0.1; done
until [ -e "$HOME/fail" ]; do sleep 0.1; done
exit $((1 - TPU_TUI_ATTEMPT))
"""
"""Attempt 0 fails as soon as `fail` exists; attempt 1 succeeds as soon as `end` exists too."""


def kill_keeper(directory: RunDirectory) -> None:
    pid = directory.keeper_status().pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    unattended(directory)


def touch_on_all(pod: Pod, word: str) -> None:
    for worker in pod.workers:
        (worker.home / word).touch()


def assert_both_attempts_are_mirrored(pod: Pod, directory: RunDirectory) -> None:
    """Wait for the end; check that both attempts are mirrored separately and the second one was not disturbed."""
    status = over(directory)
    assert (status.state, status.attempt, status.exit_codes) == (RunState.SUCCEEDED, 1, (0, 0, 0)), status.cause
    for index in range(3):
        name = directory.log_path(index).name
        assert (directory.attempt_path(0) / name).read_bytes() == b"try 0\n"
        assert directory.log_path(index).read_bytes() == b"try 1\n"


@pytest.mark.parametrize("out", [(), (2,), (0, 1, 2)], ids=["all", "some", "none"])
def test_a_new_keeper_continues_an_attempt_that_another_machine_started_whichever_worker_answers_first(
    pod: Pod, tmp_path: Path, out: tuple[int, ...]
) -> None:
    here = pod.running("sh", "-c", ONCE_MORE, restarts=1)
    there = adopted(pod, tmp_path / "elsewhere")
    wait_until(lambda: all((pod.remote(here, index).parent / f"keeper-{index}").exists() for index in range(3)))
    wait_until(lambda: all(there.log_path(index).exists() for index in range(3)))
    kill_keeper(here)
    touch_on_all(pod, "fail")
    wait_until(lambda: (status_of(there).attempt, status_of(there).state) == (1, RunState.RUNNING))
    kill_keeper(there)
    for index in out:
        pod.workers[index].stop()
    asyncio.run(ensure_keeper(here, pod.access, timeouts=pod.timeouts))
    time.sleep(1.5)
    for index in out:
        pod.workers[index].start()
    touch_on_all(pod, "end")
    assert_both_attempts_are_mirrored(pod, here)


def test_a_keeper_whose_events_were_lost_continues_the_running_attempt(pod: Pod) -> None:
    here = pod.running("sh", "-c", ONCE_MORE, restarts=1)
    touch_on_all(pod, "fail")
    wait_until(lambda: (status_of(here).attempt, status_of(here).state) == (1, RunState.RUNNING))
    kill_keeper(here)
    os.truncate(here.path / "events.jsonl", 0)
    again = RunDirectory.open(here.path)
    asyncio.run(ensure_keeper(again, pod.access, timeouts=pod.timeouts))
    wait_until(lambda: status_of(again).attempt == 1)
    touch_on_all(pod, "end")
    assert_both_attempts_are_mirrored(pod, again)
