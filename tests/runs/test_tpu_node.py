"""A run on a TPU Node: its workers are the VMs of the group that drives the node."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.pods import pod_home, running_pod
from tests.waiting import until
from tui.cloud.compute.compute_requests import ComputeRequests
from tui.operator import LaunchRequest, Operator
from tui.operator.resources.usage import runs_on
from tui.pod.creation.slice_request import NODE, SliceRequest
from tui.pod.job_options import JobOptions
from tui.runs.record.run_directory import RunDirectory
from tui.runs.record.run_status import status_of
from tui.settings import load

__all__ = ["pod_home"]

pytestmark = pytest.mark.timing

RECORDED: dict[str, Any] = json.loads((Path(__file__).parents[1] / "pod" / "data" / "xla_dist.json").read_text())
CASE = RECORDED["environments"]["TPU Node v3-32 with a group of 4 VMs"]
"""What xla_dist's own code computed."""
TEMPLATE = {
    "name": "users",
    "properties": {
        "machineType": "n1-standard-16",
        "networkInterfaces": [{"network": "global/networks/default"}],
        "metadata": {"items": [{"key": "tpu-node", "value": "my-tpu"}]},
    },
}
GROUP = {"name": "users", "targetSize": 4, "instanceTemplate": "global/instanceTemplates/users"}
JOB = ("sh", "-c", 'env >"$OUT/worker-$TPU_TUI_WORKER"')
OF_XLA_DIST = ("XRT_", "XLA_", "TPU_NUM", "TPU_MESH", "TPU_HOST", "TPU_CHIPS", "TPUVM", "CLOUD_TPU")
"""The beginnings of its variables' names, those of TPU VMs too."""
ENOUGH_S = 90.0


async def create(api: ComputeRequests, path: str, body: dict[str, Any]) -> None:
    operation = await api.post("create", "", path, body)
    async for _ in api.finish(operation, "create", ""):
        pass


async def test_a_tpu_node_is_trained_on_from_the_vms_of_its_group(pod_home: Path, tmp_path: Path) -> None:
    async with running_pod(pod_home, slices=0):
        settings = load({"profile": "local"})
        operator, api = Operator(settings), ComputeRequests(settings)
        try:
            await create(api, "global/instanceTemplates", TEMPLATE)
            await create(api, "zones/local-a/instanceGroupManagers", GROUP)
            request = SliceRequest("my-tpu", "local-a", NODE, "v3-32", runtime_version="pytorch-1.13")
            async for _ in operator.slices.create(request):
                pass
            node = await operator.slices.get("my-tpu")
            assert (node.instance_group, node.workers, len(node.node_endpoints)) == ("users", (), 4)

            job = JobOptions(JOB, runtime="xrt", env={"OUT": str(tmp_path)})
            spec = await operator.launches.plan(LaunchRequest(node, job, preflight=True))
            directory = await operator.launches.start(spec)
            await until(lambda: status_of(directory).state.is_over, "it is over", seconds=ENOUGH_S)
            assert status_of(directory).state.value == "succeeded"
        finally:
            await operator.close()
            await api.close()

    run = RunDirectory.open(directory.path).run
    assert (run.slice, run.tpu_node, run.node_endpoints) == ("users", "my-tpu", node.node_endpoints)
    assert runs_on(node, [run]) == (run.id,)
    recorded = json.dumps(CASE["workers"])
    for here, there in zip(run.workers, CASE["addresses"], strict=True):
        recorded = recorded.replace(f"{there}:", f"{here.internal_ip}:")
    for here, there in zip(run.node_endpoints, CASE["node_endpoints"], strict=True):
        recorded = recorded.replace(there, here)
    for worker, wanted in enumerate(json.loads(recorded)):
        lines = (tmp_path / f"worker-{worker}").read_text().splitlines()
        found = dict(line.partition("=")[::2] for line in lines)
        names = {
            name for name in found if name.startswith(("XRT_", "XLA_", "TPU_NUM", "TPU_MESH", "TPUVM", "CLOUD_TPU"))
        }
        assert {name: found[name] for name in names} == wanted
