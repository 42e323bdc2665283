"""Tests of long-running operations and guest attributes over each transport."""

from __future__ import annotations

import google.cloud.tpu_v2 as tpu
import pytest
from google.api_core import exceptions

from tests.localpod.api_clients import PLACE, TRANSPORTS, named, node, pod

pytestmark = pytest.mark.timing

over_each_transport = pytest.mark.parametrize("transport", TRANSPORTS)


@over_each_transport
async def test_an_operation_has_its_verb_target_and_times(transport: str) -> None:
    async with pod(transport) as one:
        operation = await one.call("create_node", parent=PLACE, node_id="made", node=node())
        finished = await one.call.succeeded(operation)
        metadata = tpu.OperationMetadata()
        assert finished.metadata.Unpack(tpu.OperationMetadata.pb(metadata))
        assert (metadata.verb, metadata.target, metadata.api_version) == ("create", named("made"), "v2")
        assert metadata.end_time > metadata.create_time
        assert finished.name.startswith(f"{PLACE}/operations/operation-")
        result = tpu.Node()
        assert finished.response.Unpack(tpu.Node.pb(result))
        assert (result.name, result.state) == (named("made"), tpu.Node.State.READY)


async def test_the_async_client_waits_for_an_operation_by_itself() -> None:
    async with pod("grpc_asyncio") as one:
        operation = await one.call("create_node", parent=PLACE, node_id="awaited", node=node())
        made = await operation.result(timeout=20)
        assert isinstance(made, tpu.Node)
        assert made.state == tpu.Node.State.READY


async def test_the_async_client_raises_the_error_of_the_operation() -> None:
    async with pod("grpc_asyncio") as one:
        one.service.faults.worker_capacity = 0
        operation = await one.call("create_node", parent=PLACE, node_id="never", node=node())
        with pytest.raises(exceptions.GoogleAPICallError, match="no more capacity"):
            await operation.result(timeout=20)


@over_each_transport
async def test_operations_are_listed(transport: str) -> None:
    async with pod(transport) as one:
        names = []
        for node_id in ("a", "b"):
            operation = await one.call("create_node", parent=PLACE, node_id=node_id, node=node())
            names.append((await one.call.succeeded(operation)).name)
        found = await one.call("list_operations", name=PLACE)
        assert sorted(item.name for item in found.operations) == sorted(names)


@over_each_transport
async def test_host_keys_and_hostnames_are_those_of_the_machines(transport: str) -> None:
    async with pod(transport) as one:
        await one.create("keyed", node("v4-16"))
        machines = await one.hosts.start("keyed", 2, 4)
        found = await one.call("get_guest_attributes", name=named("keyed"))
        for machine, answer in zip(machines, found.guest_attributes, strict=True):
            attributes = {(item.namespace, item.key): item.value for item in answer.query_value.items}
            assert attributes["hostkeys", "ssh-ed25519"] == machine.host_key_public.split()[1]
            assert attributes["deviceInfo", "hostname"] == machine.hostname


@over_each_transport
@pytest.mark.parametrize(
    ("query_path", "keys"),
    [
        ("", {"hostname", "ssh-ed25519"}),
        ("hostkeys/", {"ssh-ed25519"}),
        ("/hostkeys/ssh-ed25519", {"ssh-ed25519"}),
        ("deviceInfo/hostname", {"hostname"}),
        ("hostkeys/ssh-rsa", set()),
    ],
)
async def test_a_query_path_narrows_the_attributes(transport: str, query_path: str, keys: set[str]) -> None:
    async with pod(transport) as one:
        await one.create("asked", node())
        found = await one.call("get_guest_attributes", name=named("asked"), query_path=query_path)
        assert {item.key for item in found.guest_attributes[0].query_value.items} == keys


@over_each_transport
async def test_guest_attributes_of_single_workers_can_be_read(transport: str) -> None:
    async with pod(transport) as one:
        await one.create("crew", node("v5litepod-16"))
        every = await one.call("get_guest_attributes", name=named("crew"))
        assert len(every.guest_attributes) == 4
        assert await one.call("get_guest_attributes", name=named("crew"), worker_ids=[""]) == every
        some = await one.call("get_guest_attributes", name=named("crew"), worker_ids=["2", "0"])
        assert list(some.guest_attributes) == [every.guest_attributes[2], every.guest_attributes[0]]
        refused = exceptions.InvalidArgument if "grpc" in transport else exceptions.BadRequest
        with pytest.raises(refused, match="worker '4' does not exist"):
            await one.call("get_guest_attributes", name=named("crew"), worker_ids=["4"])
