"""Runs on an instance group whose VMs are recreated, preempted, deleted or added meanwhile."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from tests.pods import pod_home, running_pod
from tests.waiting import until
from tui.cloud.compute.compute_requests import ComputeRequests
from tui.localpod.api.compute.groups import Group
from tui.localpod.pod import LocalPod
from tui.operator import LaunchRequest, Operator
from tui.pod.job_options import JobOptions
from tui.pod.run import RunState
from tui.pod.slice import Slice
from tui.runs.keeper_timeouts import KeeperTimeouts
from tui.runs.record.run_directory import RunDirectory
from tui.runs.record.run_status import RunStatus, status_of
from tui.settings import load

__all__ = ["pod_home"]

pytestmark = pytest.mark.timing

PATIENCE = KeeperTimeouts(drain=0.3, lost_after=600.0, gone_after=600.0, answer=1.0, restart_pause=0.2, ask_after=0.3)
JOB = ("sh", "-c", "echo on; exec sleep 1000")
ENOUGH_S = 90.0
MANAGERS = "zones/local-a/instanceGroupManagers"
TEMPLATE = {
    "name": "tpus",
    "properties": {
        "machineType": "ct6e-standard-1t",
        "networkInterfaces": [{"network": "global/networks/default"}],
        "scheduling": {"provisioningModel": "SPOT"},
    },
}


class GroupScene:
    """A local pod with a group of spot VMs, and runs on it."""

    def __init__(self, pod: LocalPod, operator: Operator, api: ComputeRequests) -> None:
        self.pod = pod
        self.operator = operator
        self.api = api

    @property
    def group(self) -> Group:
        return self.pod.compute.groups.get(f"projects/local/{MANAGERS}/tpus")

    async def change(self, path: str, body: dict[str, Any] | None = None, **query: str) -> None:
        operation = await self.api.post("change", "", path, body, **query)
        async for _ in self.api.finish(operation, "change", ""):
            pass

    async def stable(self) -> Slice:
        await until(lambda: self.group.is_stable, "the group is stable", seconds=ENOUGH_S)
        return await self.operator.slices.get("tpus")

    async def running(self, **fields: Any) -> RunDirectory:
        job = JobOptions(JOB, runtime="cpu", grace=1.0, **fields)
        spec = await self.operator.launches.plan(LaunchRequest(await self.stable(), job))
        directory = await self.operator.launches.start(replace(spec, keeper_timeouts=PATIENCE))
        await self.followed(directory)
        return directory

    @staticmethod
    async def followed(directory: RunDirectory) -> None:
        paths = [directory.log_path(worker.index) for worker in directory.run.workers]
        await until(lambda: status_of(directory).state is RunState.RUNNING, "it runs", seconds=ENOUGH_S)
        await until(
            lambda: all(path.exists() and path.stat().st_size for path in paths), "it is followed", seconds=ENOUGH_S
        )

    @staticmethod
    async def over(directory: RunDirectory) -> RunStatus:
        await until(lambda: status_of(directory).state.is_over, "it is over", seconds=ENOUGH_S)
        await until(lambda: not directory.keeper_status().alive, "its keeper has gone", seconds=ENOUGH_S)
        return status_of(directory)


@pytest_asyncio.fixture
async def scene(pod_home: Path) -> AsyncIterator[GroupScene]:
    async with running_pod(pod_home, slices=0) as pod:
        settings = load({"profile": "local"})
        operator, api = Operator(settings), ComputeRequests(settings)
        made = GroupScene(pod, operator, api)
        try:
            await made.change("global/instanceTemplates", TEMPLATE)
            template = "global/instanceTemplates/tpus"
            await made.change(MANAGERS, {"name": "tpus", "targetSize": 2, "instanceTemplate": template})
            yield made
        finally:
            await operator.close()
            await api.close()


async def test_a_run_survives_more_vms_and_starts_again_on_a_vm_that_was_preempted(scene: GroupScene) -> None:
    directory = await scene.running(restarts=1)
    before = directory.run.workers
    preempted = before[1]
    await scene.change(f"{MANAGERS}/tpus/resize", size="3")
    more = await scene.stable()
    (added,) = {worker.hostname for worker in more.workers} - {worker.hostname for worker in before}
    await scene.change(f"{MANAGERS}/tpus/deleteInstances", {"instances": [f"zones/local-a/instances/{added}"]})
    await scene.stable()
    assert status_of(directory).attempt == 0

    scene.pod.machines.preempt(f"vm@{preempted.hostname}@local-a", 0)
    await until(lambda: status_of(directory).attempt == 1, "it starts again", seconds=ENOUGH_S)
    await scene.followed(directory)

    again = RunDirectory.open(directory.path).run.workers
    assert again[0] == before[0]
    assert (again[1].hostname, again[1].index) == (preempted.hostname, 1)
    assert again[1].machine_id != preempted.machine_id
    assert again[1].host_keys != preempted.host_keys
    causes = [event.get("cause") for event in directory.events()[0] if event.get("attempt") == 1]
    assert causes[0] == f"restart 1 of 1: worker 1 ({preempted.hostname}) was preempted"

    await scene.change(
        f"{MANAGERS}/tpus/recreateInstances", {"instances": [f"zones/local-a/instances/{again[0].name}"]}
    )
    status = await scene.over(directory)

    assert (status.state, status.first_failure) == (RunState.LOST, 0)
    assert status.cause == f"worker 0 ({again[0].hostname}) was recreated by tpus"
    assert status.workers[1].exit_code == 143


async def test_a_worker_whose_vm_a_resize_deleted_is_named_and_the_next_launch_has_the_rest(
    scene: GroupScene,
) -> None:
    directory = await scene.running()
    await scene.change(f"{MANAGERS}/tpus/resize", size="1")
    status = await scene.over(directory)

    left = await scene.stable()
    (deleted,) = (one for one in directory.run.workers if one.hostname != left.workers[0].hostname)
    assert status.cause == f"worker {deleted.index} ({deleted.hostname}) was deleted by a resize of tpus"
    assert (status.remedy or "").startswith("tpu-tui groups resize local-a/tpus --size 2")

    following = await scene.running(on_end=("delete-slice",))
    assert [worker.machine_id for worker in following.run.workers] == [left.workers[0].machine_id]
    assert [answer.confirmed async for answer in scene.operator.runs.stop(following, 0.5)] == [True]
    assert (await scene.over(following)).state is RunState.STOPPED
    assert await scene.operator.connections.inventory.find("tpus", "local-a") is None
