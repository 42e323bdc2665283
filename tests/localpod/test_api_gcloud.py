"""Tests of the real gcloud against the service, if installed: 18 calls; `make gcloud` runs the whole matrix."""

from __future__ import annotations

import shlex
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from tests.localpod.api_clients import serving, until
from tests.localpod.api_hosts import SocketHosts
from tests.localpod.faults import FaultyComputeService, FaultyTpuService
from tests.localpod.gcloud import QUEUED, VM, Gcloud, with_gcloud
from tui.cloud.compute.resource_listing import ComputeResources
from tui.cloud.tpu.tpu_api import TpuApi
from tui.errors import UsageError
from tui.pod.creation.gcloud_commands import create_command_of_gcloud
from tui.pod.creation.slice_request import DataDisk, QueueRequest, SliceRequest
from tui.settings import Settings

pytestmark = with_gcloud


@dataclass
class Run:
    """A service of its own, and gcloud to reach it."""

    service: FaultyTpuService
    hosts: SocketHosts
    gcloud: Gcloud

    async def __call__(self, *words: str) -> tuple[int, str, str]:
        return await self.gcloud(*words)

    async def json(self, *words: str) -> Any:
        return await self.gcloud.json(*words)

    def settings(self, home: Path) -> Settings:
        """Return the settings of tpu-tui for the service."""
        endpoints = {"tpu": f"127.0.0.1:{self.service.grpc_port}"}
        return Settings(home=home, project="local", zones=("local-a",), endpoints=endpoints, token=self.service.token)


@asynccontextmanager
async def gcloud(config: Path) -> AsyncIterator[Run]:
    async with serving() as (service, hosts):
        yield Run(service, hosts, Gcloud(config, service.rest_port, service.token))


NEW = ("--accelerator-type=v2-8", "--version=tpu-ubuntu2204-base")


async def test_gcloud_lists_creates_describes_changes_and_deletes_a_slice(tmp_path: Path) -> None:
    async with gcloud(tmp_path) as run:
        await run.service.add_slice("local", 4, 8)
        assert [row["acceleratorType"] for row in await run.json(*VM, "list")] == ["v3-32"]
        await run.json(*VM, "create", "made", *NEW, "--labels=team=vision")
        await run.json(*VM, "update", "made", "--update-labels=stage=test")
        made = await run.json(*VM, "describe", "made")
        assert (made["state"], made["labels"]) == ("READY", {"team": "vision", "stage": "test"})
        assert made["networkEndpoints"][0]["accessConfig"]["externalIp"]
        await run.json(*VM, "delete", "made")
        assert run.hosts.running() == ["local"]
        code, _, errors = await run(*VM, "describe", "made")
        assert code == 1
        assert "NOT_FOUND: Resource 'projects/local/locations/local-a/nodes/made' was not found" in errors


async def test_gcloud_reads_the_host_keys_of_every_worker(tmp_path: Path) -> None:
    async with gcloud(tmp_path) as run:
        await run.service.add_slice("local", 2, 4)
        rows = await run.json(*VM, "get-guest-attributes", "local", "--query-path=hostkeys/")
        assert [(row["worker_id"], row["key"]) for row in rows] == [(0, "ssh-ed25519"), (1, "ssh-ed25519")]


async def test_gcloud_queues_several_slices_and_deletes_them_by_force(tmp_path: Path) -> None:
    async with gcloud(tmp_path) as run:
        wanted = ("--node-count=2", "--accelerator-type=v2-8", "--runtime-version=tpu-ubuntu2204-base")
        await run.json(*QUEUED, "create", "pair", *wanted)
        assert [row["name"].rpartition("/")[2] for row in await run.json(*QUEUED, "list")] == ["pair"]
        await run.json(*QUEUED, "delete", "pair", "--force")
        api = TpuApi(run.settings(tmp_path))
        assert (await api.queued_requests()).requests == ()
        assert run.hosts.running() == []
        await api.close()


async def test_gcloud_reports_an_unknown_zone_and_lists_the_known_ones(tmp_path: Path) -> None:
    async with gcloud(tmp_path) as run:
        code, _, errors = await run(*VM, "list", "--zone=moon-a")
        assert code == 1
        assert "PERMISSION_DENIED: Location moon-a is not found or access is unauthorized." in errors
        assert [row["locationId"] for row in await run.json("compute", "tpus", "locations", "list")] == ["local-a"]


def assert_same_fields(one: dict[str, Any], other: dict[str, Any]) -> None:
    """Assert that two nodes are equal in all fields that a request decides; gcloud also sends empty messages."""
    by_service = ("name", "createTime", "id", "networkEndpoints", "queuedResource")
    first, second = (
        {key: value for key, value in row.items() if value and key not in by_service} for row in (one, other)
    )
    assert first == second


@pytest.mark.parametrize("queue", [None, QueueRequest(valid_for_s=3600)], ids=["at once", "queued"])
async def test_the_gcloud_command_of_a_request_makes_the_same_slice(
    tmp_path: Path, queue: QueueRequest | None
) -> None:
    script = tmp_path / "start.sh"
    script.write_text("#!/bin/sh\necho 1, 2\n")
    request = SliceRequest(
        "pod",
        "local-a",
        generation="v4",
        topology="2x2x2",
        runtime_version="tpu-vm-v4-base",
        description="two words",
        network="net",
        subnetwork="sub",
        internal_ips=True,
        service_account="a@b.c",
        scopes=("https://www.googleapis.com/auth/cloud-platform",),
        tags=("web", "lab"),
        labels={"team": "vision"},
        metadata={"list": "a,b", "startup-script": script.read_text()},
        metadata_files={"startup-script": str(script)},
        data_disks=(DataDisk("projects/local/zones/local-a/disks/data", "read-only"),),
        spot=True,
        queue=queue,
    )
    async with gcloud(tmp_path) as run:
        api = TpuApi(run.settings(tmp_path))
        _ = [step async for step in api.create(request)]
        own_node = await api.describe(await api.get("pod", "local-a"))
        place = ("local-a", "pod")
        removal = api.lifecycle.delete(*place) if queue is None else api.queue.delete(*place, force=True)
        _ = [line async for line in removal]
        await run.json(*shlex.split(create_command_of_gcloud(request, "local"))[1:])

        async def ready_node() -> dict[str, Any] | None:
            slices = (await api.slices()).slices
            return await api.describe(slices[0]) if [one.state for one in slices] == ["READY"] else None

        assert_same_fields(own_node, await until(ready_node))
        await api.close()


async def test_gcloud_and_tpu_tui_agree_on_disks_and_images_that_cost_money(tmp_path: Path) -> None:
    compute = FaultyComputeService(SocketHosts(), zone="local-a")
    compute.faults.operation_seconds = 0.02
    source = "projects/local/zones/local-a/disks/data"
    async with serving(rest_routes=compute.routes(), store=compute.store) as (service, _):
        run = Gcloud(tmp_path, service.rest_port, service.token)
        endpoints = {"compute": f"http://127.0.0.1:{service.rest_port}", "tpu": f"127.0.0.1:{service.grpc_port}"}
        settings = Settings(home=tmp_path, project="local", endpoints=endpoints, token=service.token)
        resource_api = ComputeResources(settings)

        await run.json("compute", "disks", "create", "data", "--size=20GB", "--labels=created-by=tpu-tui")
        image = ("compute", "images", "create", "base", "--source-disk=data", "--source-disk-zone=local-a")
        (made,) = await run.json(*image)
        (disk,) = (await resource_api.disks()).resources
        assert (disk.name, disk.size_gb, disk.made_by_us, disk.used_by) == ("data", 20.0, True, ())
        assert [one.name for one in (await resource_api.images()).resources] == [made["name"]] == ["base"]

        api = TpuApi(settings)
        request = SliceRequest(
            "pod",
            "local-a",
            accelerator_type="v2-8",
            runtime_version="tpu-ubuntu2204-base",
            data_disks=(DataDisk(source),),
        )
        _ = [step async for step in api.create(request)]
        code, _, errors = await run("compute", "disks", "delete", "data")
        assert (code, f"The disk resource '{source}' is already being used by" in errors) == (1, True)
        _ = [line async for line in api.lifecycle.delete("local-a", "pod")]
        missing = replace(request, data_disks=(DataDisk(source.replace("data", "none")),))
        with pytest.raises(UsageError, match="none' was not found"):
            _ = [step async for step in api.create(missing)]
        await api.close()

        _ = [
            line
            for one in (disk, *(await resource_api.images()).resources)
            async for line in resource_api.delete(one)
        ]
        assert await run.json("compute", "disks", "list") == []
        assert (await resource_api.images()).resources == ()
    await compute.close()
