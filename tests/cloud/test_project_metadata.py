from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiohttp import web

from tests.localpod.api_hosts import SocketHosts
from tests.localpod.faults import FaultyComputeService
from tui.cloud.compute.project_metadata import project_metadata
from tui.settings import Settings


@pytest.fixture
async def compute() -> AsyncIterator[tuple[FaultyComputeService, str]]:
    """Start a Compute Engine service, and return it with its URL."""
    service = FaultyComputeService(SocketHosts(), zone="local-a")
    app = web.Application()
    app.add_routes(service.routes())
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    yield service, f"http://127.0.0.1:{runner.addresses[0][1]}"
    await runner.cleanup()


async def test_a_projects_metadata_is_read(compute: tuple[FaultyComputeService, str], tmp_path: Path) -> None:
    service, url = compute
    settings = Settings(home=tmp_path, project="local", endpoints={"compute": url})
    assert await project_metadata(settings) == {}
    service.networks.metadata = {"ssh-keys": "a:ssh-rsa AAAA a\nb:ssh-rsa BBBB b", "enable-oslogin": "TRUE"}
    assert await project_metadata(settings) == service.networks.metadata


async def test_metadata_that_may_not_or_cannot_be_read_is_unknown(
    compute: tuple[FaultyComputeService, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    service, url = compute
    service.faults.denied.add("compute.projects.get")
    assert await project_metadata(Settings(home=tmp_path, project="local", endpoints={"compute": url})) is None
    monkeypatch.setattr("tui.cloud.compute.project_metadata.TIMEOUT_S", 0.5)
    nowhere = {"compute": "http://127.0.0.1:1"}
    assert await project_metadata(Settings(home=tmp_path, project="local", endpoints=nowhere)) is None
