"""Machines, images and metadata of the local pod's Compute Engine API, by Google's client and over SSH."""

from __future__ import annotations

import asyncio
import getpass
import json
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import asyncssh
import pytest
from google.api_core import exceptions

from tests.localpod.api_clients import until as until_answered
from tests.localpod.compute import WHERE, ComputePod, OperationFailed, compute_pod
from tests.pods import known_hosts, pod_home, running_pod
from tests.waiting import until
from tui.localpod.api.compute.instances import Vm
from tui.localpod.pod import LocalPod

__all__ = ["pod_home"]

VM = {**WHERE, "instance": "vm"}
IMAGE = {"name": "base", "family": "torch-xla", "storage_locations": ["local"]}


@pytest.fixture
async def pod() -> AsyncIterator[ComputePod]:
    async with compute_pod() as made:
        yield made


async def insert(pod: ComputePod, name: str = "vm", kind: str = "n1-standard-16", **fields: Any) -> None:
    machine = {"name": name, "machine_type": f"zones/local-a/machineTypes/{kind}", **fields}
    await pod.call("Instances", "insert", **WHERE, instance_resource=machine)


def metadata(**items: str) -> dict[str, Any]:
    return {"items": [{"key": key.replace("_", "-"), "value": value} for key, value in items.items()]}


async def test_a_machine_is_stopped_for_an_image_of_its_disk_and_started_again(pod: ComputePod) -> None:
    await insert(pod)
    image = {**IMAGE, "source_disk": "projects/local/zones/local-a/disks/vm"}
    with pytest.raises(exceptions.BadRequest, match=r"disk resource .*/disks/vm' is already being used by .*/vm'"):
        await pod.call("Images", "insert", project="local", image_resource=image)
    before = pod.compute.vm("vm").worker
    await pod.call("Instances", "stop", **VM)
    assert ((await pod.call("Instances", "get", **VM)).status, pod.hosts.running()) == ("TERMINATED", [])

    await pod.call("Images", "insert", project="local", image_resource=image)
    made = await pod.call("Images", "get_from_family", project="local", family="torch-xla")
    assert (made.name, list(made.storage_locations), made.disk_size_gb) == ("base", ["local"], 10)
    await pod.call("Instances", "start", **VM)
    after = pod.compute.vm("vm").worker
    assert before is not None
    assert after is not None
    assert before.host_key_public == after.host_key_public

    await pod.call("Instances", "delete", **VM)
    assert (pod.hosts.running(), pod.compute.store.places("disks")) == ([], [])
    with pytest.raises(exceptions.NotFound, match="instances/vm' was not found"):
        await pod.call("Instances", "get", **VM)


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"name": "VM"}, "Must be a match of regex"),
        ({"kind": "n1-none-1"}, "The referenced resource does not exist"),
        ({"disks": [{"boot": True}, {"source": "zones/local-a/disks/none"}]}, "disks/none' was not found"),
        ({"disks": [{"initialize_params": {"source_image": "global/images/none"}}]}, "images/none' was not found"),
    ],
)
async def test_a_machine_that_cannot_be_is_refused(pod: ComputePod, fields: dict[str, Any], why: str) -> None:
    with pytest.raises(exceptions.GoogleAPICallError, match=why):
        await insert(pod, **fields)
    assert (pod.compute.store.places("instances"), pod.compute.store.places("disks")) == ([], [])


async def test_a_machine_without_room_is_an_error_of_the_operation_and_is_gone(pod: ComputePod) -> None:
    pod.compute.faults.worker_capacity = 0
    with pytest.raises(OperationFailed, match="does not have enough resources available"):
        await insert(pod)
    assert (pod.compute.store.places("instances"), pod.compute.store.places("disks")) == ([], [])


async def test_a_machine_is_deleted_while_it_is_created(pod: ComputePod) -> None:
    pod.compute.faults.hold_operations()
    creation = asyncio.create_task(insert(pod))
    await pod.until(lambda: pod.compute.store.places("instances") != [])
    deletion = asyncio.create_task(pod.call("Instances", "delete", **VM))

    async def both_begun() -> bool:
        return len(await pod.rows("ZoneOperations", "list", **WHERE)) == 2

    await until_answered(both_begun)
    with pytest.raises(exceptions.BadRequest, match="is not ready"):
        await pod.call("Instances", "stop", **VM)
    pod.compute.faults.release_operations()
    await asyncio.gather(creation, deletion)
    assert (pod.hosts.running(), pod.compute.store.places("instances")) == ([], [])


async def test_metadata_is_replaced_by_its_fingerprint_and_opens_the_machine_to_its_keys(pod: ComputePod) -> None:
    await insert(pod, metadata=metadata(ssh_keys="ada:ssh-ed25519 AAAA ada", team="vision"))
    pod.compute.networks.metadata["ssh-keys"] = "bob:ssh-ed25519 BBBB bob"
    pod.compute.instances.authorize_all()
    host = pod.compute.vm("vm").host
    assert pod.hosts.ssh_keys[host].split("\n") == ["ada:ssh-ed25519 AAAA ada", "bob:ssh-ed25519 BBBB bob"]

    found = (await pod.call("Instances", "get", **VM)).metadata
    changed = {**metadata(team="speech", block_project_ssh_keys="TRUE"), "fingerprint": found.fingerprint}
    await pod.call("Instances", "set_metadata", **VM, metadata_resource=changed)
    assert pod.hosts.ssh_keys[host].strip() == ""
    with pytest.raises(exceptions.PreconditionFailed, match="fingerprint does not match"):
        await pod.call("Instances", "set_metadata", **VM, metadata_resource=changed)


async def test_host_keys_are_published_where_guest_attributes_are_enabled(pod: ComputePod) -> None:
    await insert(pod)
    await insert(pod, "quiet", metadata=metadata(enable_guest_attributes="FALSE"))
    query = {"query_path": "hostkeys/"}
    found = await pod.call("Instances", "get_guest_attributes", **VM, **query)
    (key,) = found.query_value.items
    worker = pod.compute.vm("vm").worker
    assert worker is not None
    assert f"{key.key} {key.value}" == worker.host_key_public
    with pytest.raises(exceptions.NotFound, match="of type 'Guest Attribute' was not found"):
        await pod.call("Instances", "get_guest_attributes", **WHERE, instance="quiet", **query)


async def test_machines_are_listed_by_page_and_by_filter(pod: ComputePod) -> None:
    for name in ("alpha", "beta", "gamma"):
        await insert(pod, name, labels={"stage": "test" if name == "beta" else "live"})

    async def names(**fields: Any) -> list[str]:
        return [one.name for one in await pod.rows("Instances", "list", **WHERE, **fields)]

    assert await names(max_results=2) == ["alpha", "beta", "gamma"]
    assert await names(filter="labels.stage=live AND name != gamma") == ["alpha"]
    assert await names(filter='(name eq "(be|ga).*") (status = RUNNING)') == ["beta", "gamma"]
    assert await names(filter="name:am") == ["gamma"]
    assert await names(filter='selfLink eq "(.*/instances/(alpha|none)|.*(x)(y)|.*/beta)"') == ["alpha", "beta"]
    assert await names(filter="labels.none:*") == []
    for wrong in ("name ~ a OR b", 'name eq "("', 'name ne "["'):
        with pytest.raises(exceptions.BadRequest, match="Invalid list filter expression"):
            await names(filter=wrong)


async def test_a_page_of_no_size_is_one_of_the_default_size(pod: ComputePod) -> None:
    url = f"http://127.0.0.1:{pod.service.rest_port}/compute/v1/projects/local/zones/local-a/machineTypes"
    login = {"Authorization": f"Bearer {pod.service.token}"}
    async with aiohttp.ClientSession(headers=login) as session:
        for size in ("0", ""):
            async with session.get(url, params={"maxResults": size}) as response:
                answered = await response.json()
            assert answered["items"]
            assert "nextPageToken" not in answered


async def test_a_batch_answers_each_of_its_requests(pod: ComputePod) -> None:
    await insert(pod)
    url = f"http://127.0.0.1:{pod.service.rest_port}/batch/compute/v1"
    owner = {"Authorization": f"Bearer {pod.service.token}"}
    place = "/compute/v1/projects/local/zones/local-a/instances"
    wanted = (f"GET {place}/vm HTTP/1.1", f"GET {place}/none HTTP/1.1", f"POST {place}/vm/stop HTTP/1.1")
    parts = [f"--b\r\nContent-ID: <x+{i}>\r\n\r\n{line}\r\n\r\n\r\n" for i, line in enumerate(wanted)]
    mixed = owner | {"Content-Type": "multipart/mixed; boundary=b"}
    async with aiohttp.ClientSession() as session:
        async with session.post(url, data="".join(parts) + "--b--", headers=mixed) as answer:
            text = await answer.text()
        outside = "--b\r\nContent-ID: <x+0>\r\n\r\nGET /v2/x HTTP/1.1\r\n\r\n--b--"
        async with session.post(url, data=outside, headers=mixed) as answer:
            assert (answer.status, "not a path of the API" in await answer.text()) == (400, True)
        async with session.post(url, data="text", headers=owner) as answer:
            assert answer.status == 400
    assert re.findall(r"<response-x\+(\d)>\s+HTTP/1.1 (\d+)", text) == [("0", "200"), ("1", "404"), ("2", "200")]
    await pod.until(lambda: pod.compute.vm("vm").document["status"] == "TERMINATED")


async def test_machine_types_say_how_many_chips_they_have(pod: ComputePod) -> None:
    found = await pod.call("MachineTypes", "get", **WHERE, machine_type="ct6e-standard-8t")
    assert [(one.guest_accelerator_type, one.guest_accelerator_count) for one in found.accelerators] == [("ct6e", 8)]
    with pytest.raises(exceptions.NotFound, match="machineTypes/none' was not found"):
        await pod.call("MachineTypes", "get", **WHERE, machine_type="none")


async def test_another_project_is_not_served_but_for_public_images(pod: ComputePod) -> None:
    with pytest.raises(exceptions.NotFound, match="The resource 'projects/other' was not found"):
        await pod.call("Instances", "list", project="other", zone="local-a")
    public = await pod.call("Images", "get_from_family", project="debian-cloud", family="debian-12")
    assert public.self_link.endswith("projects/debian-cloud/global/images/debian-12")


WRONG_TYPES = [
    ("zones/local-a/disks", {"name": "one", "labels": "x"}, "resource.labels"),
    ("zones/local-a/disks", {"name": "one", "sizeGb": "big"}, "resource.sizeGb"),
    ("global/images", {"name": "one", "sourceDisk": 5}, "resource.sourceDisk"),
    ("global/images", {"name": "one", "labels": {"a": {}}}, "resource.labels.a"),
    ("global/instanceTemplates", {"name": "one", "properties": {"disks": [None]}}, "resource.properties.disks[0]"),
    ("regions/local/resourcePolicies", {"name": "one", "workloadPolicy": []}, "resource.workloadPolicy"),
    ("zones/local-a/instances", {"name": ["one"]}, "resource.name"),
    ("zones/local-a/instances", {"metadata": {"items": [{"key": 5}]}}, "resource.metadata.items[0].key"),
    ("zones/local-a/instanceGroupManagers", {"name": "one", "targetSize": True}, "resource.targetSize"),
    ("zones/local-a/instanceGroupManagers", {"resourcePolicies": ["one"]}, "resource.resourcePolicies"),
    ("zones/local-a/instanceGroupManagers/crew/recreateInstances", {"instances": [1]}, "resource.instances[0]"),
    ("zones/local-a/instanceGroupManagers/crew/resizeRequests", {"name": "one", "resizeBy": {}}, "resource.resizeBy"),
    ("setCommonInstanceMetadata", {"items": {"key": "a"}}, "resource.items"),
    ("global/firewalls", {"name": "one", "network": 5}, "resource.network"),
]


async def test_a_field_of_another_type_is_refused_as_an_invalid_argument(pod: ComputePod) -> None:
    await pod.template()
    await pod.group(size=0)
    for path, body, field in WRONG_TYPES:
        status, error = await post(pod, path, body)
        assert (status, error["status"]) == (400, "INVALID_ARGUMENT"), (path, error)
        assert f"'{field}'" in error["message"]


async def test_a_field_that_is_null_counts_as_absent_and_metadata_needs_keys(pod: ComputePod) -> None:
    machine = {"name": "vm", "machineType": "n1-standard-1", "labels": None, "disks": None, "scheduling": None}
    assert (await post(pod, "zones/local-a/instances", {**machine, "metadata": None}))[0] == 200
    for path, body in (
        ("zones/local-a/instances", {**machine, "name": "other", "metadata": {"items": [{"value": "x"}]}}),
        ("setCommonInstanceMetadata", {"items": [{}]}),
    ):
        status, error = await post(pod, path, body)
        assert (status, "resource.metadata.items.key" in error["message"]) == (400, True)


@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        ("global/images", {"sourceDisk": "projects/local/global/images/base"}, "sourceDisk"),
        ("regions/local/resourcePolicies", {"workloadPolicy": {"acceleratorTopology": "axb"}}, "acceleratorTopology"),
        (
            "regions/local/resourcePolicies",
            {"workloadPolicy": {"acceleratorTopology": "2x2x2x2"}},
            "acceleratorTopology",
        ),
    ],
)
async def test_a_malformed_value_is_refused(pod: ComputePod, path: str, body: dict[str, Any], field: str) -> None:
    pod.compute.store.insert("disks", "zones/local-a", {"name": "data"})
    pod.compute.store.insert(
        "images", "global", {"name": "base", "sourceDisk": "projects/local/zones/local-a/disks/data"}
    )
    status, error = await post(pod, path, {"name": "one", **body})
    assert (status, field in error["message"]) == (400, True)


async def test_a_body_that_is_nested_too_deeply_is_a_parse_error(pod: ComputePod) -> None:
    deep = b"[" * 200_000
    for path in ("compute/v1/projects/local/zones/local-a/disks", "v2/projects/local/locations/local-a/nodes"):
        status, error = await send(pod, path, deep)
        assert (status, error["code"]) == (400, 400)


async def post(pod: ComputePod, path: str, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
    return await send(pod, f"compute/v1/projects/local/{path}", json.dumps(body).encode())


async def send(pod: ComputePod, path: str, body: bytes) -> tuple[int, dict[str, Any]]:
    """Return the status of the answer, and its error if it has one."""
    owner = {"Authorization": f"Bearer {pod.service.token}"}
    async with (
        aiohttp.ClientSession(f"http://127.0.0.1:{pod.service.rest_port}", headers=owner) as session,
        session.post(f"/{path}", data=body) as answer,
    ):
        return answer.status, (await answer.json()).get("error", {})


async def test_no_route_answers_without_the_owners_token(pod: ComputePod) -> None:
    rest = f"http://127.0.0.1:{pod.service.rest_port}"
    async with aiohttp.ClientSession() as session:
        routes = {(route.method, re.sub(r"{(\w+)}", r"\1", route.path)) for route in pod.compute.routes()}
        assert len(routes) > 50
        for method, path in routes:
            async with session.request(method, rest + path) as answer:
                assert (answer.status, (await answer.json())["error"]["status"]) == (401, "UNAUTHENTICATED")


# ── real machines ────────────────────────────────────────────────────────────────────────────────


async def ask(pod: LocalPod, verb: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
    """Send a request to a pod's Compute Engine API; an operation is waited for."""
    base = f"{pod.announcement()['compute_api']}/compute/v1/projects/local"
    async with aiohttp.ClientSession(headers={"Authorization": f"Bearer {pod.token}"}) as session:
        async with session.request(verb, f"{base}/{path}", json=body) as answer:
            document = dict(await answer.json())
        assert answer.status == 200, document
        if document.get("kind") == "compute#operation":
            async with session.post(f"{base}/{document['selfLink'].split('/local/')[1]}/wait") as done:
                assert "error" not in await done.json(), document
    return document


async def hostname(pod: LocalPod, vm: Vm) -> str:
    """Log in, with the host key that the machine publishes, and return the name that it has for itself."""
    keys = await ask(pod, "GET", f"zones/local-a/instances/{vm.name}/getGuestAttributes?queryPath=hostkeys/")
    (key,) = keys["queryValue"]["items"]
    assert vm.worker is not None
    published = known_hosts([vm.worker]), f"{key['key']} {key['value']}"
    assert published[1] == vm.worker.host_key_public
    login: dict[str, Any] = {"username": getpass.getuser(), "client_keys": [str(pod.identity)], "config": None}
    place = (vm.worker.address, vm.worker.port)
    async with asyncssh.connect(*place, known_hosts=published[0], agent_path=None, **login) as connection:
        return str((await connection.run("echo $HOSTNAME")).stdout).strip()


async def test_the_machines_of_a_group_are_reached_over_ssh_before_and_after_a_preemption(pod_home: Path) -> None:
    template = {"machineType": "ct6e-standard-4t", "scheduling": {"provisioningModel": "SPOT"}}
    manager = {"name": "crew", "targetSize": 2, "instanceTemplate": "global/instanceTemplates/spot"}
    async with running_pod(pod_home) as pod:
        pod.compute.conditions.operation_seconds = 0.02
        await ask(pod, "POST", "global/instanceTemplates", {"name": "spot", "properties": template})
        await ask(pod, "POST", "zones/local-a/instanceGroupManagers", manager)
        (group,) = pod.compute.groups.all()
        await until(lambda: group.is_stable, "the group is stable")
        names = list(group.members)
        first = pod.compute.vm(names[0])
        listed = (await ask(pod, "GET", "zones/local-a/instances"))["items"]
        assert sorted(row["name"] for row in listed) == sorted(names), "the machines of TPU VMs are not the user's"
        assert [await hostname(pod, pod.compute.vm(name)) for name in names] == names
        assert len(list((pod.directory / "slices" / first.host / "w-0" / "dev").iterdir())) == 4

        old = first.worker
        await ask(pod, "POST", f"zones/local-a/instances/{names[0]}/simulateMaintenanceEvent", {})
        await until(
            lambda: group.is_stable and pod.compute.vm(names[0]).worker is not old, "the machine was replaced"
        )
        again = pod.compute.vm(names[0])
        assert await hostname(pod, again) == names[0]
        assert old is not None
        assert again.worker is not None
        assert old.host_key_public != again.worker.host_key_public

        await ask(pod, "DELETE", "zones/local-a/instanceGroupManagers/crew")
        assert json.dumps(pod.machines.slices) == '["local"]'
