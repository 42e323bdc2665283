"""A pod's two APIs over socket hosts, the inventory on them, and groups made by plain requests."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.localpod.api_clients import serving, until
from tests.localpod.api_hosts import SocketHosts
from tests.localpod.faults import FaultyComputeService, FaultyTpuService
from tui.cloud.cloud_inventory import CloudInventory
from tui.cloud.compute.compute_requests import ComputeRequests
from tui.cloud.open_inventory import cloud_inventory
from tui.settings import Settings

ZONE = "local-a"
MANAGERS = f"zones/{ZONE}/instanceGroupManagers"


@dataclass
class GroupPod:
    """The services, the inventory, and the requests to Compute Engine since `requests` was cleared."""

    service: FaultyTpuService
    compute: FaultyComputeService
    settings: Settings
    inventory: CloudInventory
    api: ComputeRequests
    requests: list[str] = field(default_factory=list)

    async def template(self, name: str, machine_type: str = "ct6e-standard-4t", **properties: Any) -> None:
        """Create an instance template; `metadata` is given as a mapping."""
        metadata: dict[str, str] = properties.pop("metadata", {})
        items = [{"key": key, "value": value} for key, value in metadata.items()]
        network = {"network": "global/networks/default", "accessConfigs": [{"name": "external-nat"}]}
        fields = {"machineType": machine_type, "networkInterfaces": [network], "metadata": {"items": items}}
        await self._done("global/instanceTemplates", {"name": name, "properties": {**fields, **properties}})

    async def group(self, name: str = "tpus", size: int = 2, **properties: Any) -> None:
        """Create a template and a group of its VMs, and wait until they run."""
        await self.template(name, **properties)
        template = f"global/instanceTemplates/{name}"
        await self._done(MANAGERS, {"name": name, "targetSize": size, "instanceTemplate": template})
        await self.stable(name)

    async def change(self, name: str, method: str, body: dict[str, Any] | None = None, **query: str) -> None:
        """Call a method of a group and wait until its VMs have followed."""
        await self._done(f"{MANAGERS}/{name}/{method}", body, **query)
        await self.stable(name)

    async def stable(self, name: str) -> None:
        """Wait until no VM of a group changes."""

        async def is_stable() -> bool | None:
            found = await self.api.get("group", "", f"{MANAGERS}/{name}")
            return bool(found and found["status"]["isStable"]) or None

        await until(is_stable)

    async def _done(self, path: str, body: dict[str, Any] | None, **query: str) -> None:
        operation = await self.api.post("change", "", path, body, **query)
        async for _ in self.api.finish(operation, "change", ""):
            pass


@asynccontextmanager
async def group_pod(tmp_path: Path) -> AsyncIterator[GroupPod]:
    """Serve both APIs with quick operations, for an inventory of the zone."""
    hosts = SocketHosts()
    compute = FaultyComputeService(hosts, zone=ZONE)
    compute.faults.operation_seconds = 0.01
    async with serving(rest_routes=compute.routes(), store=compute.store) as (service, _):
        rest = f"http://127.0.0.1:{service.rest_port}"
        endpoints = {"tpu": f"127.0.0.1:{service.grpc_port}", "compute": rest}
        settings = Settings(home=tmp_path, project="local", zones=(ZONE,), endpoints=endpoints, token=service.token)
        inventory, api = cloud_inventory(settings), ComputeRequests(settings)
        pod = GroupPod(service, compute, settings, inventory, api)
        _count_requests(pod)
        try:
            yield pod
        finally:
            await inventory.close()
            await api.close()
            await compute.close()
            await hosts.close()


def _count_requests(pod: GroupPod) -> None:
    before_call = pod.compute.faults.before_call

    async def counted(permission: str, request: Any) -> None:
        pod.requests.append(permission)
        await before_call(permission, request)

    pod.compute.faults.before_call = counted  # type: ignore[method-assign]
