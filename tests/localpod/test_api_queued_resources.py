"""Tests of queued resources over each transport: queued, provisioned, active, suspended, deleted."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import google.cloud.tpu_v2 as tpu
import pytest
from google.api_core import exceptions

from tests.localpod.api_clients import PLACE, TRANSPORTS, Pod, named, node, pod, until
from tests.localpod.faults import Faults

pytestmark = pytest.mark.timing

State = tpu.QueuedResourceState.State
Spec = tpu.QueuedResource.Tpu.NodeSpec

over_each_transport = pytest.mark.parametrize("transport", TRANSPORTS)

NAME = f"{PLACE}/queuedResources/wish"


def one_node(node_id: str = "granted", accelerator: str = "v2-8", **fields: Any) -> tpu.QueuedResource:
    spec = Spec(parent=PLACE, node_id=node_id, node=node(accelerator))
    return tpu.QueuedResource(tpu=tpu.QueuedResource.Tpu(node_spec=[spec]), **fields)


def several(count: int, prefix: str = "") -> tpu.QueuedResource:
    params = Spec.MultisliceParams(node_count=count, node_id_prefix=prefix)
    spec = Spec(parent=PLACE, multislice_params=params, node=node("v2-8"))
    return tpu.QueuedResource(tpu=tpu.QueuedResource.Tpu(node_spec=[spec]))


async def ask(one: Pod, wanted: tpu.QueuedResource) -> Any:
    return await one.call("create_queued_resource", parent=PLACE, queued_resource_id="wish", queued_resource=wanted)


async def reached(one: Pod, state: Any) -> tpu.QueuedResource:
    async def is_there() -> Any:
        found = await one.call("get_queued_resource", name=NAME)
        return found if found.state.state == state else None

    return await until(is_there)


async def nodes(one: Pod) -> dict[str, Any]:
    return {item.name: item for item in await one.call.all("list_nodes", parent=PLACE)}


@over_each_transport
async def test_a_request_is_accepted_then_provisioned_then_active_with_its_node(transport: str) -> None:
    async with pod(transport) as one:
        one.service.faults.hold_operations()
        await ask(one, one_node(spot=tpu.QueuedResource.Spot()))
        accepted = await one.call("get_queued_resource", name=NAME)
        assert accepted.state.state == State.ACCEPTED
        assert "accepted_data" in accepted.state
        assert await nodes(one) == {}
        one.service.faults.release_operations()
        active = await reached(one, State.ACTIVE)
        assert active.create_time.timestamp() > 0  # type: ignore[attr-defined]
        made = (await nodes(one))[named("granted")]
        assert made.state == tpu.Node.State.READY
        assert made.queued_resource == NAME
        assert made.scheduling_config.spot
        assert not made.multislice_node


async def test_the_node_of_a_request_is_creating_while_the_request_is_provisioned() -> None:
    async with pod("grpc_asyncio", faults=Faults(operation_seconds=0.02, worker_capacity=0)) as one:
        await ask(one, one_node())
        await reached(one, State.WAITING_FOR_RESOURCES)
        one.service.faults.hold_operations()
        one.service.faults.worker_capacity = 1
        await reached(one, State.PROVISIONING)
        assert (await nodes(one))[named("granted")].state == tpu.Node.State.CREATING
        one.service.faults.release_operations()
        await reached(one, State.ACTIVE)


@over_each_transport
@pytest.mark.parametrize(("prefix", "first"), [("", "wish-0"), ("np", "np-0")])
async def test_several_nodes_are_made_under_one_prefix(transport: str, prefix: str, first: str) -> None:
    async with pod(transport) as one:
        await one.call.succeeded(await ask(one, several(3, prefix)))
        await reached(one, State.ACTIVE)
        made = await nodes(one)
        assert len(made) == 3
        assert named(first) in made
        assert all(item.multislice_node for item in made.values())


@over_each_transport
async def test_a_request_is_listed_and_its_name_is_taken(transport: str) -> None:
    async with pod(transport) as one:
        await ask(one, one_node())
        assert [item.name for item in await one.call.all("list_queued_resources", parent=PLACE)] == [NAME]
        everywhere = "projects/local/locations/-"
        assert [item.name for item in await one.call.all("list_queued_resources", parent=everywhere)] == [NAME]
        with pytest.raises((exceptions.AlreadyExists, exceptions.Conflict), match="already exists"):
            await ask(one, one_node("other"))


@over_each_transport
async def test_an_active_request_is_deleted_by_force_only_and_with_its_nodes(transport: str) -> None:
    refused = exceptions.FailedPrecondition if "grpc" in transport else exceptions.BadRequest
    async with pod(transport) as one:
        await ask(one, several(2))
        await reached(one, State.ACTIVE)
        with pytest.raises(refused, match="use force"):
            await one.call("delete_queued_resource", name=NAME)
        await one.call.succeeded(await one.call("delete_queued_resource", name=NAME, force=True))
        with pytest.raises(exceptions.NotFound):
            await one.call("get_queued_resource", name=NAME)
        assert await nodes(one) == {}
        assert one.hosts.running() == []


async def test_a_request_that_is_being_provisioned_can_be_deleted_by_force() -> None:
    async with pod("grpc_asyncio", faults=Faults(operation_seconds=0.02, worker_capacity=0)) as one:
        await ask(one, one_node())
        await reached(one, State.WAITING_FOR_RESOURCES)
        one.service.faults.hold_operations()
        one.service.faults.worker_capacity = 1
        await reached(one, State.PROVISIONING)
        operation = await one.call("delete_queued_resource", name=NAME, force=True)
        assert (await one.call("get_queued_resource", name=NAME)).state.state == State.DELETING
        one.service.faults.release_operations()
        await one.call.succeeded(operation)
        assert await nodes(one) == {}
        assert one.hosts.running() == []


async def test_a_request_that_is_being_deleted_makes_no_more_nodes() -> None:
    async with pod("grpc_asyncio") as one:
        one.service.faults.hold_operations()
        await ask(one, one_node())
        operation = await one.call("delete_queued_resource", name=NAME)
        one.service.faults.release_operations()
        await one.call.succeeded(operation)
        assert await nodes(one) == {}
        assert one.hosts.cores == {}


async def test_a_node_that_cannot_start_fails_the_request_and_removes_its_other_nodes() -> None:
    async with pod("grpc_asyncio") as one:
        one.hosts.second = "wish-1"
        await ask(one, several(2))
        failed = await reached(one, State.FAILED)
        assert "there is room for one slice only" in failed.state.failed_data.error.message
        assert "wish-0" in one.hosts.cores

        async def nothing_left() -> bool:
            return await nodes(one) == {} and one.hosts.running() == []

        await until(nothing_left)


async def test_a_node_that_took_the_name_meanwhile_fails_the_request_and_stays() -> None:
    async with pod("grpc_asyncio") as one:
        one.service.faults.hold_operations()
        await ask(one, one_node("granted"))
        await one.service.add_slice("granted", 1, 8)
        one.service.faults.release_operations()
        failed = await reached(one, State.FAILED)
        assert failed.state.failed_data.error.code == 6
        assert (await nodes(one))[named("granted")].state == tpu.Node.State.READY
        await one.call.succeeded(await one.call("delete_queued_resource", name=NAME, force=True))
        assert one.hosts.alive("granted") == [True]


async def test_a_quota_used_up_meanwhile_fails_the_request_and_leaves_none_of_its_nodes() -> None:
    async with pod("grpc_asyncio", faults=Faults(operation_seconds=0.02, worker_quota=2)) as one:
        one.service.faults.hold_operations()
        await ask(one, several(2))
        await one.service.add_slice("other", 1, 8)
        one.service.faults.release_operations()
        failed = await reached(one, State.FAILED)
        assert "Quota limit" in failed.state.failed_data.error.message
        assert list(await nodes(one)) == [named("other")]


@over_each_transport
async def test_a_waiting_request_is_deleted_without_force(transport: str) -> None:
    async with pod(transport, faults=Faults(operation_seconds=0.02, worker_capacity=0)) as one:
        await ask(one, one_node())
        await reached(one, State.WAITING_FOR_RESOURCES)
        await one.call.succeeded(await one.call("delete_queued_resource", name=NAME))
        assert await one.call.all("list_queued_resources", parent=PLACE) == []


async def test_a_request_that_waited_too_long_has_failed_with_the_reason() -> None:
    async with pod("grpc_asyncio", faults=Faults(operation_seconds=0.02, worker_capacity=0)) as one:
        policy = tpu.QueuedResource.QueueingPolicy(valid_until_duration=timedelta(milliseconds=1))
        await ask(one, one_node(queueing_policy=policy))
        failed = await reached(one, State.FAILED)
        assert failed.state.failed_data.error.code == 8
        assert "no more capacity" in failed.state.failed_data.error.message


async def test_a_request_whose_machines_cannot_start_has_failed_and_left_no_node() -> None:
    async with pod("grpc_asyncio") as one:
        one.hosts.broken = "no room"
        await ask(one, several(2))
        failed = await reached(one, State.FAILED)
        assert "no room" in failed.state.failed_data.error.message

        async def nothing_left() -> bool:
            return await nodes(one) == {}

        await until(nothing_left)
        assert one.hosts.running() == []


@over_each_transport
async def test_a_preempted_node_suspends_the_request_and_a_reset_makes_the_node_again(transport: str) -> None:
    async with pod(transport) as one:
        await ask(one, one_node())
        await reached(one, State.ACTIVE)
        one.hosts.kill("granted", 0)
        suspended = await reached(one, State.SUSPENDED)
        assert suspended.state.state_initiator == tpu.QueuedResourceState.StateInitiator.SERVICE
        await one.call.succeeded(await one.call("reset_queued_resource", name=NAME))
        await reached(one, State.ACTIVE)
        assert (await nodes(one))[named("granted")].state == tpu.Node.State.READY
        assert one.hosts.alive("granted") == [True]


async def test_a_node_deleted_by_hand_suspends_the_request_with_the_user_as_initiator() -> None:
    async with pod("grpc_asyncio") as one:
        await ask(one, one_node())
        await reached(one, State.ACTIVE)
        await one.call.succeeded(await one.call("delete_node", name=named("granted")))
        suspended = await reached(one, State.SUSPENDED)
        assert suspended.state.state_initiator == tpu.QueuedResourceState.StateInitiator.USER
        await one.call.succeeded(await one.call("delete_queued_resource", name=NAME))


@over_each_transport
@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        (tpu.QueuedResource(), "at least one node spec"),
        (several(1), "node_count must be greater than 1"),
        (one_node("bad id"), "not a valid id"),
        (one_node("x", "v9-8"), "the accelerator v9-8 was not found"),
    ],
)
async def test_an_invalid_request_is_refused(transport: str, wanted: Any, message: str) -> None:
    refused = exceptions.InvalidArgument if "grpc" in transport else exceptions.BadRequest
    async with pod(transport) as one:
        with pytest.raises(refused, match=message):
            await ask(one, wanted)
        assert await one.call.all("list_queued_resources", parent=PLACE) == []


async def test_more_workers_than_the_quota_are_refused_at_once() -> None:
    async with pod("grpc_asyncio", faults=Faults(worker_quota=2)) as one:
        with pytest.raises(exceptions.ResourceExhausted, match="Quota limit"):
            await ask(one, several(3))


async def test_a_request_without_an_id_gets_one() -> None:
    async with pod("grpc_asyncio") as one:
        operation = await one.call("create_queued_resource", parent=PLACE, queued_resource=one_node())
        assert operation.metadata.target.startswith(f"{PLACE}/queuedResources/qr-")
