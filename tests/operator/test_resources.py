"""Resources that are listed and deleted while an API fails or another user deletes them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cloud.conftest import a_request
from tests.localpod.api_clients import PLACE
from tests.operator.conftest import Project
from tui.errors import UsageError
from tui.localpod.api import rpc_errors
from tui.localpod.api.compute.documents import DISKS
from tui.operator import Operator
from tui.pod.creation.slice_request import DataDisk, QueueRequest
from tui.pod.resources import find_unused
from tui.settings import Settings

pytestmark = [pytest.mark.timing, pytest.mark.py310]

OWN = {"created-by": "tpu-tui"}
DATA = "projects/local/zones/local-a/disks/data"


async def test_apis_that_fail_are_problems_and_the_rest_is_listed(project: Project) -> None:
    project.compute.faults.denied.add("compute.images.list")
    project.compute.store.insert(DISKS, "zones/local-a", {"name": "data", "labels": OWN})
    _ = [step async for step in project.api.create(a_request())]

    listing = await project.operator.resources.list_all()

    assert {one.ref for one in listing.resources} == {"slice/local-a/pod", "disk/local-a/data"}
    problems = sorted(problem.what for problem in listing.problems)
    assert problems == ["buckets cannot be listed", "images cannot be listed"]


async def test_while_slices_are_unknown_no_disk_counts_as_unused(project: Project) -> None:
    project.compute.store.insert(DISKS, "zones/local-a", {"name": "data", "labels": OWN})
    assert [one.name for one in find_unused((await project.operator.resources.list_all()).resources)] == ["data"]
    # The pairing of groups with TPU Nodes lists them as well.
    project.service.faults.refusals["ListNodes"] = [rpc_errors.permission_denied("tpu.nodes.list", PLACE)] * 2

    listing = await project.operator.resources.list_all()

    (disk,) = listing.resources
    assert (disk.name, disk.used_by) == ("data", None)
    assert find_unused(listing.resources) == []


async def test_a_request_that_waits_uses_its_disk_and_costs_nothing(project: Project) -> None:
    project.compute.store.insert(DISKS, "zones/local-a", {"name": "data", "labels": OWN})
    project.service.faults.worker_capacity = 0
    request = a_request("late", queue=QueueRequest(), data_disks=(DataDisk(DATA),))
    _ = [step async for step in project.api.create(request, waits=False)]

    rows = {one.ref: one for one in (await project.operator.resources.list_all()).resources}

    assert rows["disk/local-a/data"].used_by == ("late",)
    queued = rows["queued-resource/local-a/late"]
    assert (queued.made_by_us, queued.cost_relevant, queued.used_by) == (True, False, ())


async def test_a_failed_request_is_a_leftover_that_is_listed_and_deleted(project: Project) -> None:
    project.hosts.broken = "no room"
    with pytest.raises(Exception, match="no room"):
        _ = [step async for step in project.api.create(a_request("failed", queue=QueueRequest()))]
    project.hosts.broken = None

    (row,) = (await project.operator.resources.list_all()).resources
    assert (row.kind, row.name, row.state, row.is_unused) == ("queued-resource", "failed", "FAILED", True)
    assert (await project.delete("failed"))[-1].is_gone
    assert (await project.operator.resources.list_all()).resources == ()


async def test_a_resource_that_another_user_deleted_meanwhile_counts_as_deleted(project: Project) -> None:
    _ = [step async for step in project.api.create(a_request())]
    project.compute.store.insert(DISKS, "zones/local-a", {"name": "data"})
    rows = (await project.operator.resources.list_all()).resources
    _ = [line async for line in project.api.lifecycle.delete("local-a", "pod")]
    project.compute.store.delete(DATA)

    steps = [step async for step in project.operator.resources.delete(rows)]

    assert [step.text for step in steps if step.text] == ["slice pod is gone already", "disk data is gone already"]
    assert [step.resource.name for step in steps if step.is_gone] == ["pod", "data"]


async def test_a_busy_api_is_retried_and_a_lost_answer_deletes_once(project: Project) -> None:
    _ = [step async for step in project.api.create(a_request("queued", queue=QueueRequest()))]
    project.service.faults.retry_after_seconds = 1
    project.service.faults.rate_limited = 1
    project.service.faults.lost_answers["DeleteQueuedResource"] = 1

    steps = await project.delete("queued-resource/queued")

    assert [step.is_gone for step in steps][-1]
    assert project.hosts.running() == []


async def test_a_hosts_file_has_no_resources(tmp_path: Path) -> None:
    operator = Operator(Settings(home=tmp_path, hosts=tmp_path / "hosts.txt"))
    with pytest.raises(UsageError, match="hosts file are not in Google Cloud"):
        await operator.resources.list_all()
