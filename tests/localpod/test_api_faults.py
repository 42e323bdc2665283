"""Tests of faults that a test can request: latency, an unavailable zone, an expired token."""

from __future__ import annotations

import asyncio
import uuid

import aiohttp
import google.cloud.tpu_v2 as tpu
import pytest
from google.api_core import exceptions

from tests.localpod import refusals
from tests.localpod.api_clients import PLACE, TRANSPORTS, named, node, pod
from tests.localpod.faults import FOREVER, Faults

pytestmark = pytest.mark.timing

over_each_transport = pytest.mark.parametrize("transport", TRANSPORTS)
over_grpc = pytest.mark.parametrize("transport", ["grpc", "grpc_asyncio"])
"""A REST session answers 401 by refreshing its token, which anonymous credentials cannot do."""


@over_each_transport
async def test_a_zone_is_unavailable_as_often_as_requested(transport: str) -> None:
    async with pod(transport) as one:
        one.service.faults.unavailable["local-a"] = 2
        for _ in range(2):
            with pytest.raises(exceptions.ServiceUnavailable, match="currently unavailable"):
                await one.call("list_nodes", parent=PLACE)
        assert list((await one.call("list_nodes", parent=PLACE)).nodes) == []


async def test_a_zone_can_be_unavailable_until_the_fault_is_removed() -> None:
    async with pod("grpc_asyncio") as one:
        one.service.faults.unavailable["local-a"] = FOREVER
        for _ in range(3):
            with pytest.raises(exceptions.ServiceUnavailable):
                await one.call("get_node", name=named("x"))
        del one.service.faults.unavailable["local-a"]
        assert list((await one.call("list_nodes", parent=PLACE)).nodes) == []


@over_grpc
async def test_an_expired_token_is_reported_as_expired(transport: str) -> None:
    async with pod(transport, faults=Faults(expired_token=1)) as one:
        with pytest.raises(exceptions.Unauthenticated) as caught:
            await one.call("list_nodes", parent=PLACE)
        assert caught.value.reason == "ACCESS_TOKEN_EXPIRED"
        assert caught.value.domain == "googleapis.com"
        assert list((await one.call("list_nodes", parent=PLACE)).nodes) == []


async def test_an_expired_token_over_http_is_a_401_that_asks_for_a_bearer_token() -> None:
    async with pod("rest", faults=Faults(expired_token=FOREVER)) as one, aiohttp.ClientSession() as session:
        url = f"http://127.0.0.1:{one.service.rest_port}/v2/{PLACE}/nodes"
        for _ in range(2):
            async with session.get(url, headers={"Authorization": f"Bearer {one.service.token}"}) as answer:
                assert answer.status == 401
                assert answer.headers["WWW-Authenticate"].startswith("Bearer ")
                error = (await answer.json())["error"]
        assert error["status"] == "UNAUTHENTICATED"
        assert error["details"][0]["reason"] == "ACCESS_TOKEN_EXPIRED"


async def test_latency_delays_every_answer_until_a_client_gives_up() -> None:
    async with pod("grpc_asyncio") as one:
        one.service.faults.latency_seconds = 60.0
        request = tpu.ListNodesRequest(parent=PLACE)
        with pytest.raises(exceptions.DeadlineExceeded):
            await one.call.client.list_nodes(request=request, timeout=0.1)


async def test_a_slow_answer_does_not_delay_the_machines_or_other_calls() -> None:
    async with pod("grpc_asyncio") as one:
        one.service.faults.latency_seconds = 60.0
        slow = asyncio.ensure_future(one.call("list_nodes", parent=PLACE))
        await asyncio.sleep(0)
        one.service.faults.latency_seconds = 0.0
        made = await one.create("meanwhile", node())
        assert made.state == tpu.Node.State.READY
        slow.cancel()
        await asyncio.gather(slow, return_exceptions=True)


@over_each_transport
async def test_a_rate_limit_names_the_time_to_wait(transport: str) -> None:
    async with pod(transport, faults=Faults(rate_limited=1, retry_after_seconds=7)) as one:
        with pytest.raises((exceptions.ResourceExhausted, exceptions.TooManyRequests)) as caught:
            await one.call("list_nodes", parent=PLACE)
        assert "Requests per minute" in caught.value.message
        assert list((await one.call("list_nodes", parent=PLACE)).nodes) == []


@over_each_transport
async def test_a_lost_answer_is_an_outage_after_the_operation_has_begun(transport: str) -> None:
    async with pod(transport) as one:
        one.service.faults.lost_answers["CreateNode"] = 1
        with pytest.raises(exceptions.ServiceUnavailable):
            await one.call("create_node", parent=PLACE, node_id="lost", node=node())
        assert [item.name for item in await one.call.all("list_nodes", parent=PLACE)] == [named("lost")]


@over_each_transport
async def test_a_refusal_is_returned_once_and_before_the_request_has_an_effect(transport: str) -> None:
    async with pod(transport) as one:
        one.service.faults.refusals["CreateNode"] = [refusals.service_disabled("local")]
        with pytest.raises((exceptions.PermissionDenied, exceptions.Forbidden), match="it is disabled"):
            await one.call("create_node", parent=PLACE, node_id="later", node=node())
        await one.create("later", node())


@over_each_transport
async def test_an_operation_that_fails_leaves_no_node(transport: str) -> None:
    async with pod(transport, faults=Faults(operation_seconds=0.02)) as one:
        one.service.faults.operation_failures["create"] = [refusals.insufficient_reservation()]
        finished = await one.call.done(await one.call("create_node", parent=PLACE, node_id="one", node=node()))
        assert (finished.error.code, "Insufficient reserved capacity." in finished.error.message) == (9, True)
        assert await one.call.all("list_nodes", parent=PLACE) == []


@over_each_transport
async def test_a_zone_lists_and_creates_only_the_types_that_it_offers(transport: str) -> None:
    async with pod(transport, faults=Faults(offered_types={"local-a": frozenset({"v2-8"})})) as one:
        assert [item.type_ for item in await one.call.all("list_accelerator_types", parent=PLACE)] == ["v2-8"]
        refused = (exceptions.InvalidArgument, exceptions.BadRequest)
        with pytest.raises(refused, match="the accelerator v4-8 was not found in zone local-a"):
            await one.call("create_node", parent=PLACE, node_id="x", node=node("v4-8"))


@over_each_transport
async def test_a_repeated_request_id_begins_no_second_operation(transport: str) -> None:
    spec = tpu.QueuedResource.Tpu.NodeSpec(parent=PLACE, node_id="granted", node=node())
    wish = tpu.QueuedResource(tpu=tpu.QueuedResource.Tpu(node_spec=[spec]))
    create = {
        "parent": PLACE,
        "queued_resource_id": "wish",
        "queued_resource": wish,
        "request_id": str(uuid.uuid4()),
    }
    async with pod(transport) as one:
        first, again = [await one.call("create_queued_resource", **create) for _ in range(2)]
        assert first.operation.name == again.operation.name
        await one.call.succeeded(first)
        delete = {"name": f"{PLACE}/queuedResources/wish", "force": True, "request_id": str(uuid.uuid4())}
        first, again = [await one.call("delete_queued_resource", **delete) for _ in range(2)]
        assert first.operation.name == again.operation.name
        await one.call.succeeded(again)
