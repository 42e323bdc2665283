"""Tests of loader processes of several ranks: one server forks them all, and its end is reported."""

from __future__ import annotations

import os
import signal

from tests.trainer.conftest import DEADLINE, Pod, children, command_line, skip_without_packages
from tests.waiting import is_running, wait_until

skip_without_packages()

OPTIONS = ["--model", "tiny", "--batch-size", "8", "--log-steps", "1", "--epochs", "100000", "--loader-workers", "1"]


def descendants(pid: int) -> list[int]:
    return [each for child in children(pid) for each in (child, *descendants(child))]


def servers(pid: int) -> list[int]:
    """Return the servers that fork loaders; the loaders below them, which come and go, have the same command line."""
    found: list[int] = []
    for child in children(pid):
        found += [child] if b"trainer.data.pipeline" in command_line(child) else servers(child)
    return found


def test_the_ranks_of_a_worker_share_what_forks_their_loaders(pod: Pod, shapes: str) -> None:
    pod.start([*OPTIONS, "--data", shapes], cores=2)
    pod.await_text(0, "Step=1 ")
    everything = descendants(pod.pid(0))
    [server] = servers(pod.pid(0))
    assert len(children(server)) >= 2
    os.kill(server, signal.SIGKILL)
    [worker] = pod.wait()
    assert worker.exit_code == 2, worker
    # The next loader process may be requested before the death of the last one is detected.
    assert any(f"{what} loader process" in worker.err for what in ("A", "No")), worker.err
    assert "Traceback" not in worker.err
    wait_until(lambda: not any(map(is_running, everything)), seconds=DEADLINE)
