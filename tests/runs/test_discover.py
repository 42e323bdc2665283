"""Runs seen from a second home, which stands for a second machine."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
from dataclasses import replace
from pathlib import Path

import pytest

from tests.runs.pipes import content_of, tagged
from tests.runs.ssh_pod import Pod, digest, over, unattended
from tests.sshd import needs_sshd
from tests.waiting import wait_until
from tui.errors import UsageError
from tui.operator import Operator
from tui.pod.run import RunState
from tui.runs import discovery
from tui.runs.deletion import DeleteAnswer, delete_here, delete_on_workers
from tui.runs.discovery import Discovery, discover, import_run
from tui.runs.follow.catch_up import catch_up
from tui.runs.keeper.start import ensure_keeper
from tui.runs.keeper_timeouts import KeeperTimeouts
from tui.runs.read.line_reader import LineReader
from tui.runs.record.run_directory import RunDirectory
from tui.runs.record.run_status import status_of
from tui.runs.worker.queries import RemoteState
from tui.settings import Settings
from tui.ssh.fleet import Fleet

pytestmark = [needs_sshd, pytest.mark.timing]


def seen(pod: Pod) -> Discovery:
    async def ask() -> Discovery:
        async with Fleet([worker.worker for worker in pod.workers], pod.access) as fleet:
            return await discover(fleet, "~/.tpu-tui", slice_name="lab")

    return asyncio.run(ask())


def adopted(pod: Pod, runs_home: Path) -> RunDirectory:
    directory = import_run(seen(pod).runs[0], runs_home)
    pod.launched.append(directory)
    asyncio.run(ensure_keeper(directory, pod.access, timeouts=pod.timeouts))
    return directory


async def caught_up(pod: Pod, directory: RunDirectory) -> None:
    async with Fleet(directory.run.workers, pod.access) as fleet:
        await catch_up(directory, fleet, timeout=20)


def deleted(pod: Pod, directory: RunDirectory) -> list[DeleteAnswer]:
    async def all_answers() -> list[DeleteAnswer]:
        async with Fleet(directory.run.workers, pod.access) as fleet:
            return [answer async for answer in delete_on_workers(directory.run, fleet)]

    return sorted(asyncio.run(all_answers()), key=lambda answer: answer.worker)


def test_a_run_is_found_with_its_record_and_its_state_on_each_worker(
    pod: Pod, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(discovery, "LEAST_TIMEOUT_S", 0.1)
    assert seen(pod) == Discovery(())
    first = pod.running("sleep", "1000")
    listening = pod.workers[2].process
    assert listening is not None
    listening.send_signal(signal.SIGSTOP)
    try:
        found = seen(pod)
    finally:
        listening.send_signal(signal.SIGCONT)
    assert [(item.run.id, item.run.job.argv, item.is_alive) for item in found.runs] == [
        (first.id, ("sleep", "1000"), True)
    ]
    assert found.runs[0].workers == {0: RemoteState.RUNNING, 1: RemoteState.RUNNING}
    assert [(problem.worker, problem.what) for problem in found.problems] == [(2, "it does not list its runs")]
    assert "tpu-tui check lab" in found.problems[0].remedy
    assert "hush" not in str(found.runs[0].run)


def test_another_machine_mirrors_a_live_run_from_its_first_byte(pod: Pod, tmp_path: Path) -> None:
    here = pod.running("sh", "-c", 'echo early; while [ ! -e "$HOME/end" ]; do sleep 0.1; done; printf late')
    there = adopted(pod, tmp_path / "elsewhere")
    wait_until(lambda: status_of(there).state is RunState.RUNNING)
    imported = import_run(seen(pod).runs[0], tmp_path / "imported")
    assert (status_of(imported).state, imported.keeper_status().since) == (RunState.RUNNING, None)
    assert import_run(seen(pod).runs[0], tmp_path / "elsewhere").path == there.path
    for worker in pod.workers:
        (worker.home / "end").touch()
    for directory in (here, there):
        assert over(directory).exit_codes == (0, 0, 0)
        assert [directory.log_path(index).read_bytes() for index in range(3)] == [b"early\nlate"] * 3
    import_run(seen(pod).runs[0], tmp_path / "imported")
    assert (status_of(imported).state, status_of(imported).exit_codes) == (RunState.SUCCEEDED, (0, 0, 0))


def test_a_run_that_is_over_is_mirrored_too(pod: Pod, tmp_path: Path) -> None:
    here = pod.launch("sh", "-c", "head -c 300000 /dev/urandom; exit $TPU_TUI_WORKER")
    assert over(here).state is RunState.FAILED
    unattended(here)
    shutil.rmtree(here.path)
    found = status_of(import_run(seen(pod).runs[0], tmp_path / "elsewhere"))
    assert (found.state, found.exit_codes, found.is_worker_report) == (RunState.FAILED, (0, 1, 2), True)
    assert found.cause in ("worker 1 exited with 1", "worker 2 exited with 2")
    there = adopted(pod, tmp_path / "elsewhere")
    status = over(there)
    assert not status.is_worker_report
    assert (status.state, status.exit_codes) == (RunState.FAILED, (0, 1, 2))
    for index in range(3):
        assert digest(there.log_path(index)) == digest(pod.remote(there, index) / "log")


def test_a_stop_elsewhere_is_known_here(pod: Pod, tmp_path: Path) -> None:
    here = pod.running("sleep", "1000")
    pod.stop(here)
    over(here)
    there = adopted(pod, tmp_path / "elsewhere")
    assert (over(there).state, over(there).exit_codes) == (RunState.STOPPED, (143, 143, 143))


def test_a_stop_elsewhere_is_known_here_even_if_the_job_then_exits_with_0(pod: Pod, tmp_path: Path) -> None:
    here = pod.running("sh", "-c", "trap 'exit 0' TERM; echo on; sleep 1000 & wait")
    there = adopted(pod, tmp_path / "elsewhere")
    wait_until(lambda: status_of(there).state is RunState.RUNNING)
    wait_until(lambda: content_of(there.log_path(2)) == b"on\n")
    assert [answer.confirmed for answer in pod.stop(there)] == [True] * 3
    for directory in (here, there):
        assert (over(directory).state, status_of(directory).exit_codes) == (RunState.STOPPED, (0, 0, 0))


def test_a_lost_run_takes_the_state_that_all_its_workers_report(pod: Pod) -> None:
    here = pod.running("sh", "-c", 'until [ -e "$HOME/end" ]; do sleep 0.1; done; exit 3')
    for worker in pod.workers:
        worker.stop()
    assert over(here).state is RunState.LOST
    unattended(here)

    def listed() -> tuple[RunState, int]:
        """Return the state of the run after its workers were asked, and the size of its events."""
        directory = import_run(seen(pod).runs[0], pod.home / "runs")
        return status_of(directory).state, directory.events_size()

    for worker in pod.workers[:2]:
        worker.start()
    assert listed() == (RunState.LOST, here.events_size())
    pod.workers[2].start()
    settings = Settings(pod.home, identity=pod.workers[0].identity, host_keys="accept-new")
    assert asyncio.run(Operator(settings).runs.refresh(here)) is None  # as `status` does
    state, size = status_of(here).state, here.events_size()
    assert state is RunState.RUNNING
    assert listed() == (state, size)
    pod.end_jobs(here)
    state, size = listed()
    assert state is RunState.FAILED
    assert listed() == (state, size)
    assert asyncio.run(ensure_keeper(here, pod.access, timeouts=pod.timeouts))
    assert over(here).exit_codes == (3, 3, 3)


def test_the_newest_keeper_acts_and_the_older_one_mirrors_the_restart(pod: Pod, tmp_path: Path) -> None:
    pod.timeouts = KeeperTimeouts(drain=0.5, restart_pause=0.2)
    script = (
        'echo "try $TPU_TUI_ATTEMPT"; while [ ! -e "$HOME/end" ]; do sleep 0.1; done; exit $((1-TPU_TUI_ATTEMPT))'
    )
    here = pod.running("sh", "-c", script, restarts=1)
    there = adopted(pod, tmp_path / "elsewhere")
    numbers = [pod.remote(here, index).parent / f"keeper-{index}" for index in range(3)]
    wait_until(lambda: content_of(there.log_path(2)) == b"try 0\n")
    wait_until(lambda: all(path.exists() for path in numbers))
    for worker in pod.workers:
        (worker.home / "end").touch()
    for directory in (here, there):
        status = over(directory)
        assert (status.state, status.attempt, status.exit_codes) == (RunState.SUCCEEDED, 1, (0, 0, 0))
        for index in range(3):
            name = directory.log_path(index).name
            assert (directory.attempt_path(0) / name).read_bytes() == b"try 0\n"
            assert directory.log_path(index).read_bytes() == b"try 1\n"
    acted = [
        [event.get("text") for event in directory.events()[0] if "before restart" in str(event.get("text"))]
        for directory in (here, there)
    ]
    assert [len(notes) for notes in acted] == [0, 1]


@pytest.mark.parametrize("all_fail", [False, True], ids=["one fails", "all fail"])
def test_the_older_keeper_acts_on_a_failure_if_the_newer_one_does_not(
    pod: Pod, tmp_path: Path, all_fail: bool
) -> None:
    pod.timeouts = KeeperTimeouts(drain=0.2, restart_pause=0.2, newer_acts=1.0)
    fails = "true" if all_fail else "[ $TPU_TUI_WORKER = 1 ]"
    wait = 'while [ ! -e "$HOME/end" ]; do sleep 0.1; done'
    script = f'[ "$TPU_TUI_ATTEMPT" = 1 ] && exit 0; {wait}; {fails} && exit 3; exec sleep 1000'
    here = pod.running("sh", "-c", script, restarts=1)
    numbers = [pod.remote(here, index).parent / f"keeper-{index}" for index in range(3)]
    before = [path.read_text() for path in numbers]
    there = adopted(pod, tmp_path / "elsewhere")
    wait_until(lambda: all(path.read_text() != was for path, was in zip(numbers, before, strict=True)))
    os.kill(there.keeper_status().pid or 0, signal.SIGKILL)
    for worker in pod.workers:
        (worker.home / "end").touch()
    status = over(here)
    assert (status.state, status.attempt) == (RunState.SUCCEEDED, 1), status.notes
    assert any("this one" in note for note in status.notes)


def test_a_dead_worker_0_does_not_keep_two_keepers_from_acting_on_a_failure(pod: Pod, tmp_path: Path) -> None:
    pod.timeouts = replace(pod.timeouts, drain=0.2, newer_acts=1.0)
    wait = 'while [ ! -e "$HOME/end" ]; do sleep 0.1; done'
    here = pod.running("sh", "-c", f"{wait}; [ $TPU_TUI_WORKER = 1 ] && exit 3; exec sleep 1000")
    there = adopted(pod, tmp_path / "elsewhere")
    wait_until(lambda: status_of(there).state is RunState.RUNNING)
    tag = (pod.remote(here, 2) / "tag").read_text().strip()
    pod.workers[0].stop()
    for worker in pod.workers[1:]:
        (worker.home / "end").touch()
    wait_until(lambda: not tagged(tag))
    for directory in (here, there):
        status = over(directory)
        assert status.first_failure == 1, status
        assert (status.exit_codes[1], status.exit_codes[2]) == (3, 143)


def test_attempts_made_before_a_run_was_found_are_mirrored_separately_too(pod: Pod, tmp_path: Path) -> None:
    wait = 'while [ ! -e "$HOME/end" ]; do sleep 0.1; done'
    script = f'echo "try $TPU_TUI_ATTEMPT"; [ "$TPU_TUI_ATTEMPT" = 2 ] || exit 4; {wait}'
    here = pod.launch("sh", "-c", script, restarts=2)
    wait_until(lambda: (status_of(here).attempt, status_of(here).state) == (2, RunState.RUNNING))
    imported = import_run(seen(pod).runs[0], tmp_path / "imported")
    assert (status_of(imported).attempt, status_of(imported).state) == (2, RunState.RUNNING)
    there = adopted(pod, tmp_path / "elsewhere")
    wait_until(lambda: (status_of(there).attempt, status_of(there).state) == (2, RunState.RUNNING))
    for worker in pod.workers:
        (worker.home / "end").touch()
    for directory in (here, there):
        assert (over(directory).state, status_of(directory).exit_codes) == (RunState.SUCCEEDED, (0, 0, 0))
        lines = [(line.worker, line.text) for line in LineReader(directory).poll(final=True)]
        assert [[text for worker, text in lines if worker == index] for index in range(3)] == [
            ["try 0", "try 1", "try 2"]
        ] * 3
        for index in range(3):
            name = directory.log_path(index).name
            earlier = [(directory.attempt_path(attempt) / name).read_bytes() for attempt in range(2)]
            assert [*earlier, directory.log_path(index).read_bytes()] == [b"try 0\n", b"try 1\n", b"try 2\n"]
    asyncio.run(caught_up(pod, imported))
    assert (status_of(imported).state, status_of(imported).exit_codes) == (RunState.SUCCEEDED, (0, 0, 0))
    assert imported.log_path(1).read_bytes() == b"try 2\n"
    assert (imported.attempt_path(1) / imported.log_path(1).name).read_bytes() == b"try 1\n"
    codes = [event.get("exit_code") for event in there.events()[0] if event.kind == "exit"]
    assert codes == [4] * 6 + [0] * 3


def test_a_run_that_is_alive_is_never_deleted(pod: Pod) -> None:
    directory = pod.running("sleep", "1000")
    with pytest.raises(UsageError, match="is running"):
        delete_here(directory)
    assert [answer.deleted for answer in deleted(pod, directory)] == [False] * 3
    assert all(tagged(tag) for tag in pod.tags(directory))
    assert status_of(directory).state is RunState.RUNNING


def test_a_run_that_is_over_is_deleted_here_and_on_its_workers_separately(pod: Pod) -> None:
    directory = pod.launch("sh", "-c", "exit 1", restarts=1)
    over(directory)
    unattended(directory)
    assert deleted(pod, directory) == [DeleteAnswer(index, True) for index in range(3)]
    assert [list((worker.home / ".tpu-tui" / "runs").iterdir()) for worker in pod.workers] == [[], [], []]
    assert directory.path.exists()
    delete_here(directory)
    assert list((pod.home / "runs").iterdir()) == []
    assert [answer.deleted for answer in deleted(pod, directory)] == [True] * 3
    pod.launched.clear()
