"""Machines taken away during a run, which the API's answers distinguish from a crash and from a lost network."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shlex
import signal
import sys
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from google.cloud import tpu_v2

from tests.pods import pod_home, running_pod
from tests.waiting import until
from tui.localpod.pod import LocalPod
from tui.operator import LaunchRequest, Operator
from tui.pod.creation.slice_request import SliceRequest
from tui.pod.job_options import JobOptions
from tui.pod.run import RunState
from tui.pod.slice import Slice
from tui.runs.keeper.start import ensure_keeper
from tui.runs.keeper_timeouts import KeeperTimeouts
from tui.runs.record.event_log import Event
from tui.runs.record.run_directory import RunDirectory
from tui.runs.record.run_status import RunStatus, status_of
from tui.settings import load

__all__ = ["pod_home"]

pytestmark = pytest.mark.timing

PATIENCE = KeeperTimeouts(drain=0.3, lost_after=600.0, gone_after=600.0, answer=1.0, restart_pause=0.2, ask_after=0.3)
"""No worker is given up for being unreachable for too long: only an answer of the API ends a run."""
JOB = ("sh", "-c", "echo on; exec sleep 1000")
DEADLINE_S = 90.0


class Scene:
    """A local pod, and the operator that launches runs on it."""

    def __init__(self, pod: LocalPod, operator: Operator) -> None:
        self.pod = pod
        self.operator = operator

    async def running(
        self, *argv: str, keepalive: float = 15.0, sync: Path | None = None, **fields: Any
    ) -> RunDirectory:
        job = JobOptions(argv or JOB, runtime="cpu", grace=1.0, **fields)
        request = LaunchRequest(await self.operator.slices.get("local"), job, sync=sync)
        spec = await self.operator.launches.plan(request)
        spec = replace(spec, keeper_timeouts=PATIENCE, access=replace(spec.access, keepalive=keepalive))
        directory = await self.operator.launches.start(spec)
        await until(
            lambda: status_of(directory).state is not RunState.PREPARING, "the run is running", seconds=DEADLINE_S
        )
        await until(lambda: self.followed(directory), "every worker is followed", seconds=DEADLINE_S)
        return directory

    @staticmethod
    def followed(directory: RunDirectory) -> bool:
        paths = [directory.log_path(worker.index) for worker in directory.run.workers]
        return all(path.exists() and path.stat().st_size for path in paths)

    @staticmethod
    async def over(directory: RunDirectory) -> RunStatus:
        await until(lambda: status_of(directory).state.is_over, "the run is over", seconds=DEADLINE_S)
        await until(lambda: not directory.keeper_status().alive, "its keeper has ended", seconds=DEADLINE_S)
        return status_of(directory)

    async def change(self, action: str) -> None:
        async for _ in self.operator.slices.change(await self.operator.slices.get("local"), action):
            pass


@contextlib.asynccontextmanager
async def _scene(home: Path, workers: int) -> AsyncIterator[Scene]:
    async with running_pod(home, workers=workers) as pod:
        operator = Operator(load({"profile": "local"}))
        try:
            yield Scene(pod, operator)
        finally:
            await operator.close()


@pytest_asyncio.fixture
async def scene(pod_home: Path) -> AsyncIterator[Scene]:
    async with _scene(pod_home, 2) as made:
        yield made


@pytest_asyncio.fixture
async def small_scene(pod_home: Path) -> AsyncIterator[Scene]:
    """Yield a scene with a slice of one worker, which can be stopped and started."""
    async with _scene(pod_home, 1) as made:
        yield made


def slice_notes(directory: RunDirectory) -> list[Event]:
    """Return the notes about the state of the slice that the API reported."""
    return [event for event in directory.events()[0] if event.kind == "note" and event.get("slice")]


def waiting_notes(directory: RunDirectory) -> list[str]:
    """Return the notes that say that the keeper waiting_notes for the slice."""
    return [note for note in status_of(directory).notes if "waiting for slice local" in note]


async def test_a_preempted_slice_is_named_and_the_rest_of_the_gang_is_stopped(scene: Scene) -> None:
    directory = await scene.running()
    scene.pod.machines.preempt("local", 1)
    status = await scene.over(directory)
    assert (status.state, status.first_failure) == (RunState.LOST, 1)
    assert (status.cause or "").startswith("slice local was preempted (PREEMPTED: ")
    assert "; worker 1 is gone; its last lines: on" in (status.cause or "")
    assert "tpu-tui slices delete local" in (status.remedy or "")
    assert status.workers[0].exit_code == 143
    assert [event.get("slice") for event in slice_notes(directory)] == ["preempted"]


async def test_a_slice_that_is_deleted_is_not_taken_for_a_crash(scene: Scene) -> None:
    directory = await scene.running()
    await scene.change("delete")
    status = await scene.over(directory)
    assert (status.state, slice_notes(directory)[-1].get("slice")) == (RunState.LOST, "deleted")
    assert "slice local is deleted" in (status.cause or "")
    made = await _recreated(scene, status.remedy or "")
    assert (made.accelerator_type, made.runtime_version, len(made.workers)) == ("local-2", "tpu-ubuntu2204-base", 2)


async def _recreated(scene: Scene, remedy: str) -> Slice:
    """Run the command that a remedy names, and return the slice that it created."""
    assert remedy.startswith("tpu-tui slices create local --zone local-a "), remedy
    words = shlex.split(remedy.removesuffix(" recreates it"))[1:]
    shell = await asyncio.create_subprocess_exec(sys.executable, "-m", "tui.cli", *words)
    assert await shell.wait() == 0
    return await scene.operator.slices.get("local")


async def test_a_slice_that_is_stopped_is_not_taken_for_a_crash(small_scene: Scene) -> None:
    directory = await small_scene.running()
    await small_scene.change("stop")
    status = await small_scene.over(directory)
    assert (status.state, slice_notes(directory)[-1].get("slice")) == (RunState.LOST, "stopped")
    assert "slice local was stopped" in (status.cause or "")
    assert "slices start local" in (status.remedy or "")


async def test_a_worker_that_hangs_in_a_healthy_slice_is_waited_for_and_noted(scene: Scene) -> None:
    directory = await scene.running(keepalive=0.3)
    hung = scene.pod.machines.pids("local")[1]
    os.kill(hung, signal.SIGSTOP)
    await until(lambda: slice_notes(directory), "the API was queried", seconds=DEADLINE_S)
    note = slice_notes(directory)[0]
    assert (note.get("slice"), note.get("gone")) == ("ready", False)
    assert "READY and healthy; so worker 1 crashed or hangs, or the network" in str(note.get("text"))
    node = scene.pod.service._nodes.get("projects/local/locations/local-a/nodes/local").node
    node.health, node.health_description = tpu_v2.Node.Health.UNHEALTHY_MAINTENANCE, "the host is being serviced"
    await until(
        lambda: slice_notes(directory)[-1].get("slice") == "maintenance",
        "maintenance is recorded",
        seconds=DEADLINE_S,
    )
    assert status_of(directory).state is RunState.RUNNING
    os.kill(hung, signal.SIGCONT)
    await until(
        lambda: status_of(directory).workers[1].link == "restored", "the worker is followed again", seconds=DEADLINE_S
    )
    node.health, node.health_description = tpu_v2.Node.Health.HEALTHY, ""
    answers = [answer async for answer in scene.operator.runs.stop(directory, 1.0)]
    assert all(answer.confirmed for answer in answers)


async def test_a_crash_of_the_job_itself_causes_no_query_of_the_api(scene: Scene) -> None:
    directory = await scene.running("sh", "-c", "echo on; sleep 0.2; exit $((3 * (TPU_TUI_WORKER == 1)))")
    status = await scene.over(directory)
    assert (status.state, status.first_failure) == (RunState.FAILED, 1)
    assert status.cause == "worker 1 exited with 3; its last lines: on"
    assert slice_notes(directory) == []


async def test_after_a_job_was_killed_from_outside_the_api_is_queried_once(scene: Scene) -> None:
    directory = await scene.running("sh", "-c", "echo on; [ $TPU_TUI_WORKER = 0 ] || kill -TERM $$; exec sleep 1000")
    status = await scene.over(directory)
    assert (status.state, status.first_failure) == (RunState.FAILED, 1)
    assert (status.cause or "").startswith("worker 1 ended by SIGTERM")
    assert [event.get("slice") for event in slice_notes(directory)] == ["ready"]


async def test_a_run_that_may_be_restarted_waits_for_its_slice_and_goes_on_with_its_new_machines(
    scene: Scene, tmp_path: Path
) -> None:
    code = tmp_path / "code"
    code.mkdir()
    (code / "job.sh").write_text('echo "try $TPU_TUI_ATTEMPT"; [ $TPU_TUI_ATTEMPT = 1 ] || exec sleep 1000\n')
    directory = await scene.running("sh", "job.sh", restarts=1, sync=code)
    before = [worker.host_keys for worker in directory.run.workers]
    scene.pod.machines.preempt("local", 0)
    await until(
        lambda: any("waiting for slice local" in note for note in status_of(directory).notes),
        "the keeper waits",
        seconds=DEADLINE_S,
    )
    waiting = status_of(directory)
    assert (waiting.state, waiting.attempt) == (RunState.PREPARING, 1)
    assert (waiting.cause or "").startswith("restart 1 of 1: slice local was preempted")
    old = await scene.operator.slices.get("local")
    await scene.change("delete")
    again = SliceRequest(
        "local", old.zone, accelerator_type=str(old.accelerator_type), runtime_version=str(old.runtime_version)
    )
    async for _ in scene.operator.slices.create(again):
        pass
    status = await scene.over(directory)
    assert (status.state, status.exit_codes, status.attempt) == (RunState.SUCCEEDED, (0, 0), 1), status.notes
    assert [worker.host_keys for worker in RunDirectory.open(directory.path).run.workers] != before
    name = directory.log_path(0).name
    assert (directory.attempt_path(0) / name).read_bytes() == b"try 0\n"
    assert directory.log_path(0).read_bytes() == b"try 1\n"


async def test_a_keeper_killed_while_it_waits_for_a_slice_is_replaced_by_one_that_waits_too(
    small_scene: Scene,
) -> None:
    job = 'echo "try $TPU_TUI_ATTEMPT"; [ $TPU_TUI_ATTEMPT = 1 ] || exec sleep 1000'
    directory = await small_scene.running("sh", "-c", job, restarts=1)
    await small_scene.change("stop")
    await until(lambda: waiting_notes(directory), "the keeper waits", seconds=DEADLINE_S)
    os.kill(directory.keeper_status().pid or 0, signal.SIGKILL)
    await until(lambda: not directory.keeper_status().alive, "its keeper has been killed", seconds=DEADLINE_S)
    await ensure_keeper(directory, await small_scene.operator.connections.access(), timeouts=PATIENCE)
    await until(lambda: len(waiting_notes(directory)) == 2, "another keeper waits", seconds=DEADLINE_S)
    await small_scene.change("start")
    status = await small_scene.over(directory)
    assert (status.state, status.exit_codes, status.attempt) == (RunState.SUCCEEDED, (0,), 1), status.notes


async def test_a_stop_by_the_user_ends_the_wait_for_a_slice(small_scene: Scene) -> None:
    directory = await small_scene.running(restarts=3)
    await small_scene.change("stop")
    await until(
        lambda: any("waiting for slice local" in note for note in status_of(directory).notes),
        "the keeper waits",
        seconds=DEADLINE_S,
    )
    async for _ in small_scene.operator.runs.stop(directory, 0.5):
        pass
    assert (await small_scene.over(directory)).state is RunState.STOPPED
