"""Tests of errors in the real API's words, over each transport."""

from __future__ import annotations

from typing import Any

import google.cloud.tpu_v2 as tpu
import pytest
from google.api_core import exceptions

from tests.localpod.api_clients import PLACE, TRANSPORTS, named, node, pod
from tests.localpod.faults import Faults

over_each_transport = pytest.mark.parametrize("transport", TRANSPORTS)

BadRequest = (exceptions.InvalidArgument, exceptions.BadRequest)
"""The REST transport knows the HTTP status only, which INVALID_ARGUMENT shares with other codes."""


def detail(error: Any, field: str) -> Any:
    """Return a field of the first detail, which is a message over gRPC and a JSON object over REST."""
    first = error.details[0]
    camel = "".join(part.title() if i else part for i, part in enumerate(field.split("_")))
    return first[camel] if isinstance(first, dict) else getattr(first, field)


@over_each_transport
@pytest.mark.parametrize("method", ["get_node", "delete_node", "start_node", "stop_node", "get_guest_attributes"])
async def test_a_missing_node_is_named_in_full_in_the_error(transport: str, method: str) -> None:
    async with pod(transport) as one:
        with pytest.raises(exceptions.NotFound) as caught:
            await one.call(method, name=named("ghost"))
        assert f"Resource '{named('ghost')}' was not found" in caught.value.message
        assert detail(caught.value, "resource_name") == named("ghost")


@over_each_transport
async def test_a_second_node_of_the_same_name_is_refused(transport: str) -> None:
    async with pod(transport) as one:
        await one.create("twin", node())
        with pytest.raises((exceptions.AlreadyExists, exceptions.Conflict)) as caught:
            await one.call("create_node", parent=PLACE, node_id="twin", node=node())
        assert f"Resource '{named('twin')}' already exists" in caught.value.message


@over_each_transport
@pytest.mark.parametrize(
    ("node_id", "wanted", "message"),
    [
        ("", node(), "not a valid id"),
        ("-dash", node(), "not a valid id"),
        ("..", node(), "not a valid id"),
        ("a b", node(), "not a valid id"),
        ("n" * 64, node(), "longer than 63"),
        ("ok", node("v9-8"), "the accelerator v9-8 was not found in zone local-a"),
        ("ok", node("v3-24"), "the accelerator v3-24 was not found in zone local-a"),
        ("ok", node("local-65"), "the accelerator local-65 was not found in zone local-a"),
        ("ok", tpu.Node(accelerator_type="v2-8", runtime_version="tpu-dos"), "the runtime version 'tpu-dos' was not"),
        ("ok", tpu.Node(accelerator_type="v2-8"), "the runtime version '' was not"),
        ("ok", node(description="d" * 513), "longer than 512"),
        ("ok", node("local-2", labels={"cores-per-worker": "many"}), "must be a number from 1 to 512"),
        (
            "ok",
            node("v2-8", accelerator_config=tpu.AcceleratorConfig(type_=4, topology="2x2")),
            "mutually exclusive",
        ),
    ],
)
async def test_an_invalid_node_is_refused(transport: str, node_id: str, wanted: tpu.Node, message: str) -> None:
    async with pod(transport) as one:
        with pytest.raises(BadRequest) as caught:
            await one.call("create_node", parent=PLACE, node_id=node_id, node=wanted)
        assert "Cloud TPU received a bad request." in caught.value.message
        assert message in caught.value.message
        assert "node" in str(detail(caught.value, "field_violations"))
        assert await one.call.all("list_nodes", parent=PLACE) == []


@over_each_transport
async def test_more_workers_than_the_quota_are_refused_at_once(transport: str) -> None:
    async with pod(transport, faults=Faults(operation_seconds=0.02, worker_quota=5)) as one:
        await one.create("four", node("v3-32"))
        with pytest.raises((exceptions.ResourceExhausted, exceptions.TooManyRequests)) as caught:
            await one.call("create_node", parent=PLACE, node_id="two", node=node("v4-16"))
        assert "Quota limit 'TPUV4PerProjectPerZoneForTPUAPI' has been exceeded. Limit: 5" in caught.value.message
        await one.create("one", node("v2-8"))


@over_each_transport
async def test_a_zone_without_capacity_fails_the_operation_and_leaves_no_node(transport: str) -> None:
    async with pod(transport, faults=Faults(operation_seconds=0.02, worker_capacity=1)) as one:
        finished = await one.call.done(
            await one.call("create_node", parent=PLACE, node_id="large", node=node("v4-16"))
        )
        assert finished.error.code == 8
        assert 'There is no more capacity in the zone "local-a"' in finished.error.message
        assert await one.call.all("list_nodes", parent=PLACE) == []


async def test_a_stopped_node_frees_its_capacity_and_cannot_start_without_it() -> None:
    async with pod("grpc_asyncio", faults=Faults(operation_seconds=0.02, worker_capacity=1)) as one:
        await one.create("first", node("v2-8"))
        await one.call.succeeded(await one.call("stop_node", name=named("first")))
        await one.create("second", node("v2-8"))
        finished = await one.call.done(await one.call("start_node", name=named("first")))
        assert "no more capacity" in finished.error.message
        assert (await one.call("get_node", name=named("first"))).state == tpu.Node.State.STOPPED


@over_each_transport
async def test_a_running_node_cannot_be_started_nor_a_stopped_one_stopped(transport: str) -> None:
    refused = exceptions.FailedPrecondition if "grpc" in transport else exceptions.BadRequest
    async with pod(transport) as one:
        await one.create("up", node())
        with pytest.raises(refused, match="is READY; it must be STOPPED"):
            await one.call("start_node", name=named("up"))
        await one.call.succeeded(await one.call("stop_node", name=named("up")))
        with pytest.raises(refused, match="is STOPPED; it must be READY"):
            await one.call("stop_node", name=named("up"))
        with pytest.raises(refused, match="has no guest attributes"):
            await one.call("get_guest_attributes", name=named("up"))


@over_each_transport
async def test_a_second_operation_on_a_node_is_refused_while_one_runs(transport: str) -> None:
    async with pod(transport) as one:
        one.service.faults.hold_operations()
        operation = await one.call("create_node", parent=PLACE, node_id="busy", node=node())
        with pytest.raises((exceptions.Aborted, exceptions.Conflict), match="unable to queue the operation"):
            await one.call("delete_node", name=named("busy"))
        one.service.faults.release_operations()
        await one.call.succeeded(operation)


@over_each_transport
async def test_another_project_is_forbidden_with_the_missing_permission(transport: str) -> None:
    async with pod(transport) as one:
        elsewhere = "projects/elsewhere/locations/local-a"
        with pytest.raises((exceptions.PermissionDenied, exceptions.Forbidden)) as caught:
            await one.call.all("list_nodes", parent=elsewhere)
        assert f"Permission 'tpu.nodes.list' denied on '{elsewhere}'" in caught.value.message
        with pytest.raises((exceptions.PermissionDenied, exceptions.Forbidden), match=r"tpu\.nodes\.create"):
            await one.call("create_node", parent=elsewhere, node_id="x", node=node())


@over_each_transport
async def test_a_zone_that_does_not_exist_is_named(transport: str) -> None:
    async with pod(transport) as one:
        with pytest.raises((exceptions.PermissionDenied, exceptions.Forbidden)) as caught:
            await one.call.all("list_nodes", parent="projects/local/locations/moon-a")
        assert "Location moon-a is not found or access is unauthorized." in caught.value.message


@over_each_transport
@pytest.mark.parametrize("paths", [["state"], ["labels", "accelerator_type"], []])
async def test_an_update_of_a_fixed_field_is_refused(transport: str, paths: list[str]) -> None:
    async with pod(transport) as one:
        await one.create("fixed", node(labels={"a": "1"}))
        with pytest.raises(BadRequest):
            await one.call("update_node", node=tpu.Node(name=named("fixed")), update_mask={"paths": paths})
        assert dict((await one.call("get_node", name=named("fixed"))).labels) == {"a": "1"}


@pytest.mark.parametrize("name", ["local", "projects/local", f"{PLACE}/queuedResources/x", f"{PLACE}/nodes/x/y"])
async def test_a_malformed_name_is_refused(name: str) -> None:
    async with pod("grpc_asyncio") as one:
        with pytest.raises(exceptions.InvalidArgument, match="is malformed"):
            await one.call("get_node", name=name)
