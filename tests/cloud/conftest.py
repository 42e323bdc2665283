from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from google.cloud import tpu_v2

from tests.localpod.api_clients import named, serving
from tests.localpod.api_hosts import SocketHosts
from tests.localpod.faults import FaultyTpuService
from tui.cloud.tpu.tpu_api import TpuApi
from tui.errors import TpuTuiError
from tui.pod.creation.slice_request import CreationStep, SliceRequest
from tui.settings import Settings


@dataclass
class Cloud:
    """A Cloud TPU API service with machines behind it, and tpu-tui's client of it over gRPC."""

    service: FaultyTpuService
    hosts: SocketHosts
    api: TpuApi
    connect: Callable[..., TpuApi]

    async def make(
        self, name: str, kind: str = "v2-8", zone: str = "local-a", *, dry_run: bool = False, **options: Any
    ) -> list[str]:
        """Create a slice, wait for it, and return the lines of its progress."""
        request = a_request(name, kind, zone, **options)
        return [step.text async for step in self.api.create(request, dry_run=dry_run)]


def a_request(name: str = "pod", kind: str = "v2-8", zone: str = "local-a", **options: Any) -> SliceRequest:
    values = {"accelerator_type": kind, "runtime_version": "tpu-ubuntu2204-base", **options}
    return SliceRequest(name, zone, **values)


@pytest.fixture
async def cloud(tmp_path: Path) -> AsyncIterator[Cloud]:
    async with AsyncExitStack() as stack:
        service, hosts = await stack.enter_async_context(serving(more_zones=("local-b", "faraway-c")))

        def connect(patience: float = 5.0, **settings: Any) -> TpuApi:
            endpoints = {"tpu": f"127.0.0.1:{service.grpc_port}"}
            place = {"project": "local", "zones": ("local-a",), "endpoints": endpoints, "token": service.token}
            values = {**place, **settings}
            api = TpuApi(Settings(home=tmp_path, **values), patience=patience)
            stack.push_async_callback(api.close)
            return api

        yield Cloud(service, hosts, connect(), connect)


async def created(cloud: Cloud, *, dry_run: bool = False, waits: bool = True, **fields: Any) -> list[CreationStep]:
    return [step async for step in cloud.api.create(a_request(**fields), dry_run=dry_run, waits=waits)]


async def refused(cloud: Cloud, **fields: Any) -> TpuTuiError:
    with pytest.raises(TpuTuiError) as caught:
        await created(cloud, **fields)
    return caught.value


async def node(cloud: Cloud, name: str = "pod") -> tpu_v2.Node:
    client = await cloud.api._api.open()
    return await client.get_node(name=named(name))


def creations(cloud: Cloud) -> list[str]:
    """Return the targets of the creations that the service began."""
    metadata = [operation.metadata for operation in cloud.service._operations._entries.values()]
    return [str(one.target).rpartition("/")[2] for one in metadata if one.verb == "create"]
