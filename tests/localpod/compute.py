"""A Compute Engine service over socket hosts, and Google's own client of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from google.oauth2.credentials import Credentials

from tests.localpod.api_clients import serving, until
from tests.localpod.api_hosts import SocketHosts
from tests.localpod.faults import FaultyComputeService, FaultyTpuService
from tui.localpod.api.compute.groups import Group

ZONE, REGION = "local-a", "local"
WHERE = {"project": "local", "zone": ZONE}


class OperationFailed(Exception):
    """The error of an operation: its code and message."""


@dataclass
class ComputePod:
    """The service, its machines, and a caller of Google's client."""

    compute: FaultyComputeService
    hosts: SocketHosts
    service: FaultyTpuService

    def client(self, name: str) -> Any:
        """Return Google's client of a kind of resource (`InstanceTemplates`), with the owner's token."""
        compute_v1: Any = pytest.importorskip(
            "google.cloud.compute_v1", reason="google-cloud-compute is not installed"
        )
        kind = getattr(compute_v1, f"{name}Client")
        transport = kind.get_transport_class("rest")(
            host=f"127.0.0.1:{self.service.rest_port}", url_scheme="http", credentials=Credentials(self.service.token)
        )
        return kind(transport=transport)

    async def call(self, name: str, method: str, **fields: Any) -> Any:
        """Call a method of Google's client; an operation is waited for, and its error is raised."""
        return await asyncio.to_thread(self._call, name, method, fields)

    def _call(self, name: str, method: str, fields: dict[str, Any]) -> Any:
        client = self.client(name)
        unary = getattr(client, f"{method}_unary", None)
        answer = (unary or getattr(client, method))(request=fields)
        if unary is None:
            return answer
        place = {"zone": answer.zone, "region": answer.region, "global": "everywhere"}
        scope, where = next((scope, where) for scope, where in place.items() if where)
        named = {} if scope == "global" else {scope: where.rpartition("/")[2]}
        done = self.client(f"{scope.title()}Operations").wait(
            request={"project": "local", "operation": answer.name, **named}
        )
        if done.error.errors:
            raise OperationFailed(done.error.errors[0].code, done.error.errors[0].message)
        return done

    async def rows(self, name: str, method: str, **fields: Any) -> list[Any]:
        """Return every item of a list."""
        answer = await self.call(name, method, **fields)
        return await asyncio.to_thread(list, answer)

    async def template(self, name: str = "pattern", machine_type: str = "n1-standard-16", **properties: Any) -> None:
        """Create an instance template."""
        disk = {"boot": True, "auto_delete": True, "initialize_params": {"disk_size_gb": 20}}
        network = {"network": "global/networks/default", "access_configs": [{"name": "external-nat"}]}
        fields = {"machine_type": machine_type, "disks": [disk], "network_interfaces": [network], **properties}
        resource = {"name": name, "properties": fields}
        await self.call("InstanceTemplates", "insert", project="local", instance_template_resource=resource)

    async def group(
        self,
        name: str = "crew",
        size: int = 2,
        template: str = "pattern",
        request_fields: dict[str, Any] | None = None,
        **fields: Any,
    ) -> None:
        """Create a managed group; `request_fields` are those of the request beside the group."""
        wanted = {"name": name, "target_size": size, "instance_template": f"global/instanceTemplates/{template}"}
        manager = {"instance_group_manager_resource": {**wanted, **fields}}
        await self.call("InstanceGroupManagers", "insert", **WHERE, **manager, **(request_fields or {}))

    def group_of(self, name: str) -> Group:
        """Return the group that the service holds. Raises ComputeError."""
        return self.compute.groups.get(f"projects/local/zones/{ZONE}/instanceGroupManagers/{name}")

    async def managed(self, name: str = "crew") -> list[Any]:
        """Return the managed instances of a group."""
        fields = {**WHERE, "instance_group_manager": name}
        return await self.rows("InstanceGroupManagers", "list_managed_instances", **fields)

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait until a condition of the service holds."""

        async def holds() -> bool | None:
            return condition() or None

        await until(holds)

    async def until_failed(self, name: str = "crew") -> None:
        """Wait until the group has failed to create machines."""
        await self.until(lambda: any(member.error for member in self.group_of(name).members.values()))

    async def stable(self, name: str = "crew") -> list[Any]:
        """Wait until the group is stable, and return its managed instances."""
        await self.until(lambda: self.group_of(name).is_stable)
        return await self.managed(name)


@asynccontextmanager
async def compute_pod() -> AsyncIterator[ComputePod]:
    """Serve Compute Engine over socket hosts, with quick operations."""
    hosts = SocketHosts()
    compute = FaultyComputeService(hosts, zone=ZONE)
    compute.faults.operation_seconds = 0.01
    compute.networks.metadata["enable-guest-attributes"] = "TRUE"
    async with serving(rest_routes=compute.routes(), store=compute.store) as (service, _):
        try:
            yield ComputePod(compute, hosts, service)
        finally:
            await compute.close()
            await hosts.close()
