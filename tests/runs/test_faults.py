"""A few faults of each kind; `python -m tests.chaos` makes many."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import shutil
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.chaos.launches import Tally, freeze_before, kill_a_keeper
from tests.chaos.losses import FAULTS as LOSSES
from tests.chaos.mirrors import FAULTS, ProxiedPod, storm, strike
from tests.chaos.proxy import proxies
from tests.runs.disks import NoDiskError
from tests.runs.ssh_pod import BRISK, Pod, over, unattended
from tests.runs.test_discover import caught_up
from tests.sshd import OpensshWorker, needs_sshd
from tests.waiting import until, wait_until
from tui.errors import TpuTuiError
from tui.pod.run import RunState
from tui.runs.follow.catch_up import catch_up
from tui.runs.keeper.attempt_start import AttemptStarter
from tui.runs.keeper.leadership import Leadership
from tui.runs.keeper.start import ensure_keeper, start_keeper
from tui.runs.record import log_mirror
from tui.runs.record.log_mirror import Mirror
from tui.runs.record.run_directory import RunDirectory
from tui.runs.record.run_status import status_of
from tui.ssh.fleet import Fleet

pytestmark = [needs_sshd, pytest.mark.timing]


@pytest.fixture
def proxied(pod: Pod, three_workers: list[OpensshWorker]) -> Iterator[ProxiedPod]:
    with proxies([worker.port for worker in three_workers]) as made:
        yield ProxiedPod(three_workers, pod.home, made)


@pytest.mark.parametrize("aimed", [False, True])
def test_a_keeper_killed_while_it_launches_leaves_all_or_none_or_a_partial_run_that_is_cleaned(
    pod: Pod, aimed: bool
) -> None:
    rng, tally = random.Random(7), Tally()
    for _ in range(3):
        kill_a_keeper(pod, rng, tally, aimed=aimed, span=0.6)
    assert tally.running + tally.none + tally.partial == 3


@pytest.mark.parametrize(("word", "victim"), [("go", 1), ("ok", 2)])
def test_a_worker_frozen_before_it_confirms_a_launch_step_leaves_nothing_on_any_worker(
    pod: Pod, word: str, victim: int
) -> None:
    freeze_before(pod, word, victim)


@pytest.mark.parametrize("kind", FAULTS)
def test_a_fault_loses_no_byte(proxied: ProxiedPod, kind: str) -> None:
    directory = proxied.running(
        "sh", "-c", 'echo a; while [ ! -e "$HOME/end" ]; do echo on; sleep 0.05; done; echo z'
    )
    wait_until(lambda: all(directory.log_path(index).exists() for index in range(3)))
    before = [directory.log_path(index).stat().st_size for index in range(3)]
    strike(proxied, directory, kind, random.Random(3))
    wait_until(lambda: all(directory.log_path(index).stat().st_size > before[index] + 30 for index in range(3)))
    for worker in proxied.workers:
        (worker.home / "end").touch()
    assert over(directory).state is RunState.SUCCEEDED
    assert proxied.mirrors_are_exact(directory)
    assert directory.log_path(0).read_bytes().endswith(b"\nz\n")
    proxied.end_runs()


def test_a_storm_of_faults_loses_no_byte(proxied: ProxiedPod) -> None:
    struck = storm(proxied, random.Random(11), lines=20_000, seconds=6, pause=0.3)
    assert struck
    proxied.end_runs()


@pytest.mark.parametrize("fault", LOSSES)
def test_lost_files_or_messages_leave_state_exit_codes_and_mirrors_correct(
    pod: Pod, tmp_path: Path, fault: str
) -> None:
    pod.timeouts = replace(pod.timeouts, lost_after=60.0, gone_after=60.0)
    try:
        LOSSES[fault](pod, random.Random(5), tmp_path)
    except NoDiskError as error:
        pytest.skip(str(error))


def fill(disk: Path) -> None:
    """Fill a disk to its last block."""
    with (disk / "ballast").open("wb", buffering=0) as ballast, contextlib.suppress(OSError):
        while ballast.write(bytes(4096)):
            pass


class CountingMirror(Mirror):
    tries = 0

    def _record_full(self) -> None:
        self.tries += 1
        super()._record_full()


def test_a_disk_without_a_single_free_block_is_noted_once_and_no_log_takes_the_reserved_space(
    small_disk: Path, pod: Pod, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_mirror, "_RETRY_FULL_INTERVAL_S", 0.01)
    directory = RunDirectory.create(small_disk / "runs", pod.spec("true").run)
    with (directory.path / "events.jsonl").open("ab") as events:
        events.write(b"\n" * 4096)

    async def fill_and_write() -> None:
        mirrors = [CountingMirror(directory, worker) for worker in (0, 1)]
        for mirror in mirrors:
            await mirror.open()
        fill(small_disk)
        writing = [asyncio.ensure_future(mirror.append(bytes(20_000))) for mirror in mirrors]
        await asyncio.to_thread(wait_until, lambda: all(mirror.tries > 3 for mirror in mirrors))
        assert status_of(directory).disk_is_full
        (small_disk / "ballast").unlink()
        await asyncio.gather(*writing)
        for mirror in mirrors:
            mirror.close()

    asyncio.run(asyncio.wait_for(fill_and_write(), 30))
    assert ["full" in note for note in status_of(directory).notes] == [True, False]
    assert not status_of(directory).disk_is_full
    assert directory.log_path(0).read_bytes() == bytes(20_000)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """Mount a disk of 3 MiB and yield its mount point."""
    mount = tmp_path / "small"
    mount.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", str(mount)]
    if shutil.which("mount") is None or subprocess.run(command, capture_output=True).returncode:
        pytest.skip("mounting a small disk does not work here")
    yield mount
    wait_until(lambda: subprocess.run(["umount", str(mount)], capture_output=True).returncode == 0)


def test_a_run_can_be_stopped_while_the_local_disk_is_full(small_disk: Path, pod: Pod) -> None:
    pod.home = small_disk
    directory = pod.running("sleep", "600")
    directory.release_space()
    fill(small_disk)
    assert [answer.confirmed for answer in pod.stop(RunDirectory.open(directory.path))] == [True] * 3
    (small_disk / "ballast").unlink()
    assert over(directory).state is RunState.STOPPED
    unattended(directory)


def test_a_launch_that_cannot_be_recorded_starts_nothing_and_says_why(small_disk: Path, pod: Pod) -> None:
    spec = pod.spec("sleep", "600")
    directory = RunDirectory.create(small_disk / "runs", spec.run)
    pod.launched.append(directory)
    with (directory.path / "events.jsonl").open("ab") as events:
        events.write(b"\n" * (4096 - 700))
    fill(small_disk)
    start_keeper(directory, spec)
    status = over(directory)
    assert status.state is RunState.FAILED
    assert "disk of this machine is full" in (status.cause or "")
    assert not pod.tags(directory)
    unattended(directory)


def test_a_full_local_disk_is_noted_and_following_goes_on_when_there_is_room(small_disk: Path, pod: Pod) -> None:
    pod.home = small_disk
    ballast = small_disk / "ballast"
    ballast.write_bytes(bytes(1_500_000))
    job = "head -c 600000 /dev/urandom; while [ ! -e $HOME/end ]; do sleep 0.1; done; echo z"
    directory = pod.running("sh", "-c", job)
    wait_until(lambda: any("the disk here is full" in note for note in status_of(directory).notes))
    assert status_of(directory).state is RunState.RUNNING
    ballast.unlink()
    wait_until(lambda: sum(directory.log_path(index).stat().st_size for index in range(3)) == 1_800_000)
    wait_until(lambda: any("there is room again here" in note for note in status_of(directory).notes))
    for worker in pod.workers:
        (worker.home / "end").touch()
    assert over(directory).state is RunState.SUCCEEDED
    assert pod.mirrors_are_exact(directory)
    pod.end_runs()
    wait_until(lambda: not directory.keeper_status().alive)


def test_nothing_writes_the_mirror_after_a_cancelled_catch_up_gave_up_the_lock(tmp_path: Path, pod: Pod) -> None:
    directory = RunDirectory.create(tmp_path / "runs", pod.spec("true").run)

    def followers() -> list[str]:
        return [text for task in asyncio.all_tasks() if "Follower" in (text := str(task.get_coro()))]

    async def cancel() -> list[str]:
        async with Fleet(pod.launch_workers, pod.access) as fleet:
            for worker in pod.workers:
                await fleet.connect(worker.index)
                worker.freeze()
            catching_up = asyncio.ensure_future(catch_up(directory, fleet, timeout=60))
            await until(lambda: len(followers()) == len(pod.workers), "every worker is followed")
            catching_up.cancel()
            await asyncio.wait({catching_up})
            for worker in pod.workers:
                worker.thaw()
            return followers()

    assert asyncio.run(cancel()) == []


def test_a_keeper_that_takes_over_on_a_full_disk_waits_for_room(
    small_disk: Path, pod: Pod, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_mirror, "_RETRY_FULL_INTERVAL_S", 0.01)
    directory = RunDirectory.create(small_disk / "runs", pod.spec("true").run)
    directory.append_event("state", state="running", cause=None)
    directory.log_path(0).write_bytes(b"written by a keeper that was killed")
    fill(small_disk)

    async def take_over() -> None:
        async with Fleet(pod.launch_workers, pod.access) as fleet:
            leadership = Leadership(directory.run, fleet)
            starter = AttemptStarter(directory, fleet, BRISK, leadership, spec=None, attempt=0)
            taking_over = asyncio.ensure_future(starter.take_over())
            for _ in range(5):
                await asyncio.sleep(0)
            assert not taking_over.done()
            (small_disk / "ballast").unlink()
            assert await taking_over is None

    asyncio.run(take_over())
    assert [arrival.end for arrival in directory.arrivals()[0]] == [35]


def test_a_run_can_be_stopped_from_a_home_that_is_read_only(small_disk: Path, pod: Pod) -> None:
    pod.home = small_disk
    directory = pod.running("sleep", "600")
    os.kill(directory.keeper_status().pid or 0, signal.SIGKILL)
    unattended(directory)
    directory = RunDirectory.open(directory.path)
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    assert [answer.confirmed for answer in pod.stop(directory)] == [True] * 3
    with pytest.raises(TpuTuiError, match="the keeper cannot be started"):
        asyncio.run(ensure_keeper(directory, pod.access))
    with pytest.raises(TpuTuiError, match="cannot be brought up to date"):
        asyncio.run(caught_up(pod, directory))
