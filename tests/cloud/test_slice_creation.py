"""Tests of creating slices with every option."""

from __future__ import annotations

import pytest
from google.cloud import tpu_v2

from tests.cloud.conftest import Cloud, created, creations, node, refused
from tests.localpod.api_clients import PLACE
from tui.pod.creation.slice_request import DataDisk, QueueRequest

pytestmark = pytest.mark.timing


async def test_every_option_reaches_the_node(cloud: Cloud) -> None:
    disk = "projects/local/zones/local-a/disks/data"
    steps = await created(
        cloud,
        kind="v2-32",
        description="words",
        network="net",
        subnetwork="sub",
        internal_ips=True,
        queue_count=3,
        cidr_range="10.0.0.0/29",
        service_account="a@b.c",
        scopes=("https://www.googleapis.com/auth/cloud-platform",),
        tags=("web",),
        labels={"team": "vision"},
        metadata={"key": "value"},
        data_disks=(DataDisk(disk, "read-only"),),
        preemptible=True,
        secure_boot=True,
    )

    made = await node(cloud)
    assert made.network_config.network.endswith("/networks/net")
    assert made.network_config.subnetwork.endswith("/subnetworks/sub")
    assert (made.network_config.enable_external_ips, made.network_config.queue_count) == (False, 3)
    assert (made.description, made.cidr_block, list(made.tags)) == ("words", "10.0.0.0/29", ["web"])
    assert made.service_account.email == "a@b.c"
    assert dict(made.labels) == {"team": "vision", "created-by": "tpu-tui"}
    assert dict(made.metadata) == {"key": "value"}
    assert [(one.source_disk, one.mode) for one in made.data_disks] == [
        (disk, tpu_v2.AttachedDisk.DiskMode.READ_ONLY)
    ]
    assert made.scheduling_config.preemptible
    assert made.shielded_instance_config.enable_secure_boot
    assert steps[0].request is not None
    assert steps[0].request["node"]["labels"] == {"team": "vision", "created-by": "tpu-tui"}
    assert steps[-1].operation == steps[0].operation
    assert str(steps[0].operation).startswith(f"{PLACE}/operations/")
    assert steps[-1].elapsed_s > 0


async def test_a_generation_with_a_topology_is_a_type(cloud: Cloud) -> None:
    await created(cloud, kind="", generation="v4", topology="2x2x2")

    slice_ = await cloud.api.get("pod", None)
    assert (slice_.accelerator_type, len(slice_.workers)) == ("v4-16", 2)


async def test_a_dry_run_refuses_a_topology_that_the_zone_does_not_have(cloud: Cloud) -> None:
    error = await refused(cloud, kind="", generation="v4", topology="3x3x3", dry_run=True)

    assert error.why == "there is no accelerator type v4-54 in local-a"
    assert creations(cloud) == []


async def test_a_detached_creation_ends_when_it_is_accepted(cloud: Cloud) -> None:
    cloud.service.faults.hold_operations()

    steps = await created(cloud, waits=False)

    assert [step.text for step in steps] == ["requested pod: v2-8 with tpu-ubuntu2204-base in local-a"]
    assert (await cloud.api.get("pod", None)).state == "CREATING"


async def test_describing_a_slice_shows_the_apis_own_document(cloud: Cloud) -> None:
    await created(cloud, metadata={"key": "value"})
    assert (await cloud.api.describe(await cloud.api.get("pod", None)))["metadata"] == {"key": "value"}
    cloud.service.faults.worker_capacity = 0
    await created(cloud, name="wish", queue=QueueRequest(), waits=False)

    waiting = await cloud.api.describe(await cloud.api.get("wish", None))

    assert waiting["name"] == f"{PLACE}/queuedResources/wish"
