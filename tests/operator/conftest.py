"""A project with the Cloud TPU API and Compute Engine of a local pod, and an operator of it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.localpod.api_clients import serving
from tests.localpod.api_hosts import SocketHosts
from tests.localpod.faults import FaultyComputeService, FaultyTpuService
from tests.sshd import free_port
from tui.cloud.tpu.tpu_api import TpuApi
from tui.operator import Operator
from tui.operator.resources.deletion import DeletionStep
from tui.pod.resources import find_resources
from tui.settings import Settings


@dataclass
class Project:
    """Two APIs, no Cloud Storage, and an operator of them."""

    service: FaultyTpuService
    compute: FaultyComputeService
    hosts: SocketHosts
    operator: Operator

    @property
    def api(self) -> TpuApi:
        return self.operator.connections.cloud.tpu

    async def delete(self, *names: str) -> list[DeletionStep]:
        listing = await self.operator.resources.list_all()
        chosen = find_resources(names, listing)
        return [step async for step in self.operator.resources.delete(chosen)]


@pytest.fixture
async def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Project]:
    monkeypatch.setattr("tui.cloud.state_reports._FIRST_POLL_S", 0.02)
    monkeypatch.setattr("tui.cloud.storage.buckets.retry_limits", lambda *_given, **_named: (0.2, 0.2))
    compute = FaultyComputeService(SocketHosts(), zone="local-a")
    compute.faults.operation_seconds = 0.02
    async with serving(rest_routes=compute.routes(), store=compute.store) as (service, hosts):
        rest = f"http://127.0.0.1:{service.rest_port}"
        endpoints = {
            "tpu": f"127.0.0.1:{service.grpc_port}",
            "compute": rest,
            "storage": f"http://127.0.0.1:{free_port()}",
        }
        settings = {"project": "local", "zones": ("local-a",), "endpoints": endpoints, "token": service.token}
        operator = Operator(Settings(home=tmp_path, **settings))
        yield Project(service, compute, hosts, operator)
        await operator.close()
    await compute.close()
