"""Several processes that act on one run at the same time, from one machine or from two."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.runs.pipes import tagged
from tests.runs.ssh_pod import Pod, over, unattended
from tests.sshd import needs_sshd
from tests.waiting import wait_until
from tui.pod.job_options import JobOptions
from tui.pod.run import Run, RunState, make_run_id
from tui.pod.worker import Worker
from tui.runs.discovery import FoundRun, import_run
from tui.runs.keeper import attempt_start
from tui.runs.keeper.attempt_start import AttemptStarter
from tui.runs.keeper.leadership import Leadership
from tui.runs.keeper.start import ensure_keeper, is_complete
from tui.runs.launch.gang import Gang
from tui.runs.record.run_directory import RunDirectory
from tui.runs.record.run_status import STOP_REQUESTED, WORKER_REPORT, status_of
from tui.ssh.exec.script_protocol import Answer
from tui.ssh.fleet import Fleet

pytestmark = pytest.mark.timing

needs_pod = needs_sshd
UNTIL_END = 'echo on; until [ -e "$HOME/end" ]; do sleep 0.1; done'


def keeper_of(directory: RunDirectory) -> int:
    pid = directory.keeper_status().pid
    assert pid is not None
    return pid


@needs_pod
def test_a_launch_prevented_by_a_stop_from_another_machine_counts_as_stopped_and_is_not_retried(pod: Pod) -> None:
    spec = pod.spec("sleep", "1000", restarts=3)
    directory = RunDirectory.create(pod.home / "runs", spec.run)
    mark = pod.remote(directory, 1).parent / "stopped-1"
    mark.parent.mkdir(parents=True)
    mark.touch()

    async def launch() -> None:
        async with Fleet(pod.launch_workers, pod.access) as fleet:
            starting = AttemptStarter(
                directory, fleet, spec.keeper_timeouts, Leadership(spec.run, fleet), spec=spec, attempt=0
            )
            ended = await starting.launch()
            assert ended is not None
            assert ended.state is RunState.STOPPED, ended

    asyncio.run(launch())
    assert status_of(directory).stop_requested == "user on another machine"
    assert not any(tagged(tag) for tag in pod.tags(directory))


@needs_pod
def test_a_keeper_that_ends_while_it_calls_a_launch_off_leaves_the_run_as_it_is(
    pod: Pod, monkeypatch: pytest.MonkeyPatch
) -> None:
    (pod.workers[2].home / ".profile").write_text("sleep 1000\n")
    spec = pod.spec("sleep", "1000")
    directory = RunDirectory.create(pod.home / "runs", spec.run)

    async def launch() -> None:
        ending = asyncio.Event()

        class LingeringGang(Gang):
            async def run(self) -> None:
                try:
                    await super().run()
                finally:
                    ending.set()
                    await asyncio.sleep(1000)

        monkeypatch.setattr(attempt_start, "Gang", LingeringGang)
        async with Fleet(pod.launch_workers, pod.access) as fleet:
            starting = AttemptStarter(
                directory, fleet, spec.keeper_timeouts, Leadership(spec.run, fleet), spec=spec, attempt=0
            )
            launching = asyncio.ensure_future(starting.launch())
            await asyncio.to_thread(wait_until, (pod.remote(directory, 2) / "alive").exists)
            directory.append_event(STOP_REQUESTED, by="user", grace=1.0)
            await ending.wait()
            launching.cancel()
            with pytest.raises(asyncio.CancelledError):
                await launching

    asyncio.run(launch())


@needs_pod
def test_an_attempt_that_another_keeper_has_launched_is_followed(pod: Pod, tmp_path: Path) -> None:
    script = '[ "$TPU_TUI_ATTEMPT" = 1 ] || exit 3; exec sleep 1000'
    other = pod.launch("sh", "-c", script, restarts=1)
    wait_until(lambda: (status_of(other).attempt, status_of(other).state) == (1, RunState.RUNNING))
    own = RunDirectory.create(tmp_path / "runs", other.run)

    async def launch() -> None:
        async with Fleet(pod.launch_workers, pod.access) as fleet:
            starting = AttemptStarter(own, fleet, pod.timeouts, Leadership(own.run, fleet), spec=None, attempt=1)
            assert starting.launch_spec.keeper_timeouts == pod.timeouts
            assert await starting.launch() is None

    asyncio.run(launch())
    assert status_of(own).state is RunState.RUNNING
    assert status_of(other).state is RunState.RUNNING


@needs_pod
@pytest.mark.parametrize("attended", [False, True], ids=["unattended", "attended"])
def test_a_stop_after_the_end_does_not_change_how_the_run_ended(pod: Pod, attended: bool) -> None:
    directory = pod.running("sh", "-c", UNTIL_END)
    keeper = keeper_of(directory)
    os.kill(keeper, signal.SIGSTOP if attended else signal.SIGKILL)
    if not attended:
        unattended(directory)
    pod.end_jobs(directory)
    assert [answer.confirmed for answer in pod.stop(directory)] == [True] * 3
    if attended:
        os.kill(keeper, signal.SIGCONT)
        over(directory)
    assert (status_of(directory).state, status_of(directory).exit_codes) == (RunState.SUCCEEDED, (0, 0, 0))
    asyncio.run(ensure_keeper(directory, pod.access, timeouts=pod.timeouts))
    assert over(directory).state is RunState.SUCCEEDED


@needs_pod
def test_a_keeper_whose_directory_is_renamed_while_it_launches_ends_without_an_error(pod: Pod) -> None:
    (pod.workers[2].home / ".profile").write_text("sleep 1\n")
    directory = pod.launch("sleep", "1000")
    wait_until(lambda: any(event.get("phase") == "prepare" for event in directory.events()[0]))
    directory.path.rename(directory.path.with_name("renamed"))
    renamed = RunDirectory.open(directory.path.with_name("renamed"))
    pod.launched.append(renamed)
    unattended(renamed)
    assert "Traceback" not in (renamed.path / "keeper.log").read_text()
    assert not any("fault" in note for note in status_of(renamed).notes)


def test_a_run_known_only_from_its_workers_still_needs_a_keeper(tmp_path: Path) -> None:
    run = Run(make_run_id("found"), "pod", JobOptions(("true",)), (Worker(0),))
    directory = RunDirectory.create(tmp_path, run)
    directory.append_event(WORKER_REPORT, attempt=0, ended=[{"worker": 0, "exit_code": None, "recorded": False}])
    assert status_of(directory).state.is_over
    assert not is_complete(directory)


def test_a_run_that_was_stopped_while_another_machine_launched_it_still_needs_a_keeper_for_its_logs(
    tmp_path: Path,
) -> None:
    directory = RunDirectory.create(tmp_path, Run(make_run_id("found"), "pod", JobOptions(("true",)), (Worker(0),)))
    directory.append_event("stop", worker=0, confirmed=True, exit_code=143, detail="")
    directory.append_event("state", state="stopped", cause=None)
    assert not is_complete(directory)
    directory.append_event("exit", worker=0, exit_code=143, size=7, recorded=True)
    assert is_complete(directory)


def test_a_run_whose_directory_was_renamed_is_not_imported_a_second_time(tmp_path: Path) -> None:
    found = FoundRun(
        Run(make_run_id("found"), "pod", JobOptions(("true",)), (Worker(0),)), {0: Answer("run", "found 0 running")}
    )
    import_run(found, tmp_path).path.rename(tmp_path / "own")
    assert import_run(found, tmp_path).path == tmp_path / "own"
    assert [path.name for path in tmp_path.iterdir()] == ["own"]


def test_commands_that_find_a_run_at_the_same_moment_import_it_once(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as together:
        for _ in range(25):
            run = Run(make_run_id("found"), "pod", JobOptions(("true",)), (Worker(0),))
            found = FoundRun(run, {0: Answer("run", "found 0 running")})
            made = list(together.map(lambda found: import_run(found, tmp_path), [found] * 8))
            assert {directory.path for directory in made} == {tmp_path / run.id}
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


@needs_pod
def test_a_run_deleted_on_its_workers_before_its_end_is_known_here_is_lost_and_not_failed(pod: Pod) -> None:
    directory = pod.running("sh", "-c", UNTIL_END)
    os.kill(keeper_of(directory), signal.SIGKILL)
    unattended(directory)
    pod.end_jobs(directory)
    for index in range(3):
        shutil.rmtree(pod.remote(directory, index).parent)
    asyncio.run(ensure_keeper(directory, pod.access, timeouts=pod.timeouts))
    status = over(directory)
    assert status.state is RunState.LOST
    assert "its directory was removed there" in (status.cause or "")
