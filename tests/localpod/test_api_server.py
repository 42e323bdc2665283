"""Tests of the service as the pod runs it: on loopback only, and gone when it is closed."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys

import google.cloud.tpu_v2 as tpu
import pytest

from tests.localpod.api_clients import PLACE, connect_until_closed, connected, named, node, serving
from tui.localpod.api.rpc_errors import ApiError

pytestmark = pytest.mark.timing


@pytest.mark.parametrize("address", ["127.0.0.2", "::1"])
async def test_the_service_listens_on_127_0_0_1_only(address: str) -> None:
    async with serving() as (service, _):
        for port in (service.grpc_port, service.rest_port):
            await connect_until_closed("127.0.0.1", port)
            with pytest.raises(OSError, match=r"refused|assign|unreachable|supported"):
                socket.create_connection((address, port), timeout=5)


async def test_a_closed_service_listens_no_more() -> None:
    async with serving() as (service, _):
        grpc_port, rest_port = service.grpc_port, service.rest_port
    for port in (grpc_port, rest_port):
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port), timeout=5)


async def test_the_first_slices_are_ready_before_any_client_connects() -> None:
    async with serving() as (service, hosts):
        service.faults.hold_operations()
        made = await service.add_slice("local", 4, 8)
        assert (made.state, made.accelerator_type) == (tpu.Node.State.READY, "v3-32")
        odd = await service.add_slice("odd", 4, 2)
        assert (odd.accelerator_type, odd.labels["cores-per-worker"]) == ("local-4", "2")
        assert hosts.cores == {"local": 8, "odd": 2}
        async with connected(service, "grpc_asyncio") as call:
            assert (await call("get_node", name=named("local"))).name == made.name


async def test_an_invalid_first_slice_is_refused_like_a_clients_request() -> None:
    async with serving() as (service, _):
        await service.add_slice("local", 1, 1)
        with pytest.raises(ApiError, match="already exists"):
            await service.add_slice("local", 1, 1)
        with pytest.raises(ApiError, match="was not found"):
            await service.add_slice("huge", 65, 1)


async def test_grpc_and_rest_show_one_state() -> None:
    async with (
        serving() as (service, _),
        connected(service, "grpc_asyncio") as fast,
        connected(service, "rest") as plain,
    ):
        await fast.succeeded(await fast("create_node", parent=PLACE, node_id="shared", node=node()))
        seen = await plain("get_node", name=named("shared"))
        assert seen == await fast("get_node", name=named("shared"))
        await plain.succeeded(await plain("delete_node", name=named("shared")))
        assert await fast.all("list_nodes", parent=PLACE) == []


async def test_closing_ends_operations_and_leaves_no_task() -> None:
    before = asyncio.all_tasks()
    async with serving() as (service, hosts):
        service.faults.hold_operations()
        async with connected(service, "grpc_asyncio") as call:
            await call("create_node", parent=PLACE, node_id="half", node=node())
    left = [task.get_coro().__qualname__ for task in asyncio.all_tasks() - before]
    assert not [name for name in left if name.startswith("Operations.")]
    assert hosts.running() == []


def test_the_modules_that_the_rest_of_the_pod_uses_import_no_google_library() -> None:
    code = (
        "import sys, tui.localpod.api.host_protocol, tui.localpod.api.resources.accelerator_types;"
        "print(sorted(name for name in sys.modules if name.split('.')[0] in ('google', 'grpc', 'aiohttp')))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
