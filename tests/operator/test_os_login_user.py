"""The user name for a slice: that of OS Login where slice or project enable it and no user is given."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.localpod.api_clients import serving
from tests.localpod.api_hosts import SocketHosts
from tests.localpod.faults import FaultyComputeService
from tui.localpod.api.os_login_api import OsLoginService
from tui.operator.connections import Connections
from tui.settings import Settings

KEY = "ssh-ed25519 AAAAone ada@home"


class Project:
    """A project with one slice, whose metadata and profiles tests change."""

    def __init__(
        self, compute: FaultyComputeService, os_login: OsLoginService, connect: Callable[..., Connections]
    ) -> None:
        self.compute = compute
        self.os_login = os_login
        self.connect = connect

    async def user(self, **settings: Any) -> str | None:
        """Return the user name that the slice's workers get."""
        connections = self.connect(**settings)
        slice_ = await connections.inventory.get("pod", "local-a")
        known = await connections.with_login_facts(slice_)
        assert all(worker.host_keys for worker in known.workers)
        (user,) = {worker.user for worker in known.workers}
        assert connections.access_to(known, await connections.access()).os_login == (user is not None)
        return user


@pytest.fixture
async def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Project]:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    compute = FaultyComputeService(SocketHosts(), zone="local-a")
    os_login = OsLoginService("local", lambda: compute.networks.metadata)
    async with AsyncExitStack() as stack:
        routes = [*compute.routes(), *os_login.routes()]
        service, _ = await stack.enter_async_context(serving(rest_routes=routes, os_login=os_login))
        await service.add_slice("pod", 2, 4)
        rest = f"http://127.0.0.1:{service.rest_port}"
        endpoints = {"tpu": f"127.0.0.1:{service.grpc_port}", "compute": rest, "oslogin": rest}

        def connect(**settings: Any) -> Connections:
            place = {"project": "local", "zones": ("local-a",), "endpoints": endpoints, "token": service.token}
            connections = Connections(Settings(home=tmp_path, account="ada@example.com", **{**place, **settings}))
            stack.push_async_callback(connections.close)
            return connections

        yield Project(compute, os_login, connect)


async def test_a_project_that_enables_os_login_gives_its_slices_the_user_name(project: Project) -> None:
    project.os_login.keys["ada@example.com"] = [KEY]
    assert await project.user() is None

    project.compute.networks.metadata["enable-oslogin"] = "TRUE"

    assert await project.user() == "ada_example_com"
    assert await project.user(user="fred") is None, "a user in the settings takes precedence"


async def test_project_metadata_that_cannot_be_read_leaves_the_local_user_name(project: Project) -> None:
    project.os_login.keys["ada@example.com"] = [KEY]
    project.compute.networks.metadata["enable-oslogin"] = "TRUE"
    project.compute.faults.denied.add("compute.projects.get")

    assert await project.user() is None


async def test_without_a_compute_engine_api_no_metadata_is_requested(project: Project) -> None:
    tpu = project.connect().settings.endpoints["tpu"]
    project.compute.networks.metadata["enable-oslogin"] = "TRUE"

    assert await project.user(endpoints={"tpu": tpu}) is None
