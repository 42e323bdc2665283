"""Keeper and stop over real SSH for jobs that remove their run directory or whose disk is full."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.runs.disks import NoDiskError, mounted
from tests.runs.pipes import content_of, tagged
from tests.runs.ssh_pod import Pod, digest, over, unattended
from tests.runs.test_worker_disk import FILLING, written
from tests.runs.test_worker_removed import kill_supervisors
from tests.sshd import needs_sshd
from tests.waiting import wait_until
from tui.pod.run import RunState
from tui.runs.follow.catch_up import catch_up
from tui.runs.keeper.start import ensure_keeper
from tui.runs.record.run_directory import RunDirectory
from tui.runs.record.run_status import STOP_REQUESTED, status_of
from tui.runs.worker.stop import StopAnswer, parts_of, stop_worker
from tui.ssh.fleet import Fleet

pytestmark = [needs_sshd, pytest.mark.timing]
ON_ONE = '[ "$TPU_TUI_WORKER" = 1 ] || exec sleep 1000; '
HERE = '"$HOME/.tpu-tui/runs/$TPU_TUI_RUN/1"'


def on_one(pod: Pod, script: str, *words: str) -> RunDirectory:
    """Launch a run whose job executes a script on worker 1 and sleeps on the others."""
    return pod.running("sh", "-c", ON_ONE + script, "sh", *words)


def mirrored(directory: RunDirectory, index: int, text: bytes) -> None:
    wait_until(lambda: content_of(directory.log_path(index)) == text)


@pytest.mark.parametrize("taken", ["log", "log log.keep", "../1", "../../../runs", "../../../../.tpu-tui"])
def test_a_failure_is_acted_on_whichever_files_of_its_run_the_job_removed(pod: Pod, taken: str) -> None:
    directory = on_one(
        pod, f"cd {HERE}; echo one; sleep 0.3; rm -rf {taken}; cd /; echo two; sleep 1; echo three; exit 5"
    )
    status = over(directory)
    assert (status.state, status.first_failure, status.exit_codes) == (RunState.FAILED, 1, (143, 5, 143))
    assert "worker 1 exited with 5" in (status.cause or "")
    assert directory.log_path(1).read_bytes() == b"one\ntwo\nthree\n"
    if taken != "../../../../.tpu-tui":
        assert digest(pod.remote(directory, 1) / "log") == digest(directory.log_path(1))
    unattended(directory)


@pytest.mark.parametrize("taken", ["../1", "../../../runs", "../../../../.tpu-tui"])
def test_a_stop_ends_a_job_that_removed_its_directory(pod: Pod, taken: str) -> None:
    directory = on_one(pod, f"cd {HERE}; sleep 0.3; rm -rf {taken}; cd /; echo gone; exec sleep 1000")
    tags = pod.tags(directory)
    mirrored(directory, 1, b"gone\n")
    answers = pod.stop(directory)
    assert [(answer.confirmed, answer.exit_code) for answer in answers] == [(True, 143)] * 3, answers
    assert not tagged(*tags)
    assert over(directory).state is RunState.STOPPED
    unattended(directory)


def orphan(pod: Pod, directory: RunDirectory) -> None:
    """Kill worker 1's supervisors and remove its directory, so that only its job is left."""
    kill_supervisors(directory.run, worker=1)
    shutil.rmtree(pod.workers[1].home / ".tpu-tui")


def stop_one(pod: Pod, directory: RunDirectory) -> StopAnswer:
    async def ask() -> StopAnswer:
        async with Fleet(directory.run.workers, pod.access) as fleet:
            part = parts_of(directory).get(1)
            return await stop_worker(directory.run, fleet, 1, grace=1.0, part=part)

    return asyncio.run(ask())


def kill_keeper(directory: RunDirectory) -> None:
    os.kill(directory.keeper_status().pid or 0, signal.SIGKILL)
    unattended(directory)


def test_a_stop_finds_a_job_without_directory_and_supervisor_by_its_recorded_tag(pod: Pod) -> None:
    directory = on_one(pod, "exec env -i sleep 1000")
    tag = (pod.remote(directory, 1) / "tag").read_text().strip()
    wait_until(lambda: len(tagged(tag)) == 1)
    kill_keeper(directory)
    orphan(pod, directory)
    assert tagged(tag)
    first, second = stop_one(pod, directory), stop_one(pod, directory)
    assert (first.confirmed, second.confirmed) == (True, True)
    assert "its directory was removed" in first.detail
    assert "no process with the run's mark is left" in second.detail
    assert not tagged(tag)


def test_a_stop_of_a_job_that_was_started_is_not_confirmed_if_its_tag_is_unknown(pod: Pod) -> None:
    directory = on_one(pod, "exec env -i sleep 1000")
    tag = (pod.remote(directory, 1) / "tag").read_text().strip()
    kill_keeper(directory)
    orphan(pod, directory)
    events = directory.path / "events.jsonl"
    lines = [line for line in events.read_bytes().splitlines(keepends=True) if b'"tags"' not in line]
    events.write_bytes(b"".join(lines))
    answer = stop_one(pod, RunDirectory.open(directory.path))
    assert not answer.confirmed
    assert "its directory was removed there" in answer.detail
    assert tagged(tag)


def test_a_run_that_never_started_has_nothing_to_stop(pod: Pod) -> None:
    directory = pod.launch("no-such-program-anywhere")
    assert over(directory).state is RunState.FAILED
    assert {answer.detail for answer in pod.stop(directory)} == {"nothing to stop: never started"}


@pytest.fixture(params=["ext4", "tmpfs"])
def small(request: pytest.FixtureRequest, pod: Pod, tmp_path: Path) -> Iterator[Path]:
    """Mount a small disk for the runs of worker 1."""
    with ExitStack() as stack:
        try:
            disk = stack.enter_context(mounted(request.param, tmp_path, 100))
        except NoDiskError as error:
            pytest.skip(str(error))
        (disk / "root").mkdir()
        (pod.workers[1].home / ".tpu-tui").symlink_to(disk / "root")
        yield disk
        pod.end_runs()
        (pod.workers[1].home / ".tpu-tui").unlink()


@pytest.mark.parametrize("writes", [3, 100_000])
def test_a_failure_on_a_full_disk_stops_the_gang(pod: Pod, small: Path, writes: int) -> None:
    words = (sys.executable, "-c", FILLING, str(small), str(writes), "1", "7")
    directory = on_one(pod, 'exec "$@"', *words)
    status = over(directory)
    assert (status.state, status.first_failure, status.exit_codes) == (RunState.FAILED, 1, (143, 7, 143))
    assert directory.log_path(1).read_bytes() == written(writes)
    assert all(answer.confirmed for answer in pod.stop(directory))
    unattended(directory)


def test_a_failure_is_acted_on_while_the_worker_cleans_up_after_its_job(pod: Pod) -> None:
    script = (
        f"cd {HERE}; setsid sh -c 'trap \"\" TERM; while :; do sleep 0.2; done' & echo 100 >{HERE}/cancel; exit 3"
    )
    directory = on_one(pod, script)
    assert over(directory).exit_codes == (143, 3, 143)
    order = [(event.kind, event.worker) for event in directory.events()[0]]
    assert order.index((STOP_REQUESTED, None)) < order.index(("exit", 1))
    unattended(directory)


def cut_short(pod: Pod) -> RunDirectory:
    """Return a run without a keeper whose job on worker 1 cut its log short and goes on."""
    directory = on_one(pod, f"echo 123456789; sleep 1; : >{HERE}/log; echo after; exec sleep 1000")
    mirrored(directory, 1, b"123456789\nafter\n")
    kill_keeper(directory)
    return directory


def test_a_log_that_its_job_cut_short_is_noted(pod: Pod) -> None:
    directory = cut_short(pod)
    asyncio.run(ensure_keeper(directory, pod.access, timeouts=pod.timeouts))
    wait_until(lambda: any("cut it short" in note for note in status_of(directory).notes))
    assert all(answer.confirmed for answer in pod.stop(directory))
    assert over(directory, 90).state is RunState.STOPPED
    assert directory.log_path(1).read_bytes() == b"123456789\nafter\n"


def test_catching_up_with_a_log_cut_short_does_not_wait_and_notes_it_once(pod: Pod) -> None:
    directory = cut_short(pod)

    async def catch_up_twice() -> None:
        async with Fleet(directory.run.workers, pod.access) as fleet:
            await catch_up(directory, fleet, timeout=20)
            await catch_up(directory, fleet, timeout=20)

    asyncio.run(catch_up_twice())
    assert sum("cut it short" in note for note in status_of(directory).notes) == 1
    assert all(answer.confirmed for answer in pod.stop(directory))
