"""The commands of gcloud that `groups --dry-run` shows make what `groups` makes, from the image to the clean-up."""

from __future__ import annotations

import shlex
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from tests.localpod.api_clients import serving
from tests.localpod.api_hosts import SocketHosts
from tests.localpod.faults import FaultyComputeService
from tests.localpod.gcloud import Gcloud, with_gcloud
from tui.cloud.compute.groups.group_creation import GroupCreation
from tui.pod.groups.group_gcloud import create_group_commands, delete_command_of_gcloud, resize_group_command
from tui.pod.groups.group_request import GroupRequest
from tui.pod.resources import GROUP, IMAGE, POLICY, TEMPLATE, CloudResource
from tui.settings import Settings

pytestmark = [pytest.mark.gcloud, *with_gcloud]

PREPARED = {
    "name": "prepared",
    "machineType": "zones/local-a/machineTypes/n1-standard-16",
    "disks": [{"boot": True, "initializeParams": {"diskSizeGb": "10"}}],
}
BASE: dict[str, Any] = {"image_family": "debian-12", "image_project": "debian-cloud"}
USER_VMS = GroupRequest("g", "local-a", size=2, machine_type="n1-standard-16", tpu_node="tpu", tags=("a", "b"))
SHAPES = {
    "spanish": replace(USER_VMS, image_from="prepared", image="img", image_family="torch-xla"),
    "spot": replace(USER_VMS, **BASE, spot=True, internal_ips=True, scopes=("storage-rw", "compute-ro")),
    "slice": GroupRequest("g", "local-a", accelerator_type="v6e-16", topology="4x4", **BASE),
    "flex": GroupRequest(
        "g", "local-a", size=2, machine_type="ct6e-standard-4t", flex_start=True, run_duration_s=600, **BASE
    ),
    "reserved": GroupRequest(
        "g", "local-a", machine_type="ct6e-standard-4t", topology="2x4", reservation="r", **BASE
    ),
}
COLLECTIONS = ("images", "resourcePolicies", "instanceTemplates", "instanceGroupManagers")


@dataclass
class Pod:
    """One pod's Compute Engine API, tpu-tui's settings for it, and gcloud."""

    compute: FaultyComputeService
    settings: Settings
    gcloud: Gcloud

    def documents(self) -> dict[str, Any]:
        """What was created, without what no request determines."""
        store = self.compute.store
        return {
            collection: [
                _plain(row) for place in store.places(collection) for row in store.list_all(collection, place)
            ]
            for collection in COLLECTIONS
        }


@pytest.fixture
async def pods(tmp_path: Path) -> AsyncIterator[tuple[Pod, Pod]]:
    made = []
    for name in ("ours", "theirs"):
        (tmp_path / name).mkdir()
        compute = FaultyComputeService(SocketHosts(), zone="local-a")
        compute.faults.operation_seconds = 0.02
        made.append((name, compute))
    async with (
        serving(rest_routes=made[0][1].routes(), store=made[0][1].store) as (first, _),
        serving(rest_routes=made[1][1].routes(), store=made[1][1].store) as (second, _),
    ):
        found = []
        for (name, compute), service in zip(made, (first, second), strict=True):
            rest = f"http://127.0.0.1:{service.rest_port}"
            settings = Settings(home=tmp_path, project="local", endpoints={"compute": rest}, token=service.token)
            found.append(Pod(compute, settings, Gcloud(tmp_path / name, service.rest_port, service.token)))
        yield found[0], found[1]
    for _, compute in made:
        await compute.close()


@pytest.mark.parametrize("shape", SHAPES)
async def test_gcloud_makes_the_same_of_the_commands_that_a_dry_run_shows(pods: tuple[Pod, Pod], shape: str) -> None:
    ours, theirs = pods
    for pod in pods:
        await pod.compute.instances.boot(pod.compute.instances.insert("local-a", PREPARED))
    creation = GroupCreation(ours.settings)
    request = await creation.prepare(SHAPES[shape])

    _ = [step async for step in creation.create(request)]
    for command in create_group_commands(request, "local"):
        code, _, errors = await theirs.gcloud(*shlex.split(command)[1:])
        assert code == 0, errors

    assert _paths(theirs.documents()) == _paths(ours.documents())
    kinds = {GROUP: "local-a", TEMPLATE: None, POLICY: "local", IMAGE: None}
    if not request.is_bulk:
        resize = resize_group_command("g", "local-a", "local", 1)
        assert (await theirs.gcloud(*shlex.split(resize)[1:]))[0] == 0
    for kind, zone in kinds.items():
        name = "img" if kind == IMAGE else "g"
        is_made = {POLICY: request.is_bulk, IMAGE: bool(request.image_from)}.get(kind, True)
        if is_made:
            command = delete_command_of_gcloud(CloudResource(kind, name, zone), "local")
            code, _, errors = await theirs.gcloud(*shlex.split(command)[1:])
            assert code == 0, errors
    assert not any(theirs.documents().values())


def _paths(document: Any, path: str = "") -> dict[str, Any]:
    """Return the values of a document by their paths, of which a failed comparison shows the different ones."""
    if isinstance(document, dict | list):
        pairs = document.items() if isinstance(document, dict) else enumerate(document)
        return {key: value for name, one in pairs for key, value in _paths(one, f"{path}.{name}").items()}
    return {path: document}


def _plain(document: Any) -> Any:
    """Return a document without IDs, times, fingerprints and addresses of APIs, and with lists of pairs in order."""
    if isinstance(document, dict):
        left_out = {"id", "creationTimestamp", "fingerprint", "selfLink", "kind", "sourceDiskId", "canIpForward"}
        return {key: _plain(value) for key, value in document.items() if key not in left_out}
    if isinstance(document, list):
        return sorted(map(_plain, document), key=str)
    if isinstance(document, str):
        return document[document.index("projects/") :] if "projects/" in document else document
    return document
