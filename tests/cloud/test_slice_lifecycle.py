from __future__ import annotations

import asyncio
from typing import Any

import pytest
from google.cloud import tpu_v2

from tests.cloud.conftest import Cloud, a_request
from tests.localpod.api_clients import PLACE, until
from tui.errors import CloudError, UsageError

pytestmark = pytest.mark.timing


async def test_creating_reports_its_progress_to_the_end(cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> None:
    machines, seen = cloud.hosts.start, asyncio.Event()

    async def start_once_seen(*args: Any) -> Any:
        await seen.wait()
        return await machines(*args)

    monkeypatch.setattr(cloud.hosts, "start", start_once_seen)
    progress = []
    async for step in cloud.api.create(a_request("pod", "v2-32", spot=True)):
        progress.append(step.text)
        if step.text.startswith("CREATING, "):
            seen.set()

    assert progress[0] == "requested pod: v2-32 with tpu-ubuntu2204-base in local-a, spot"
    assert seen.is_set()
    assert progress[-1] == "pod is READY"
    slice_ = await cloud.api.get("pod", None)
    assert (slice_.spot, slice_.state) == (True, "READY")


async def test_a_slice_is_stopped_started_and_deleted(cloud: Cloud) -> None:
    await cloud.make("pod")

    stopped = [progress async for progress in cloud.api.lifecycle.stop("local-a", "pod")]
    assert stopped[-1] == "pod is STOPPED"
    assert cloud.hosts.running() == []

    started = [progress async for progress in cloud.api.lifecycle.start("local-a", "pod")]
    assert started[-1] == "pod is READY"
    assert cloud.hosts.running() == ["pod"]

    deleted = [progress async for progress in cloud.api.lifecycle.delete("local-a", "pod")]
    assert deleted[-1] == "pod is deleted"
    assert cloud.hosts.running() == []
    assert (await cloud.api.slices()).slices == ()


async def test_a_dry_run_prints_the_change_and_does_nothing(cloud: Cloud) -> None:
    assert await cloud.make("pod", dry_run=True) == [
        "would request pod: v2-8 with tpu-ubuntu2204-base in local-a",
    ]
    assert (await cloud.api.slices()).slices == ()
    await cloud.make("pod")

    for verb in ("delete", "stop", "start"):
        (progress,) = [line async for line in getattr(cloud.api.lifecycle, verb)("local-a", "pod", dry_run=True)]
        assert progress.startswith(f"would {verb} pod in local-a, now READY")

    assert (await cloud.api.get("pod", None)).state == "READY"


async def test_a_dry_run_refuses_what_the_api_would_refuse(cloud: Cloud) -> None:
    with pytest.raises(UsageError) as caught:
        await cloud.make("pod", "v3-31", dry_run=True)
    assert caught.value.why == "there is no accelerator type v3-31 in local-a"
    assert "v3-32" in caught.value.remedy
    await cloud.make("pod")
    with pytest.raises(UsageError, match="a slice pod exists already, and is READY"):
        await cloud.make("pod", dry_run=True)


async def test_a_name_that_is_taken_is_refused(cloud: Cloud) -> None:
    await cloud.make("pod")

    with pytest.raises(UsageError, match="pod cannot be created in local-a"):
        await cloud.make("pod")


async def test_an_unknown_type_or_runtime_is_reported_with_the_closest_one(cloud: Cloud) -> None:
    with pytest.raises(UsageError) as caught:
        await cloud.make("pod", "v3-31")
    assert "v3-32" in caught.value.remedy
    assert "EID" not in caught.value.why

    with pytest.raises(UsageError) as caught:
        await cloud.make("pod", runtime_version="tpu-ubuntu2204")
    assert "tpu-ubuntu2204-base" in caught.value.remedy


async def test_too_little_quota_and_no_capacity_are_reported_differently(cloud: Cloud) -> None:
    cloud.service.faults.worker_quota = 1
    with pytest.raises(CloudError) as caught:
        await cloud.make("pod", "v3-32")
    assert "quota TPUV3PerProjectPerZoneForTPUAPI is used up: its limit in local-a is 1" in caught.value.why
    assert "quotas?project=local" in caught.value.remedy

    cloud.service.faults.worker_quota = 64
    cloud.service.faults.worker_capacity = 1
    with pytest.raises(CloudError) as caught:
        await cloud.make("pod", "v3-32")
    assert caught.value.why == "local-a has no v3-32 left now"
    assert "another zone that has v3-32 (faraway-c, local-b)" in caught.value.remedy


async def test_machines_that_do_not_start_are_reported_when_the_operation_ends(cloud: Cloud) -> None:
    cloud.hosts.broken = "out of sockets"

    with pytest.raises(CloudError, match="pod cannot be created"):
        await cloud.make("pod")


@pytest.mark.parametrize("verb", ["start", "stop"])
@pytest.mark.parametrize("dry_run", [False, True])
async def test_a_slice_of_several_workers_is_refused_with_what_to_do_instead(
    cloud: Cloud, verb: str, dry_run: bool
) -> None:
    await cloud.make("crew", "v2-32", spot=True)

    with pytest.raises(UsageError) as refused:
        _ = [progress async for progress in getattr(cloud.api.lifecycle, verb)("local-a", "crew", dry_run=dry_run)]

    assert refused.value.why == "Cloud TPU stops and starts slices of one worker only, and it has 4"
    assert refused.value.remedy == (
        "tpu-tui slices delete crew --zone local-a, then "
        "tpu-tui slices create crew --zone local-a --type v2-32 --version tpu-ubuntu2204-base --spot"
    )
    assert (await cloud.api.get("crew", None)).state == "READY"


async def queue_a_pair(cloud: Cloud) -> Any:
    """Request a queued resource of two slices, and return the client that requested it."""
    client = await cloud.api._api.open()
    params = tpu_v2.QueuedResource.Tpu.NodeSpec.MultisliceParams(node_count=2, node_id_prefix="pair")
    node = tpu_v2.Node(accelerator_type="v2-8", runtime_version="tpu-ubuntu2204-base")
    spec = tpu_v2.QueuedResource.Tpu.NodeSpec(parent=PLACE, node=node, multislice_params=params)
    wish = tpu_v2.QueuedResource(tpu=tpu_v2.QueuedResource.Tpu(node_spec=[spec]))
    await client.create_queued_resource(parent=PLACE, queued_resource=wish, queued_resource_id="wish")
    return client


async def queued(client: Any) -> list[str]:
    return [one.name.rpartition("/")[2] async for one in await client.list_queued_resources(parent=PLACE)]


async def deleted(cloud: Cloud, name: str, **options: Any) -> list[str]:
    return [progress async for progress in cloud.api.lifecycle.delete("local-a", name, **options)]


async def test_a_queued_resource_of_several_slices_is_deleted_with_its_last_one(cloud: Cloud) -> None:
    client = await queue_a_pair(cloud)

    async def both_ready() -> bool:
        return [slice_.state for slice_ in (await cloud.api.slices()).slices] == ["READY", "READY"]

    await until(both_ready)
    stays = "queued resource wish stays: pair-1 belongs to it too"
    assert (await deleted(cloud, "pair-0", dry_run=True))[-1] == stays
    assert (await deleted(cloud, "pair-0"))[-2:] == ["pair-0 is deleted", stays]
    assert await queued(client) == ["wish"]

    for options in ({"dry_run": True}, {}):
        with pytest.raises(UsageError, match="pair-0 cannot be deleted") as refused:
            await deleted(cloud, "pair-0", **options)
        assert "it has no node, and queued resource wish stays while pair-1 belongs to it too" in refused.value.why
        assert "tpu-tui slices delete pair-1 --zone local-a" in refused.value.remedy

    assert (await deleted(cloud, "pair-1"))[-1] == "queued resource wish, which also requests pair-0, is deleted"
    assert await queued(client) == []
    assert (await cloud.api.slices()).slices == ()
    assert cloud.hosts.running() == []


async def test_a_queued_resource_none_of_whose_slices_exists_yet_can_be_deleted(cloud: Cloud) -> None:
    cloud.service.faults.worker_capacity = 0
    client = await queue_a_pair(cloud)

    assert (await deleted(cloud, "pair-1"))[-1] == "queued resource wish, which also requests pair-0, is deleted"

    assert await queued(client) == []


@pytest.mark.parametrize("verb", ["delete", "start", "stop"])
@pytest.mark.parametrize("dry_run", [False, True])
async def test_a_missing_slice_cannot_be_changed(cloud: Cloud, verb: str, dry_run: bool) -> None:
    with pytest.raises(UsageError, match="slice pod cannot be"):
        _ = [progress async for progress in getattr(cloud.api.lifecycle, verb)("local-a", "pod", dry_run=dry_run)]


async def test_a_creation_that_is_not_awaited_is_not_undone(cloud: Cloud) -> None:
    cloud.service.faults.operation_seconds = 0.3
    steps = cloud.api.create(a_request("pod"))
    await steps.__anext__()
    await steps.aclose()  # type: ignore[attr-defined]

    assert [slice_.name for slice_ in (await cloud.api.slices()).slices] == ["pod"]


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("MyPod", "mypod"),
        ("my_pod", "my-pod"),
        ("8-cores", "cores"),
        ("pod-", "pod"),
        ("n" * 64, "n" * 63),
        ("größe", "gr-e"),
        ("pod\n", "pod"),
        ("_", ""),
    ],
)
async def test_an_invalid_name_is_refused_before_any_request(cloud: Cloud, name: str, near: str) -> None:
    unreachable = cloud.connect(endpoints={"tpu": "127.0.0.1:1"})
    for dry_run in (False, True):
        with pytest.raises(UsageError, match="cannot be created") as refused:
            _ = [step async for step in unreachable.create(a_request(name), dry_run=dry_run)]
        assert "lower-case letters, digits and dashes" in refused.value.why
        assert refused.value.remedy == (f"use {near}" if near else "tpu-tui slices create NAME …")


@pytest.mark.parametrize("name", ["n", "n" * 63, "node-1", "a0"])
async def test_a_valid_name_is_accepted(cloud: Cloud, name: str) -> None:
    assert (await cloud.make(name))[-1] == f"{name} is READY"
