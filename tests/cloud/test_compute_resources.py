"""Tests of disks and images as tpu-tui and Google's own client see them, and of an API that does not answer."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.localpod.api_clients import connected, node, serving
from tests.localpod.api_hosts import SocketHosts
from tests.localpod.faults import FOREVER, FaultyComputeService, FaultyTpuService
from tests.sshd import free_port
from tui.cloud.compute.resource_listing import ComputeResources
from tui.cloud.compute.resource_rows import attach_slices, disk_row, image_row
from tui.errors import CloudError, UsageError
from tui.localpod.api.compute.documents import DISKS, IMAGES
from tui.pod.resources import ResourceListing
from tui.settings import Settings

ZONE = "zones/local-a"
PATH = "projects/local/zones/local-a/disks/data"
OWN = {"created-by": "tpu-tui"}


@dataclass
class Served:
    """A pod's two APIs, and tpu-tui's client of disks and images."""

    service: FaultyTpuService
    compute: FaultyComputeService
    home: Path

    def client(self, patience: float = 5.0, **more: Any) -> ComputeResources:
        endpoints = {"compute": f"http://127.0.0.1:{self.service.rest_port}"}
        settings = {"project": "local", "endpoints": endpoints, "token": self.service.token, **more}
        return ComputeResources(Settings(home=self.home, **settings), patience=patience)

    def add(self, name: str, labels: dict[str, str] | None = None, size: int = 10) -> None:
        self.compute.store.insert(DISKS, ZONE, {"name": name, "sizeGb": size, "labels": labels or {}})


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[Served]:
    compute = FaultyComputeService(SocketHosts(), zone="local-a")
    compute.faults.operation_seconds = 0.02
    async with serving(rest_routes=compute.routes(), store=compute.store) as (service, _):
        yield Served(service, compute, tmp_path)
    await compute.close()


async def test_disks_and_images_are_rows_with_age_size_labels_and_maker(served: Served) -> None:
    served.add("data", OWN, 200)
    served.add("other")
    served.compute.store.insert(IMAGES, "global", {"name": "base", "sourceDisk": PATH})

    listing = await served.client().disks()
    disks, problems = listing.resources, listing.problems
    (image,) = (await served.client().images()).resources

    assert problems == ()
    data, other = disks
    assert (data.kind, data.name, data.zone, data.state) == ("disk", "data", "local-a", "READY")
    assert (data.size_gb, data.labels, data.made_by_us, data.cost_relevant) == (200.0, OWN, True, True)
    assert (other.made_by_us, other.used_by) == (False, ())
    assert (image.kind, image.zone, image.made_by_us) == ("image", None, False)
    assert image.size_gb == pytest.approx(200 * 2**30 / 1e9)
    assert data.age_s() in range(60)


async def test_every_page_is_read_and_the_list_restarts_when_a_page_token_expires(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tui.localpod.api.compute.answers.DEFAULT_PAGE", 2)
    for number in range(5):
        served.add(f"disk-{number}")
    served.compute.faults.expired_page_tokens = 2

    disks = (await served.client().disks()).resources

    assert [disk.name for disk in disks] == [f"disk-{number}" for number in range(5)]
    served.compute.faults.expired_page_tokens = FOREVER
    with pytest.raises(UsageError, match=r"disks cannot be listed: .*page_token"):
        await served.client().disks()


async def test_a_request_is_repeated_after_the_wait_that_a_busy_service_names(served: Served) -> None:
    served.add("data")
    served.compute.faults.rate_limited = 1
    served.compute.faults.retry_after_seconds = 1
    began = time.monotonic()

    disks = (await served.client().disks()).resources

    assert len(disks) == 1
    assert time.monotonic() - began >= 1.0, "the wait was kept"
    served.compute.faults.rate_limited = FOREVER
    served.compute.faults.retry_after_seconds = 60
    with pytest.raises(CloudError, match="disks cannot be listed: Quota exceeded"):
        await served.client().disks()


async def test_only_the_configured_zones_are_listed(served: Served) -> None:
    served.add("data")
    served.compute.store.insert(DISKS, "regions/local", {"name": "regional"})
    served.compute.store.insert(DISKS, "zones/far-b", {"name": "far"})

    disks = (await served.client(zones=("local-a",)).disks()).resources

    assert [disk.name for disk in disks] == ["regional", "data"]


async def test_a_zone_that_does_not_answer_is_a_problem_and_the_others_are_listed(served: Served) -> None:
    served.compute.store.insert(DISKS, "zones/far-b", {"name": "far"})
    served.compute.faults.unavailable["local-a"] = FOREVER

    listing = await served.client().disks()
    disks, (problem,) = listing.resources, listing.problems

    assert [disk.name for disk in disks] == ["far"]
    assert problem.sentence == "disks in local-a cannot be listed: the zone did not answer"


async def test_a_missing_permission_is_named_with_the_role_that_has_it(served: Served) -> None:
    served.compute.faults.denied.add("compute.images.list")

    with pytest.raises(CloudError, match=r"compute\.images\.list") as caught:
        await served.client().images()

    assert "roles/compute.storageAdmin" in caught.value.remedy


async def test_a_service_that_is_down_is_reported_in_a_sentence(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path, project="local", endpoints={"compute": f"http://127.0.0.1:{free_port()}"})
    with pytest.raises(CloudError, match=r"images cannot be listed: the Compute Engine API at .* cannot be reached"):
        await ComputeResources(settings, patience=0.3).images()


async def test_a_disk_and_an_image_are_deleted_and_deleting_them_again_is_no_error(served: Served) -> None:
    served.add("data")
    served.compute.store.insert(IMAGES, "global", {"name": "base", "sourceDisk": PATH})
    client = served.client()
    (disk,) = (await client.disks()).resources
    (image,) = (await client.images()).resources

    lines = [line for one in (disk, image) async for line in client.delete(one)]

    assert lines == [
        "requested the deletion of disk data",
        "disk data is deleted",
        "requested the deletion of image base",
        "image base is deleted",
    ]
    assert not served.compute.store.exists(PATH)
    assert [line async for line in client.delete(disk)] == ["disk data is gone already"]


async def test_a_disk_of_a_slice_shows_its_user_and_is_not_deleted(served: Served) -> None:
    served.add("data")
    async with connected(served.service, "grpc_asyncio") as call:
        disks = [{"source_disk": PATH, "mode": "READ_ONLY"}]
        parent = "projects/local/locations/local-a"
        made = await call("create_node", parent=parent, node_id="pod", node=node(data_disks=disks))
        await call.succeeded(made)
    (disk,) = (await served.client().disks()).resources

    assert disk.used_by is not None
    assert disk.used_by[0].startswith("t1v-n-")
    (shown,) = attach_slices([disk], {"local-a/data": ["pod"]}, slices_known=True)
    assert shown.used_by == ("pod",)
    with pytest.raises(UsageError, match=f"The disk resource '{PATH}' is already being used by"):
        _ = [line async for line in served.client().delete(disk)]


async def test_a_deletion_that_fails_half_way_reports_the_error_of_its_operation(served: Served) -> None:
    served.add("data")
    (disk,) = (await served.client().disks()).resources
    served.compute.faults.hold_operations()
    deletion = served.client().delete(disk)
    assert await anext(deletion) == "requested the deletion of disk data"
    served.compute.store.users.append(lambda _: ["projects/local/zones/local-a/instances/vm"])
    served.compute.faults.release_operations()

    with pytest.raises(CloudError, match=r"disk data cannot be deleted: .* already being used by .*instances/vm"):
        await anext(deletion)


def test_without_all_slices_a_seemingly_unused_disk_has_an_unknown_user() -> None:
    free = disk_row({"name": "free", "zone": "x/zones/z-a", "status": "READY"})
    used = disk_row({"name": "used", "zone": "x/zones/z-a", "users": ["x/instances/vm"]})

    found = attach_slices([free, used], {}, slices_known=False)

    assert [disk.used_by for disk in found] == [None, ("vm",)]


def test_times_are_in_utc_and_a_failed_image_costs_nothing() -> None:
    found = image_row({"name": "i", "status": "FAILED", "creationTimestamp": "2026-01-01T04:00:00.123-07:00"})

    assert (found.created, found.cost_relevant, found.size_gb) == ("2026-01-01T11:00:00Z", False, None)


# ── Google's own client ──────────────────────────────────────────────────────────────────────────


async def test_google_cloud_compute_makes_lists_labels_and_deletes_the_resources_of_tpu_tui(served: Served) -> None:
    compute_v1: Any = pytest.importorskip("google.cloud.compute_v1", reason="google-cloud-compute is not installed")
    from google.oauth2.credentials import Credentials

    options: dict[str, Any] = {
        "credentials": Credentials(served.service.token),  # type: ignore[no-untyped-call]
        "client_options": {"api_endpoint": f"http://127.0.0.1:{served.service.rest_port}"},
    }
    place = {"project": "local", "zone": "local-a"}

    def wait(*operations: Any) -> None:
        """Wait as `result()` would, which uses Google's own address even if the client has another one."""
        with (
            compute_v1.ZoneOperationsClient(**options) as zonal,
            compute_v1.GlobalOperationsClient(**options) as all_,
        ):
            for operation in operations:
                if operation.zone:
                    zonal.wait(**place, operation=operation.name)
                else:
                    all_.wait(project="local", operation=operation.name)

    def make() -> list[Any]:
        with compute_v1.DisksClient(**options) as disks, compute_v1.ImagesClient(**options) as images:
            wait(disks.insert(**place, disk_resource={"name": "data", "size_gb": 20, "labels": OWN}))
            wait(images.insert(project="local", image_resource={"name": "base", "source_disk": PATH}))
            everywhere = [disk for _, scope in disks.aggregated_list(project="local") for disk in scope.disks]
            return [*everywhere, *disks.list(**place), *images.list(project="local")]

    def remove() -> None:
        with compute_v1.DisksClient(**options) as disks, compute_v1.ImagesClient(**options) as images:
            wait(disks.delete(**place, disk="data"), images.delete(project="local", image="base"))

    by_google = await asyncio.to_thread(make)
    (disk,) = (await served.client().disks()).resources
    (image,) = (await served.client().images()).resources
    assert [(one.name, dict(one.labels)) for one in by_google] == [("data", OWN), ("data", OWN), ("base", {})]
    assert (disk.name, disk.labels, disk.size_gb) == ("data", OWN, float(by_google[0].size_gb))
    assert image.name == "base"
    await asyncio.to_thread(remove)
    assert await served.client().disks() == ResourceListing()
    assert await served.client().images() == ResourceListing()


def test_invalid_sizes_and_times_are_unknown() -> None:
    disk = disk_row({"name": "d", "sizeGb": "9" * 5000, "creationTimestamp": "yesterday"})
    assert (disk.size_gb, disk.created, disk.age_s()) == (None, None, None)
    assert image_row({"name": "i", "archiveSizeBytes": "1e9", "creationTimestamp": 7}).size_gb is None
