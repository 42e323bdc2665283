"""The three real clients of google-cloud-tpu behind one awaitable interface."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import google.cloud.tpu_v1 as v1
import google.cloud.tpu_v2 as tpu
import grpc
import grpc.aio
from google.cloud.tpu_v1.services.tpu import transports as v1_transports
from google.cloud.tpu_v2.services.tpu import transports as v2_transports
from google.longrunning import operations_pb2
from google.oauth2.credentials import Credentials

from tests.localpod.api_hosts import SocketHosts
from tests.localpod.faults import Faults, FaultyTpuService

PLACE = "projects/local/locations/local-a"
TRANSPORTS = ("grpc", "grpc_asyncio", "rest")
DEADLINE_SECONDS = 20.0
POLL_SECONDS = 0.02

T = TypeVar("T")


async def connect_until_closed(address: str, port: int) -> None:
    """Connect, and wait until the server has closed the connection; one that it has not accepted yet may leak."""
    reader, writer = await asyncio.open_connection(address, port)
    writer.write_eof()
    await reader.read()
    writer.close()
    await writer.wait_closed()


class Caller:
    """A caller of a client's methods by name: the asyncio client's directly, the synchronous ones' on a thread."""

    def __init__(self, client: Any) -> None:
        self.client = client

    async def __call__(self, method: str, **fields: Any) -> Any:
        function = getattr(self.client, method)
        if inspect.iscoroutinefunction(getattr(type(self.client), method)):
            return await function(request=fields)
        return await asyncio.to_thread(function, request=fields)

    async def all(self, method: str, **fields: Any) -> list[Any]:
        """Return every item of a list, over all pages, with the client's own pager."""
        pager = await self(method, **fields)
        if hasattr(pager, "__aiter__"):
            return [item async for item in pager]
        return await asyncio.to_thread(list, pager)

    async def done(self, operation: Any) -> Any:
        """Wait until the operation has ended, polling with the client's own method, and return its message."""
        name = operation.operation.name

        async def ended() -> Any:
            current = await self("get_operation", name=name)
            return current if current.done else None

        return await until(ended)

    async def succeeded(self, operation: Any) -> Any:
        finished = await self.done(operation)
        assert finished.WhichOneof("result") == "response", finished.error
        return finished


def bearer(token: str) -> grpc.ChannelCredentials:
    """Return channel credentials of the pod's owner."""
    channel = grpc.local_channel_credentials(grpc.LocalConnectionType.LOCAL_TCP)
    return grpc.composite_channel_credentials(channel, grpc.access_token_call_credentials(token))


@asynccontextmanager
async def connected(
    service: FaultyTpuService, transport: str, token: str | None = None, version: str = "v2"
) -> AsyncIterator[Caller]:
    """Connect a client over that transport, with the service's token or another one, as an endpoint override does."""
    token, place = token or service.token, f"127.0.0.1:{service.grpc_port}"
    transports, client_types = (v1_transports, v1) if version == "v1" else (v2_transports, tpu)
    if transport == "grpc_asyncio":
        aio = grpc.aio.secure_channel(place, bearer(token))
        yield Caller(client_types.TpuAsyncClient(transport=transports.TpuGrpcAsyncIOTransport(channel=aio)))
        await aio.close()  # type: ignore[call-arg]
    elif transport == "grpc":
        with grpc.secure_channel(place, bearer(token)) as channel:
            yield Caller(client_types.TpuClient(transport=transports.TpuGrpcTransport(channel=channel)))
    else:
        rest = v2_transports.TpuRestTransport(
            host=f"127.0.0.1:{service.rest_port}", url_scheme="http", credentials=Credentials(token)
        )
        with tpu.TpuClient(transport=rest) as client:
            yield Caller(client)


@dataclass
class Pod:
    """A service, the machines behind it, and one real client."""

    service: FaultyTpuService
    hosts: SocketHosts
    call: Caller

    async def create(self, node_id: str, wanted: tpu.Node) -> tpu.Node:
        """Create a node and wait until it is READY."""
        await self.call.succeeded(await self.call("create_node", parent=PLACE, node_id=node_id, node=wanted))
        return await self.call("get_node", name=named(node_id))


@asynccontextmanager
async def pod(transport: str, **options: Any) -> AsyncIterator[Pod]:
    """Run a service with one client connected to it."""
    async with serving(**options) as (service, hosts), connected(service, transport) as call:
        yield Pod(service, hosts, call)


@asynccontextmanager
async def serving(**options: Any) -> AsyncIterator[tuple[FaultyTpuService, SocketHosts]]:
    """Run a service over socket hosts, with short operations."""
    hosts = SocketHosts()
    options.setdefault("faults", Faults(operation_seconds=0.02))
    service = FaultyTpuService(hosts, **options)
    await service.start()
    try:
        yield service, hosts
    finally:
        await service.close()
        await hosts.close()


async def until(condition: Callable[[], Awaitable[T | None]]) -> T:
    """Return the condition's first true answer; fail after a deadline."""
    end = time.monotonic() + DEADLINE_SECONDS
    while time.monotonic() < end:
        answer = await condition()
        if answer:
            return answer
        await asyncio.sleep(POLL_SECONDS)
    raise AssertionError(f"no condition held within {DEADLINE_SECONDS} s")


def named(node_id: str) -> str:
    return f"{PLACE}/nodes/{node_id}"


def node(accelerator: str = "v2-8", **fields: Any) -> tpu.Node:
    return tpu.Node(accelerator_type=accelerator, runtime_version="tpu-ubuntu2204-base", **fields)


def error_of(operation: operations_pb2.Operation) -> tuple[int, str]:
    assert operation.WhichOneof("result") == "error"
    return operation.error.code, operation.error.message
