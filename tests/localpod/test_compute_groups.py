"""Managed instance groups of the local pod by Google's client: created, resized, recreated, preempted, deleted."""

from __future__ import annotations

import pytest
from google.api_core import exceptions

from tests.localpod.compute import REGION, WHERE, compute_pod

MANAGERS = "InstanceGroupManagers"
CREW = {**WHERE, "instance_group_manager": "crew"}
PATTERN = {"project": "local", "instance_template": "pattern"}


async def test_a_group_creates_its_machines_and_takes_them_with_it() -> None:
    async with compute_pod() as pod:
        await pod.template()
        await pod.group(size=3)
        members = await pod.stable()
        listed = await pod.rows("InstanceGroups", "list_instances", **WHERE, instance_group="crew")
        machine = await pod.call("Instances", "get", **WHERE, instance=members[0].name)

        assert [(one.instance_status, one.current_action) for one in members] == [("RUNNING", "NONE")] * 3
        assert all(len(one.name) == len("crew-0000") and one.name.startswith("crew-") for one in members)
        assert [(one.instance, one.status) for one in listed] == [(one.instance, "RUNNING") for one in members]
        metadata = {item.key: item.value for item in machine.metadata.items}
        assert metadata["created-by"] == "projects/local/zones/local-a/instanceGroupManagers/crew"
        with pytest.raises(exceptions.BadRequest, match=r"instance_template resource .* is already being used by"):
            await pod.call("InstanceTemplates", "delete", **PATTERN)

        await pod.call(MANAGERS, "delete", **CREW)
        await pod.call("InstanceTemplates", "delete", **PATTERN)
        assert (pod.hosts.running(), pod.compute.store.places("disks")) == ([], [])


async def test_a_group_of_tpu_machines_is_created_at_once_with_the_topology_of_its_policy() -> None:
    async with compute_pod() as pod:
        policy = {"name": "mesh", "workload_policy": {"type_": "HIGH_THROUGHPUT", "accelerator_topology": "2x2x4"}}
        await pod.call("ResourcePolicies", "insert", project="local", region=REGION, resource_policy_resource=policy)
        await pod.template(machine_type="tpu7x-standard-4t")
        mesh = {"workload_policy": f"regions/{REGION}/resourcePolicies/mesh"}
        pod.compute.faults.worker_capacity = 3
        await pod.group(size=4, target_size_policy={"mode": "BULK"}, resource_policies=mesh)
        await pod.until_failed()
        waiting = await pod.managed()
        group = await pod.call(MANAGERS, "get", **CREW)
        assert {one.last_attempt.errors.errors[0].code for one in waiting} == {"ZONE_RESOURCE_POOL_EXHAUSTED"}
        assert (group.status.bulk_instance_operation.in_progress, pod.hosts.running()) == (True, [])

        pod.compute.faults.worker_capacity = None
        members = await pod.stable()
        machines = [pod.compute.vm(one.name) for one in members]
        assert [vm.metadata["tpu-env"].count(f"TPU_WORKER_ID: '{i}'") for i, vm in enumerate(machines)] == [1] * 4
        with pytest.raises(exceptions.BadRequest, match="mode is BULK"):
            await pod.call(MANAGERS, "resize", **CREW, size=5)
        with pytest.raises(exceptions.BadRequest, match=r"resource_policy resource .* is already being used by"):
            await pod.call("ResourcePolicies", "delete", project="local", region=REGION, resource_policy="mesh")
