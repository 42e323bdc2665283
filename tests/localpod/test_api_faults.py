"""Faults that a test can ask for: latency, a zone that is away, an expired token."""

from __future__ import annotations

import asyncio

import aiohttp
import google.cloud.tpu_v2 as tpu
import pytest
from google.api_core import exceptions

from tests.localpod.api_clients import PLACE, TRANSPORTS, named, node, pod
from tui.localpod.api.faults import FOREVER, ServiceFaults

pytestmark = pytest.mark.timing

over_each_transport = pytest.mark.parametrize("transport", TRANSPORTS)
over_grpc = pytest.mark.parametrize("transport", ["grpc", "grpc_asyncio"])
"""A REST session answers 401 by refreshing its token, which anonymous credentials cannot."""


@over_each_transport
async def test_a_zone_is_unavailable_as_often_as_was_asked(transport: str) -> None:
    async with pod(transport) as one:
        one.service.faults.unavailable["local-a"] = 2
        for _ in range(2):
            with pytest.raises(exceptions.ServiceUnavailable, match="currently unavailable"):
                await one.call("list_nodes", parent=PLACE)
        assert list((await one.call("list_nodes", parent=PLACE)).nodes) == []


async def test_a_zone_can_be_away_until_it_is_told_to_come_back() -> None:
    async with pod("grpc_asyncio") as one:
        one.service.faults.unavailable["local-a"] = FOREVER
        for _ in range(3):
            with pytest.raises(exceptions.ServiceUnavailable):
                await one.call("get_node", name=named("x"))
        del one.service.faults.unavailable["local-a"]
        assert list((await one.call("list_nodes", parent=PLACE)).nodes) == []


@over_grpc
async def test_an_expired_token_is_told_as_such(transport: str) -> None:
    async with pod(transport, faults=ServiceFaults(expired_token=1)) as one:
        with pytest.raises(exceptions.Unauthenticated) as caught:
            await one.call("list_nodes", parent=PLACE)
        assert caught.value.reason == "ACCESS_TOKEN_EXPIRED"
        assert caught.value.domain == "googleapis.com"
        assert list((await one.call("list_nodes", parent=PLACE)).nodes) == []


async def test_an_expired_token_over_http_is_a_401_that_asks_for_a_bearer() -> None:
    async with pod("rest", faults=ServiceFaults(expired_token=FOREVER)) as one, aiohttp.ClientSession() as session:
        url = f"http://127.0.0.1:{one.service.rest_port}/v2/{PLACE}/nodes"
        for _ in range(2):
            async with session.get(url, headers={"Authorization": f"Bearer {one.service.token}"}) as answer:
                assert answer.status == 401
                assert answer.headers["WWW-Authenticate"].startswith("Bearer ")
                error = (await answer.json())["error"]
        assert error["status"] == "UNAUTHENTICATED"
        assert error["details"][0]["reason"] == "ACCESS_TOKEN_EXPIRED"


async def test_latency_holds_every_answer_back_until_a_client_gives_up() -> None:
    async with pod("grpc_asyncio") as one:
        one.service.faults.latency_seconds = 60.0
        request = tpu.ListNodesRequest(parent=PLACE)
        with pytest.raises(exceptions.DeadlineExceeded):
            await one.call.client.list_nodes(request=request, timeout=0.1)


async def test_a_slow_answer_does_not_hold_up_the_machines_or_other_calls() -> None:
    async with pod("grpc_asyncio") as one:
        one.service.faults.latency_seconds = 60.0
        slow = asyncio.ensure_future(one.call("list_nodes", parent=PLACE))
        await asyncio.sleep(0)
        one.service.faults.latency_seconds = 0.0
        made = await one.create("meanwhile", node())
        assert made.state == tpu.Node.State.READY
        slow.cancel()
        await asyncio.gather(slow, return_exceptions=True)
