"""Trials of a scenario by tpu-tui, by gcloud and by Google's client, each on a service of its own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from google.protobuf.json_format import MessageToDict

from tests.cli.commands import Answer, Shell
from tests.localpod.api_clients import PLACE, Caller, connected, serving
from tests.localpod.api_hosts import SocketHosts
from tests.localpod.faults import FaultyTpuService
from tests.localpod.gcloud import Gcloud
from tui.settings import save_profile

BY_SERVICE = ("createTime", "id", "networkEndpoints")
"""Fields that differ from one creation to the next."""


@dataclass
class Trial:
    """A service of its own, and the three programs that reach it."""

    service: FaultyTpuService
    hosts: SocketHosts
    shell: Shell
    gcloud: Gcloud
    client: Caller

    async def tpu_tui(self, *words: str) -> Answer:
        return await asyncio.to_thread(self.shell.run, "--profile", "lab", *words)

    async def did(self, *words: str) -> Any:
        """Run a command of tpu-tui that must succeed, and return its document."""
        answer = await self.tpu_tui(*words, "--json")
        assert answer.code == 0, answer.errors
        return answer.document

    async def result(self) -> list[dict[str, Any]]:
        """Return every node and queued resource, without the service's own fields and the label of tpu-tui."""
        nodes = await self.client.all("list_nodes", parent=PLACE)
        queued = await self.client.all("list_queued_resources", parent=PLACE)
        return [plain(MessageToDict(type(one).pb(one))) for one in (*nodes, *queued)]


def plain(document: Any) -> Any:
    if isinstance(document, list):
        return [plain(one) for one in document]
    if not isinstance(document, dict):
        return document
    if document.get("network") == "default":  # gcloud names it in a queued resource
        document = {key: value for key, value in document.items() if key != "network"}
    fields = {key: plain(value) for key, value in document.items() if key not in (*BY_SERVICE, "created-by")}
    return {key: value for key, value in fields.items() if value not in ({}, [], "")}


@asynccontextmanager
async def trial(tmp_path: Path) -> AsyncIterator[Trial]:
    home = tmp_path / f"trial-{len(list(tmp_path.iterdir()))}"
    home.mkdir()
    async with serving() as (service, hosts), connected(service, "grpc_asyncio") as client:
        shell = Shell(home)
        profile = {"project": "local", "zones": ["local-a"], "token": service.token}
        save_profile(home, "lab", {**profile, "endpoints": {"tpu": f"127.0.0.1:{service.grpc_port}"}})
        yield Trial(service, hosts, shell, Gcloud(home, service.rest_port, service.token), client)


Drive = Callable[[Trial], Awaitable[Any]]


async def same_results(tmp_path: Path, *drives: Drive, prepare: Drive | None = None) -> list[dict[str, Any]]:
    """Let each program act on a service of its own; return the result, which must be the same for all."""
    results = []
    for drive in drives:
        async with trial(tmp_path) as one:
            if prepare is not None:
                await prepare(one)
            await drive(one)
            results.append(await one.result())
    assert results[0] == results[1] == results[2]
    return results[0]


async def is_done(one: Trial, method: str, **fields: Any) -> None:
    await one.client.succeeded(await one.client(method, **fields))
