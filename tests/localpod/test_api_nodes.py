"""Tests of the life of a node over each of the real client's transports."""

from __future__ import annotations

from typing import Any

import google.cloud.tpu_v2 as tpu
import pytest
from google.api_core import exceptions

from tests.localpod.api_clients import PLACE, TRANSPORTS, Pod, connect_until_closed, named, node, pod, until

pytestmark = pytest.mark.timing

State = tpu.Node.State
Health = tpu.Node.Health

over_each_transport = pytest.mark.parametrize("transport", TRANSPORTS)


async def state_of(one: Pod, node_id: str) -> Any:
    return (await one.call("get_node", name=named(node_id))).state


@over_each_transport
async def test_a_created_node_is_seen_creating_and_then_ready(transport: str) -> None:
    async with pod(transport) as one:
        one.service.faults.hold_operations()
        operation = await one.call("create_node", parent=PLACE, node_id="fresh", node=node("v2-8"))
        assert await state_of(one, "fresh") == State.CREATING
        one.service.faults.release_operations()
        await one.call.succeeded(operation)
        assert await state_of(one, "fresh") == State.READY


@over_each_transport
async def test_a_ready_node_has_the_fields_of_the_real_api(transport: str) -> None:
    async with pod(transport) as one:
        wanted = node(
            "v4-16",
            description="two hosts",
            labels={"team": "vision"},
            metadata={"startup-script": "true"},
            tags=["training"],
            network_config=tpu.NetworkConfig(network="pods", enable_external_ips=True),
            scheduling_config=tpu.SchedulingConfig(spot=True),
        )
        made = await one.create("full", wanted)
        assert made.name == named("full")
        assert made.id > 0
        assert (made.accelerator_type, made.runtime_version) == ("v4-16", "tpu-ubuntu2204-base")
        assert made.accelerator_config.type_ == tpu.AcceleratorConfig.Type.V4
        assert made.accelerator_config.topology == "2x2x2"
        assert made.api_version == tpu.Node.ApiVersion.V2
        assert made.health == Health.HEALTHY
        assert made.description == "two hosts"
        assert dict(made.labels) == {"team": "vision"}
        assert dict(made.metadata) == {"startup-script": "true"}
        assert list(made.tags) == ["training"]
        assert made.network_config.network == "projects/local/global/networks/pods"
        assert made.network_config.subnetwork == "projects/local/regions/local/subnetworks/default"
        assert made.scheduling_config.spot
        assert made.service_account.email == "local-compute@developer.gserviceaccount.com"
        assert made.cidr_block
        assert made.create_time.timestamp() > 0  # type: ignore[attr-defined]
        assert not made.symptoms


@over_each_transport
async def test_endpoints_are_the_workers_in_order_and_accept_connections(transport: str) -> None:
    async with pod(transport) as one:
        made = await one.create("pair", node("v4-16", network_config=tpu.NetworkConfig(enable_external_ips=True)))
        assert len(made.network_endpoints) == 2
        for endpoint in made.network_endpoints:
            assert endpoint.access_config.external_ip == endpoint.ip_address
            await connect_until_closed(endpoint.ip_address, endpoint.port)


async def test_a_node_without_external_addresses_has_none() -> None:
    async with pod("grpc_asyncio") as one:
        made = await one.create("inner", node("v2-8"))
        assert not made.network_endpoints[0].access_config.external_ip


@pytest.mark.parametrize(
    ("accelerator", "workers", "cores"),
    [("v2-8", 1, 8), ("v3-32", 4, 8), ("v4-8", 1, 4), ("v5litepod-16", 4, 4), ("v5p-16", 2, 4), ("v6e-8", 1, 8)],
)
async def test_a_real_type_gets_its_own_number_of_workers_and_devices(
    accelerator: str, workers: int, cores: int
) -> None:
    async with pod("grpc_asyncio") as one:
        made = await one.create("shaped", node(accelerator))
        assert len(made.network_endpoints) == workers
        assert one.hosts.cores["shaped"] == cores


async def test_a_node_can_be_requested_by_type_and_topology() -> None:
    async with pod("grpc_asyncio") as one:
        config = tpu.AcceleratorConfig(type_=tpu.AcceleratorConfig.Type.V5LITE_POD, topology="4x4")
        made = await one.create("square", tpu.Node(accelerator_config=config, runtime_version="v2-alpha-tpuv5-lite"))
        assert made.accelerator_type == "v5litepod-16"
        assert len(made.network_endpoints) == 4


@pytest.mark.parametrize(
    ("fields", "cores"),
    [({}, 3), ({"labels": {"cores-per-worker": "5"}}, 5), ({"metadata": {"cores-per-worker": "7"}}, 7)],
)
async def test_a_local_type_has_the_requested_cores_and_a_label_with_their_number(
    fields: dict[str, Any], cores: int
) -> None:
    async with pod("grpc_asyncio", cores=3) as one:
        made = await one.create("odd", node("local-2", **fields))
        assert len(made.network_endpoints) == 2
        assert one.hosts.cores["odd"] == cores
        assert made.labels["cores-per-worker"] == str(cores)


@over_each_transport
async def test_a_deleted_node_is_seen_deleting_and_then_gone_with_its_machines(transport: str) -> None:
    async with pod(transport) as one:
        await one.create("brief", node("v2-8"))
        one.service.faults.hold_operations()
        operation = await one.call("delete_node", name=named("brief"))
        assert await state_of(one, "brief") == State.DELETING
        one.service.faults.release_operations()
        await one.call.succeeded(operation)
        with pytest.raises(exceptions.NotFound):
            await one.call("get_node", name=named("brief"))
        assert one.hosts.running() == []


@over_each_transport
async def test_a_node_stops_and_starts_with_the_same_workers(transport: str) -> None:
    async with pod(transport) as one:
        await one.create("nap", node("v4-8"))
        before = await one.call("get_guest_attributes", name=named("nap"), query_path="hostkeys/")
        one.service.faults.hold_operations()
        operation = await one.call("stop_node", name=named("nap"))
        assert await state_of(one, "nap") == State.STOPPING
        one.service.faults.release_operations()
        await one.call.succeeded(operation)
        stopped = await one.call("get_node", name=named("nap"))
        assert (stopped.state, stopped.health) == (State.STOPPED, Health.HEALTH_UNSPECIFIED)
        assert len(stopped.network_endpoints) == 1
        assert one.hosts.running() == []
        one.service.faults.hold_operations()
        operation = await one.call("start_node", name=named("nap"))
        assert await state_of(one, "nap") == State.STARTING
        one.service.faults.release_operations()
        await one.call.succeeded(operation)
        assert await state_of(one, "nap") == State.READY
        assert await one.call("get_guest_attributes", name=named("nap"), query_path="hostkeys/") == before


@over_each_transport
async def test_a_node_of_several_workers_is_neither_stopped_nor_started(transport: str) -> None:
    refused = exceptions.FailedPrecondition if "grpc" in transport else exceptions.BadRequest
    async with pod(transport) as one:
        await one.create("crew", node("v4-16"))
        for verb in ("stop_node", "start_node"):
            with pytest.raises(refused, match="This operation is only available with single TPU nodes"):
                await one.call(verb, name=named("crew"))
        assert await state_of(one, "crew") == State.READY
        assert one.hosts.running() == ["crew"]


@over_each_transport
async def test_an_update_changes_the_masked_fields_and_no_other(transport: str) -> None:
    async with pod(transport) as one:
        await one.create("kept", node("v2-8", description="old", labels={"a": "1"}, tags=["t"], metadata={"m": "1"}))
        changed = tpu.Node(name=named("kept"), description="new", labels={"b": "2"}, tags=["u"], metadata={"n": "2"})
        for mask in (["labels"], ["metadata", "tags"]):
            await one.call.succeeded(await one.call("update_node", node=changed, update_mask={"paths": mask}))
        found = await one.call("get_node", name=named("kept"))
        assert found.description == "old"
        assert dict(found.labels) == {"b": "2"}
        assert dict(found.metadata) == {"n": "2"}
        assert list(found.tags) == ["u"]
        assert found.state == State.READY


@over_each_transport
async def test_external_addresses_can_be_switched_on_later(transport: str) -> None:
    async with pod(transport) as one:
        await one.create("outer", node("v2-8"))
        wanted = tpu.Node(name=named("outer"), network_config=tpu.NetworkConfig(enable_external_ips=True))
        mask = {"paths": ["network_config.enable_external_ips"]}
        await one.call.succeeded(await one.call("update_node", node=wanted, update_mask=mask))
        found = await one.call("get_node", name=named("outer"))
        assert found.network_endpoints[0].access_config.external_ip


@over_each_transport
async def test_a_node_with_a_dead_worker_is_preempted_and_names_the_worker(transport: str) -> None:
    async with pod(transport) as one:
        await one.create("lost", node("v5litepod-16"))
        one.hosts.kill("lost", 2)

        async def preempted() -> Any:
            found = await one.call("get_node", name=named("lost"))
            return found if found.state == State.PREEMPTED else None

        found = await until(preempted)
        assert found.health == Health.TIMEOUT
        assert "worker 2 of 4" in found.health_description
        with pytest.raises(exceptions.FailedPrecondition if "grpc" in transport else exceptions.BadRequest):
            await one.call("start_node", name=named("lost"))
        await one.call.succeeded(await one.call("delete_node", name=named("lost")))
        assert one.hosts.running() == []


async def test_a_node_whose_machines_cannot_start_is_removed_and_its_operation_has_the_reason() -> None:
    async with pod("grpc_asyncio") as one:
        one.hosts.broken = "no room for another machine"
        operation = await one.call("create_node", parent=PLACE, node_id="stillborn", node=node("v2-8"))
        finished = await one.call.done(operation)
        assert finished.error.code == 13
        assert "no room for another machine" in finished.error.message
        assert await one.call.all("list_nodes", parent=PLACE) == []


async def test_a_node_whose_machines_cannot_start_again_is_stopped_as_before() -> None:
    async with pod("grpc_asyncio") as one:
        await one.create("stuck", node("v2-8"))
        await one.call.succeeded(await one.call("stop_node", name=named("stuck")))
        one.hosts.broken = "no room"
        finished = await one.call.done(await one.call("start_node", name=named("stuck")))
        assert finished.error.code == 13
        assert await state_of(one, "stuck") == State.STOPPED
        one.hosts.broken = None
        await one.call.succeeded(await one.call("start_node", name=named("stuck")))
        assert await state_of(one, "stuck") == State.READY
