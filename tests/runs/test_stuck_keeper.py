"""A keeper that is alive and does nothing: its run counts as unattended, and the error says how to end the keeper."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.runs.ssh_pod import Pod, over
from tests.sshd import needs_sshd
from tests.waiting import wait_until
from tui.operator.run_watcher import KeeperWatch
from tui.pod.job_options import JobOptions
from tui.pod.run import Run, RunState
from tui.pod.worker import Worker
from tui.procs.liveness import start_time
from tui.reports.status import status_document
from tui.runs.keeper.start import ensure_keeper
from tui.runs.record.directory_lock import DirectoryLock
from tui.runs.record.keeper_file import KEEPER_FILE, STALE_AFTER_S, KeeperStatus, StuckKeeperError, parse_signature
from tui.runs.record.run_directory import RunDirectory
from tui.runs.record.run_status import StatusFold, status_of

pytestmark = pytest.mark.timing

RUN = Run("pod-20261123-101500-00aa", "pod", JobOptions(("x",)), (Worker(0), Worker(1)))
HERE = socket.gethostname()


@pytest.fixture
def attended_run(tmp_path: Path) -> Iterator[RunDirectory]:
    """Yield a run whose lock this process holds, as its keeper does."""
    directory = RunDirectory.create(tmp_path, RUN)
    claim = DirectoryLock.take(directory)
    assert claim is not None
    claim.sign()
    yield directory
    claim.close()


def sign(directory: RunDirectory, awake: float | None, changed: float, host: str = HERE) -> None:
    """Write the keeper file with a heartbeat this many seconds ago, by the awake clock and by the file's time."""
    last = "" if awake is None else f" {time.monotonic() - awake:.3f}"
    path = directory.path / KEEPER_FILE
    path.write_text(f"{os.getpid()} {start_time(os.getpid())} {host}{last}\n")
    os.utime(path, (time.time() - changed, time.time() - changed))


def test_a_keeper_signs_with_the_clock_that_stops_while_the_machine_sleeps(attended_run: RunDirectory) -> None:
    signed = parse_signature((attended_run.path / KEEPER_FILE).read_bytes())
    assert signed is not None
    assert (signed.pid, signed.host, signed.lives) == (os.getpid(), HERE, True)
    assert signed.awake_s == pytest.approx(time.monotonic(), abs=30)


@pytest.mark.parametrize(
    ("awake", "changed", "state"),
    [
        (0.0, 0.0, "running"),
        (STALE_AFTER_S - 5, STALE_AFTER_S - 5, "running"),
        (STALE_AFTER_S + 5, STALE_AFTER_S + 5, "stuck"),
        # The machine slept for hours: only the time for which it was awake counts.
        (5.0, 8 * 3600.0, "running"),
        # The wall clock was set back.
        (STALE_AFTER_S + 5, -3600.0, "stuck"),
        # A keeper of an earlier version does not write the awake clock.
        (None, 0.0, "running"),
        (None, STALE_AFTER_S + 5, "stuck"),
    ],
)
def test_a_keeper_that_holds_the_lock_without_a_recent_heartbeat_is_stuck(
    attended_run: RunDirectory, awake: float | None, changed: float, state: str
) -> None:
    sign(attended_run, awake, changed)
    attended = attended_run.keeper_status()
    assert (attended.state, attended.alive, attended.stuck) == (state, state == "running", state == "stuck")


def test_a_lock_that_a_command_holds_for_a_moment_is_no_stuck_keeper(attended_run: RunDirectory) -> None:
    (attended_run.path / KEEPER_FILE).write_text(f"{os.getpid()} 1 {HERE} 5.000\n")  # of a process that has ended
    assert attended_run.keeper_status().state == "running"
    (attended_run.path / KEEPER_FILE).write_text("")
    assert attended_run.keeper_status().state == "running"


def test_a_stuck_keeper_of_another_machine_is_named_with_its_machine(attended_run: RunDirectory) -> None:
    sign(attended_run, None, 100.0, host="tower")
    attended = attended_run.keeper_status()
    assert attended.stuck
    error = StuckKeeperError(attended_run.id, attended)
    assert error.why == f"its keeper (pid {os.getpid()} on tower) has not moved for 100 s"
    assert error.remedy.startswith(f"kill -CONT {os.getpid()}, or kill -9 {os.getpid()} there, on tower; then ")


def test_the_document_names_the_keeper_unreachable_workers_and_the_age_of_the_figures(
    attended_run: RunDirectory,
) -> None:
    assert attended_run.last_arrival() is None
    attended_run.append_event("state", state="running", cause=None)
    attended_run.append_arrival(1, 5, time.time() - 90)
    lost = attended_run.append_event("link", worker=1, status="lost", detail="no route")
    sign(attended_run, 60.0, 60.0)
    document = status_document(status_of(attended_run), None, attended_run.last_arrival())
    assert (document["attended"], document["keeper"]["state"]) == (False, "stuck")
    assert {name: document["keeper"][name] for name in ("pid", "host")} == {"pid": os.getpid(), "host": HERE}
    assert document["unreachable"] == [{"worker": 1, "since": lost.time}]
    assert 90 <= document["figures_age_s"] < 120
    attended_run.append_event("link", worker=1, status="restored", detail="")
    attended_run.append_event("state", state="succeeded", cause=None)
    ended = status_document(status_of(attended_run), None, attended_run.last_arrival())
    assert (ended["unreachable"], ended["figures_age_s"]) == ([], None)


def test_a_run_that_never_had_a_keeper_has_none_in_its_document(tmp_path: Path) -> None:
    directory = RunDirectory.create(tmp_path, RUN)
    document = status_document(status_of(directory), None, directory.last_arrival())
    assert (document["keeper"], document["figures_age_s"], document["attended"]) == (None, None, False)


def test_the_end_of_a_stuck_keeper_is_a_change() -> None:
    moments = iter(range(0, 100, 10))
    watch = KeeperWatch(lambda: float(next(moments)))
    stuck, gone = KeeperStatus(False, 1.0, 7, HERE, stuck=True), KeeperStatus(False, 1.0, 7, HERE)
    changes = [watch.take_change(StatusFold(RUN).status(each)) for each in (stuck, stuck, stuck, gone, gone)]
    assert changes == [stuck, None, None, gone, None]


@needs_sshd
def test_a_frozen_keeper_counts_as_stuck_cannot_be_replaced_and_continues_when_it_is_thawed(pod: Pod) -> None:
    here = pod.running("sh", "-c", 'until [ -e "$HOME/end" ]; do echo on; sleep 0.1; done')
    keeper = here.keeper_status().pid
    assert keeper is not None
    os.kill(keeper, signal.SIGSTOP)
    try:
        wait_until(lambda: Path(f"/proc/{keeper}/stat").read_text().rpartition(") ")[2].startswith("T"))
        path = here.path / KEEPER_FILE
        *words, awake = path.read_text().split()
        path.write_text(" ".join([*words, f"{float(awake) - 40:.3f}"]) + "\n")
        attended = here.keeper_status()
        assert (attended.alive, attended.state, attended.pid) == (False, "stuck", keeper)
        with pytest.raises(StuckKeeperError) as raised:
            asyncio.run(ensure_keeper(here, pod.access, timeouts=pod.timeouts))
        assert f"(pid {keeper} on {HERE}) has not moved for 4" in raised.value.sentence
        assert f"kill -9 {keeper}; then tpu-tui attach {here.id}" in raised.value.remedy
        answers = pod.stop(here)
        assert [answer.confirmed for answer in answers] == [True] * 3
    finally:
        os.kill(keeper, signal.SIGCONT)
    assert over(here).state is RunState.STOPPED
    wait_until(lambda: here.keeper_status().state == "gone")
    assert pod.mirrors_are_exact(here)


@needs_sshd
def test_once_a_stuck_keeper_is_killed_another_one_takes_its_place(pod: Pod) -> None:
    here = pod.running("sh", "-c", 'until [ -e "$HOME/end" ]; do echo on; sleep 0.1; done')
    first = here.keeper_status().pid
    assert first is not None
    os.kill(first, signal.SIGSTOP)
    os.kill(first, signal.SIGKILL)
    wait_until(lambda: not here.keeper_status().alive)
    assert here.keeper_status().state == "gone"
    assert asyncio.run(ensure_keeper(here, pod.access, timeouts=pod.timeouts))
    assert here.keeper_status().pid != first
    for worker in pod.workers:
        (worker.home / "end").touch()
    assert over(here).state is RunState.SUCCEEDED
    assert pod.mirrors_are_exact(here)
