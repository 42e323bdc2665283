"""Instance groups as slices, from a real Compute Engine API beside a Cloud TPU API."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
import pytest_asyncio

from tests.cloud.compute_pod import ZONE, GroupPod, group_pod
from tui.cloud.open_inventory import cloud_inventory, open_inventory
from tui.errors import CloudError, UsageError
from tui.localpod.api import rpc_errors
from tui.pod.creation.slice_request import NODE, SliceRequest
from tui.pod.slice import TPU_API

LIST = "compute.instanceGroupManagers.list"
GET = "compute.instanceGroupManagers.get"


@pytest_asyncio.fixture
async def pod(tmp_path: Path) -> AsyncIterator[GroupPod]:
    async with group_pod(tmp_path) as made:
        yield made


async def paths(pod: GroupPod) -> list[str]:
    return [slice_.path for slice_ in (await pod.inventory.slices()).slices]


async def test_a_group_of_tpu_vms_is_listed_beside_the_slices_of_the_cloud_tpu_api(pod: GroupPod) -> None:
    await asyncio.gather(
        pod.service.add_slice("pod", 1, 1), pod.group(), pod.group("web", 1, machine_type="n1-standard-16")
    )

    listing = await pod.inventory.slices()

    assert ([one.path for one in listing.slices], listing.problems, listing.notes) == (
        [f"{ZONE}/pod", f"{ZONE}/tpus"], (), ()
    )  # fmt: skip
    group = listing.slices[1]
    assert (group.source, group.state, group.accelerator_type, group.cores) == ("instance_group", "READY", "v6e-8", 8)
    assert [worker.index for worker in group.workers] == [0, 1]
    for worker in group.workers:
        with socket.create_connection((worker.internal_ip, worker.port), timeout=5):
            pass
    assert group == await pod.inventory.get("tpus", ZONE) == await pod.inventory.get("tpus", None)


async def test_a_refresh_asks_once_for_all_groups_and_twice_for_each_slice(pod: GroupPod) -> None:
    await pod.inventory.slices()
    pod.requests.clear()
    await pod.inventory.slices()
    assert pod.requests == [LIST]

    await pod.group()
    await pod.inventory.slices()
    pod.requests.clear()
    await pod.inventory.slices()
    assert sorted(pod.requests) == [GET, LIST, "compute.instances.list"]


async def test_any_group_can_be_named_with_its_zone(pod: GroupPod) -> None:
    await pod.group("web", 1, machine_type="n1-standard-16")
    assert await paths(pod) == []

    found = await pod.inventory.get("web", ZONE)

    assert (found.source, found.state, len(found.workers), found.cores) == ("instance_group", "READY", 1, None)


async def test_a_name_that_is_no_slice_has_the_groups_among_its_suggestions(pod: GroupPod) -> None:
    await pod.group()
    with pytest.raises(UsageError, match="no such slice") as caught:
        await pod.inventory.get("tpu", ZONE)
    assert "tpus" in caught.value.remedy


async def test_a_project_whose_groups_may_not_be_listed_has_one_note_and_no_more_requests(pod: GroupPod) -> None:
    await pod.service.add_slice("pod", 1, 1)
    pod.compute.faults.denied = {LIST, GET}

    listing = await pod.inventory.slices()
    pod.requests.clear()

    assert ([one.name for one in listing.slices], listing.problems) == (["pod"], ())
    (note,) = listing.notes
    assert note.startswith("instance groups are not shown: ")
    assert LIST in note
    assert (await pod.inventory.slices()).notes == listing.notes
    assert (await pod.inventory.get("pod", ZONE)).name == "pod"
    assert pod.requests == []
    with pytest.raises(CloudError, match=GET):
        await pod.inventory.find("tpus", ZONE)  # a run's group is not taken for deleted


async def test_compute_engine_that_fails_is_a_problem_and_hides_no_slice(pod: GroupPod) -> None:
    await asyncio.gather(pod.service.add_slice("pod", 1, 1), pod.group())
    pod.compute.faults.refusals[LIST] = [rpc_errors.invalid("the request is odd")]

    listing = await pod.inventory.slices()

    assert [one.name for one in listing.slices] == ["pod"]
    (problem,) = listing.problems
    assert problem.what == "instance groups cannot be listed"
    assert await paths(pod) == [f"{ZONE}/pod", f"{ZONE}/tpus"]


async def test_a_cloud_tpu_api_that_fails_is_a_problem_and_hides_no_group(pod: GroupPod) -> None:
    await pod.group()
    endpoints = {**pod.settings.endpoints, "tpu": "127.0.0.1:9"}
    inventory = cloud_inventory(replace(pod.settings, endpoints=endpoints), patience=2.0)

    listing = await inventory.slices()
    found = await inventory.get("tpus", ZONE)
    await inventory.close()

    assert [one.name for one in listing.slices] == ["tpus"]
    assert [problem.what for problem in listing.problems] == [f"slices in {ZONE} cannot be listed"]
    assert found.name == "tpus"


async def test_a_group_whose_vms_may_not_be_read_is_a_problem_and_hides_no_other(pod: GroupPod) -> None:
    await asyncio.gather(pod.group("one", 1), pod.group("two", 1))
    pod.compute.faults.refusals["compute.instances.list"] = [rpc_errors.invalid("the request is odd")]

    listing = await pod.inventory.slices()

    assert len(listing.slices) == len(listing.problems) == 1
    assert "the VMs of instance group" in listing.problems[0].what


async def test_a_pod_without_compute_engine_and_a_run_of_the_cloud_tpu_api_ask_for_no_group(pod: GroupPod) -> None:
    endpoints = {"tpu": pod.settings.endpoints["tpu"]}
    assert cloud_inventory(replace(pod.settings, endpoints=endpoints)).groups is None
    only = open_inventory(pod.settings, TPU_API)
    assert await only.find("tpus", ZONE) is None
    await only.close()
    assert pod.requests == []


async def test_host_keys_and_what_firewall_rules_may_name_come_from_the_vms_and_their_template(pod: GroupPod) -> None:
    account = [{"email": "robot@local.iam.gserviceaccount.com", "scopes": []}]
    metadata = {"enable-guest-attributes": "TRUE", "enable-oslogin": "FALSE"}
    await pod.group(metadata=metadata, tags={"items": ["tpus"]}, serviceAccounts=account)
    bare = await pod.inventory.get("tpus", ZONE)

    known = await pod.inventory.host_keys(bare)

    assert len({worker.host_keys for worker in known.workers}) == 2
    assert all(worker.host_keys[0].startswith("ssh-ed25519 AAAA") for worker in known.workers)
    assert bare.os_login == "FALSE"
    assert await pod.inventory.identity(bare) == (("tpus",), "robot@local.iam.gserviceaccount.com")
    assert (await pod.inventory.metadata(bare))["enable-oslogin"] == "FALSE"
    document = await pod.inventory.describe(bare)
    assert document["group"]["name"] == document["template"]["name"] == "tpus"
    assert len(document["vms"]) == 2


async def test_vms_without_guest_attributes_have_no_host_keys(pod: GroupPod) -> None:
    await pod.group(size=1)
    bare = await pod.inventory.get("tpus", ZONE)
    assert await pod.inventory.host_keys(bare) == bare


async def test_why_a_vm_is_gone_is_in_the_operations_of_its_zone(pod: GroupPod) -> None:
    await pod.group(size=3)
    before = await pod.inventory.get("tpus", ZONE)
    kept, recreated, deleted = before.workers

    await pod.change("tpus", "recreateInstances", {"instances": [f"zones/{ZONE}/instances/{recreated.hostname}"]})
    await pod.change("tpus", "deleteInstances", {"instances": [f"zones/{ZONE}/instances/{deleted.hostname}"]})
    now = await pod.inventory.get("tpus", ZONE)

    ids = {worker.hostname: worker.machine_id for worker in now.workers}
    assert ids[kept.hostname] == kept.machine_id
    assert ids[recreated.hostname] not in (None, recreated.machine_id)
    assert await pod.inventory.explain_losses(now, [recreated, deleted], None) == {
        recreated.index: "was recreated by tpus",
        deleted.index: "was deleted from tpus",
    }


async def test_a_preempted_vm_is_named_by_the_event_of_the_system(pod: GroupPod) -> None:
    await pod.group(size=1, scheduling={"provisioningModel": "SPOT"})
    before = await pod.inventory.get("tpus", ZONE)
    (worker,) = before.workers

    pod.compute.instances.preempt(pod.compute.vm(worker.hostname or ""))
    await pod.stable("tpus")

    assert before.spot
    assert await pod.inventory.explain_losses(before, [worker], None) == {0: "was preempted"}


async def test_a_deleted_group_is_gone(pod: GroupPod) -> None:
    await pod.group(size=1)
    assert await pod.inventory.find("tpus", ZONE) is not None
    async for _ in pod.api.delete("group", "", f"zones/{ZONE}/instanceGroupManagers/tpus"):
        pass
    assert await pod.inventory.find("tpus", ZONE) is None


async def test_a_tpu_node_goes_with_the_only_group_of_vms_that_fits_and_with_none_of_two(pod: GroupPod) -> None:
    request = SliceRequest("node", ZONE, NODE, "v2-32", runtime_version="pytorch-1.13")
    _ = [step async for step in pod.inventory.tpu.create(request)]
    await pod.group("users", 4, machine_type="n1-standard-16")

    node, users = (await pod.inventory.slices()).slices

    assert (node.name, node.instance_group, node.workers) == ("node", "users", ())
    assert (users.tpu_node, users.accelerator_type, users.cores) == ("node", "v2-32", 32)
    assert (users.state, users.node_endpoints, len(users.workers)) == ("READY", node.node_endpoints, 4)
    assert await pod.inventory.get("users", ZONE) == await pod.inventory.find("users", ZONE) == users
    assert await pod.inventory.get("node", ZONE) == node
    assert [group.tpu_node for group in (await pod.inventory.list_groups()).groups] == ["node"]

    await pod.group("more", 4, machine_type="n1-standard-16")
    (alone,) = (await pod.inventory.slices()).slices
    assert (alone.name, alone.instance_group) == ("node", None)
