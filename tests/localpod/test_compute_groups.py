"""Managed instance groups of the local pod by Google's client: created, resized, recreated, preempted, deleted."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from google.api_core import exceptions

from tests.localpod.compute import REGION, WHERE, ComputePod, compute_pod
from tests.localpod.faults import FOREVER

MANAGERS = "InstanceGroupManagers"
REQUESTS = "InstanceGroupManagerResizeRequests"
CREW = {**WHERE, "instance_group_manager": "crew"}
PATTERN = {"project": "local", "instance_template": "pattern"}
TOO_LITTLE = "ZONE_RESOURCE_POOL_EXHAUSTED"


@pytest.fixture
async def pod() -> AsyncIterator[ComputePod]:
    async with compute_pod() as made:
        await made.template(scheduling={"provisioning_model": "SPOT"})
        yield made


def states(members: list[Any]) -> list[tuple[str, str]]:
    return [(one.instance_status, one.current_action) for one in members]


def codes(members: list[Any]) -> list[str]:
    """The codes of the errors of the last attempts."""
    return [error.code for one in members for error in one.last_attempt.errors.errors]


def named(*members: Any) -> dict[str, Any]:
    return {"instances": [one.instance for one in members]}


def key_of(pod: ComputePod, member: Any) -> str:
    """The host key that a member's machine publishes."""
    return pod.compute.instances.guest_attributes(pod.compute.vm(member.name), "hostkeys/")[0]["value"]


async def test_a_group_creates_its_machines_and_takes_them_with_it(pod: ComputePod) -> None:
    await pod.group(size=3)
    members = await pod.stable()
    listed = await pod.rows("InstanceGroups", "list_instances", **WHERE, instance_group="crew")
    machine = await pod.call("Instances", "get", **WHERE, instance=members[0].name)

    assert states(members) == [("RUNNING", "NONE")] * 3
    assert all(len(one.name) == len("crew-0000") and one.name.startswith("crew-") for one in members)
    assert [(one.instance, one.status) for one in listed] == [(one.instance, "RUNNING") for one in members]
    metadata = {item.key: item.value for item in machine.metadata.items}
    assert metadata["created-by"] == "projects/local/zones/local-a/instanceGroupManagers/crew"
    with pytest.raises(exceptions.BadRequest, match=r"instance_template resource .* is already being used by"):
        await pod.call("InstanceTemplates", "delete", **PATTERN)

    await pod.call(MANAGERS, "delete", **CREW)
    await pod.call("InstanceTemplates", "delete", **PATTERN)
    assert (pod.hosts.running(), pod.compute.store.places("disks")) == ([], [])


async def test_a_group_in_bulk_mode_waits_for_room_for_all_of_its_machines(pod: ComputePod) -> None:
    policy = {"name": "mesh", "workload_policy": {"type_": "HIGH_THROUGHPUT", "accelerator_topology": "2x2x4"}}
    await pod.call("ResourcePolicies", "insert", project="local", region=REGION, resource_policy_resource=policy)
    await pod.template("tpus", "tpu7x-standard-4t")
    mesh = {"workload_policy": f"regions/{REGION}/resourcePolicies/mesh"}
    pod.compute.faults.worker_capacity = 3
    await pod.group(size=4, template="tpus", target_size_policy={"mode": "BULK"}, resource_policies=mesh)
    await pod.until_failed()
    waiting, group = await pod.managed(), await pod.call(MANAGERS, "get", **CREW)
    assert (states(waiting), codes(waiting)) == ([("", "CREATING")] * 4, [TOO_LITTLE] * 4)
    assert (group.status.bulk_instance_operation.in_progress, pod.hosts.running()) == (True, [])

    pod.compute.faults.worker_capacity = None
    machines = [pod.compute.vm(one.name) for one in await pod.stable()]
    assert [vm.metadata["tpu-env"].count(f"TPU_WORKER_ID: '{i}'") for i, vm in enumerate(machines)] == [1] * 4
    assert all("HOST_BOUNDS: '1,1,4'" in vm.metadata["tpu-env"] for vm in machines)
    with pytest.raises(exceptions.BadRequest, match="mode is BULK"):
        await pod.call(MANAGERS, "resize", **CREW, size=5)
    with pytest.raises(exceptions.BadRequest, match=r"resource_policy resource .* is already being used by"):
        await pod.call("ResourcePolicies", "delete", project="local", region=REGION, resource_policy="mesh")


async def test_a_group_that_cannot_add_all_of_its_machines_keeps_none(pod: ComputePod) -> None:
    disk = {"boot": True, "auto_delete": True, "initialize_params": {"disk_name": "shared"}}
    await pod.template("same-disk", disks=[disk])
    await pod.group(size=2, template="same-disk", target_size_policy={"mode": "BULK"})
    await pod.until_failed()
    errors = {str(member.error) for member in pod.group_of("crew").members.values()}
    assert errors == {"The resource 'projects/local/zones/local-a/disks/shared' already exists"}
    assert pod.compute.store.places("disks") == []


async def test_a_group_grows_and_shrinks_and_replaces_machines(pod: ComputePod) -> None:
    await pod.group(size=2)
    first, second = await pod.stable()
    old = key_of(pod, first)
    await pod.call(MANAGERS, "resize", **CREW, size=3)
    third = (await pod.stable())[2]

    recreated = {"instance_group_managers_recreate_instances_request_resource": named(first)}
    pod.hosts.broken = "no room"
    await pod.call(MANAGERS, "recreate_instances", **CREW, **recreated)
    assert [one.current_action for one in await pod.managed()] == ["RECREATING", "NONE", "NONE"]
    pod.hosts.broken = None
    assert [one.name for one in await pod.stable()] == [first.name, second.name, third.name]
    assert key_of(pod, first) != old

    deleted = {"instance_group_managers_delete_instances_request_resource": named(first)}
    await pod.call(MANAGERS, "delete_instances", **CREW, **deleted)
    assert [one.name for one in await pod.stable()] == [second.name, third.name]
    await pod.call(MANAGERS, "resize", **CREW, size=1)
    assert [one.name for one in await pod.stable()] == [second.name]
    with pytest.raises(exceptions.BadRequest, match="not a member of"):
        await pod.call(MANAGERS, "delete_instances", **CREW, **deleted)


async def test_a_preempted_machine_comes_back_with_another_host_key(pod: ComputePod) -> None:
    await pod.group(size=2)
    first, second = await pod.stable()
    old, pod.compute.faults.worker_capacity = key_of(pod, first), 1
    await pod.call("Instances", "simulate_maintenance_event", **WHERE, instance=first.name)
    await pod.until_failed()
    assert states(await pod.managed()) == [("", "RECREATING"), ("RUNNING", "NONE")]

    pod.compute.faults.worker_capacity = None
    assert [one.name for one in await pod.stable()] == [first.name, second.name]
    assert key_of(pod, first) != old


async def test_without_repairs_a_preempted_machine_stays_stopped(pod: ComputePod) -> None:
    await pod.group(size=1, instance_lifecycle_policy={"default_action_on_failure": "DO_NOTHING"})
    (only,) = await pod.stable()
    pod.compute.instances.preempt(pod.compute.vm(only.name))
    await pod.until(lambda: pod.compute.vm(only.name).document["status"] == "TERMINATED")
    assert states(await pod.managed()) == [("TERMINATED", "NONE")]


@pytest.mark.parametrize("verb", ["stop", "delete"])
async def test_a_machine_taken_from_outside_is_replaced(pod: ComputePod, verb: str) -> None:
    await pod.group(size=1)
    (only,) = await pod.stable()
    old = key_of(pod, only)
    await pod.call("Instances", verb, **WHERE, instance=only.name)
    assert [one.name for one in await pod.stable()] == [only.name]
    assert key_of(pod, only) != old


async def test_a_machine_that_cannot_be_created_is_tried_again_and_has_the_last_error(pod: ComputePod) -> None:
    pod.compute.faults.worker_capacity = 0
    pod.hosts.broken = "no room"
    await pod.group(size=1)
    await pod.until_failed()
    assert codes(await pod.managed()) == [TOO_LITTLE]
    pod.compute.faults.worker_capacity = None
    (member,) = pod.group_of("crew").members.values()
    await pod.until(lambda: member.error is not None and member.error.code == "INTERNAL_ERROR")
    assert codes(await pod.managed()) == ["INTERNAL_ERROR"]
    pod.hosts.broken = None
    assert codes(await pod.stable()) == []


# ── flex-start ───────────────────────────────────────────────────────────────────────────────────


def wish(count: int = 2, **fields: Any) -> dict[str, Any]:
    return {"instance_group_manager_resize_request_resource": {"name": "wish", "resize_by": count, **fields}}


async def state_of_wish(pod: ComputePod) -> str:
    found = await pod.call(REQUESTS, "get", **CREW, resize_request="wish")
    return str(found.state)


async def test_a_resize_request_waits_until_there_is_room_for_all(pod: ComputePod) -> None:
    await pod.group(size=0, instance_lifecycle_policy={"default_action_on_failure": "DO_NOTHING"})
    pod.compute.faults.worker_capacity = 1
    await pod.call(REQUESTS, "insert", **CREW, **wish(requested_run_duration={"seconds": 3600}))
    await pod.until_failed()
    assert (await state_of_wish(pod), states(await pod.managed())) == ("ACCEPTED", [("", "CREATING")] * 2)
    with pytest.raises(exceptions.BadRequest, match="cancel it before"):
        await pod.call(REQUESTS, "delete", **CREW, resize_request="wish")
    with pytest.raises(exceptions.BadRequest, match="created together"):
        await pod.call(MANAGERS, "resize", **CREW, size=1)

    pod.compute.faults.worker_capacity = None
    assert states(await pod.stable()) == [("RUNNING", "NONE")] * 2
    assert (await state_of_wish(pod), pod.group_of("crew").target) == ("SUCCEEDED", 2)
    await pod.call(REQUESTS, "delete", **CREW, resize_request="wish")
    assert await pod.rows(REQUESTS, "list", **CREW) == []


async def test_a_cancelled_resize_request_leaves_the_group_as_it_was(pod: ComputePod) -> None:
    await pod.group(size=0, instance_lifecycle_policy={"default_action_on_failure": "DO_NOTHING"})
    pod.compute.faults.worker_capacity = 0
    await pod.call(REQUESTS, "insert", **CREW, **wish())
    await pod.call(REQUESTS, "cancel", **CREW, resize_request="wish")
    assert (await pod.stable(), await state_of_wish(pod), pod.group_of("crew").target) == ([], "CANCELLED", 0)


@pytest.mark.parametrize(
    ("group", "request_fields", "why"),
    [
        ({}, {}, "Repairs of .* must be turned off"),
        ({"target_size_policy": {"mode": "BULK"}}, {}, "mode is BULK"),
        ({"instance_lifecycle_policy": {"default_action_on_failure": "DO_NOTHING"}}, {"count": 0}, "resizeBy"),
        (
            {"instance_lifecycle_policy": {"default_action_on_failure": "DO_NOTHING"}},
            {"requested_run_duration": {"seconds": 60}},
            "from 600 to 604800 seconds",
        ),
    ],
)
async def test_a_resize_request_that_the_group_cannot_fulfil_is_refused(
    pod: ComputePod, group: dict[str, Any], request_fields: dict[str, Any], why: str
) -> None:
    await pod.group(size=0, **group)
    with pytest.raises(exceptions.BadRequest, match=why):
        await pod.call(REQUESTS, "insert", **CREW, **wish(**request_fields))


# ── refusals and lost answers ────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("fields", "kind", "why"),
    [
        ({"name": "Crew"}, exceptions.BadRequest, "Must be a match of regex"),
        ({"template": "none"}, exceptions.NotFound, "instanceTemplates/none' was not found"),
        ({"size": 1001}, exceptions.BadRequest, "targetSize"),
        ({"resource_policies": {"workload_policy": "none"}}, exceptions.NotFound, "resourcePolicies/none'"),
        (
            {"template": "flexible", "target_size_policy": {"mode": "BULK"}},
            exceptions.BadRequest,
            "Must be DO_NOTHING",
        ),
    ],
)
async def test_a_group_that_cannot_be_is_refused(
    pod: ComputePod, fields: dict[str, Any], kind: type[Exception], why: str
) -> None:
    await pod.template("flexible", "tpu7x-standard-4t", scheduling={"provisioning_model": "FLEX_START"})
    with pytest.raises(kind, match=why):
        await pod.group(**fields)
    assert pod.compute.groups.all() == []


async def test_a_group_is_created_once_though_the_answer_was_lost(pod: ComputePod) -> None:
    pod.compute.faults.lost_answers["compute.instanceGroupManagers.create"] = 1
    again = {"request_id": "6a1f3a5e-7e1c-4b8e-9d5e-3f1d7f0e2c11"}
    with pytest.raises(exceptions.ServiceUnavailable):
        await pod.group(size=1, request_fields=again)
    await pod.group(size=1, request_fields=again)
    with pytest.raises(exceptions.Conflict, match="already exists"):
        await pod.group(size=1)
    assert len(await pod.stable()) == 1


async def test_a_zone_that_does_not_answer_is_named_among_the_others(pod: ComputePod) -> None:
    pod.compute.faults.unavailable["local-a"] = FOREVER
    ((scope, found),) = await pod.rows(MANAGERS, "aggregated_list", project="local")
    assert (scope, found.warning.code, list(found.instance_group_managers)) == ("zones/local-a", "UNREACHABLE", [])
