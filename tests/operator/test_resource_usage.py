"""What uses a slice, a queued resource, a disk and a bucket."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tests import run_records
from tui.operator.resources.usage import (
    attach_groups,
    bucket_rows,
    disk_users,
    group_rows,
    queued_rows,
    runs_on,
    slice_rows,
)
from tui.pod.creation.queued_request import QueuedRequest
from tui.pod.instance_group import InstanceGroup
from tui.pod.resources import BUCKET, CloudResource, find_unused
from tui.pod.run import Run
from tui.pod.slice import Slice


def make_run(run_id: str = "pod-20260101-000000-aaaa", **values: Any) -> Run:
    """Return a run on the slice `pod`."""
    given = {"slice_": "pod", "zone": "z-a", "project": "p", "argv": ("train.py",), "workers": (), **values}
    return run_records.make_run(run_id, **given)


POD = Slice("pod", "z-a", project="p", accelerator_type="v4-16", state="READY", created="2026-01-01T00:00:00Z")
RUN = make_run()
QUEUE = QueuedRequest("q", "z-a", "ACTIVE", None, ("q-0", "q-1"), "v4-16", None, None, False)
DISK = "projects/p/zones/z-a/disks/data"


def test_a_live_run_is_on_the_slice_of_its_name_zone_project_and_creation() -> None:
    assert runs_on(POD, [RUN]) == (RUN.id,)
    assert runs_on(POD, [replace(RUN, slice_created=POD.created)]) == (RUN.id,)
    others = {"slice": "other", "zone": "z-b", "project": "elsewhere", "slice_created": "2025-01-01T00:00:00Z"}
    assert [runs_on(POD, [replace(RUN, **{name: value})]) for name, value in others.items()] == [()] * 4


def test_a_queued_resource_is_used_by_the_runs_on_its_slices() -> None:
    slices = [replace(POD, name=name, queued_resource="q") for name in QUEUE.nodes]
    rows = slice_rows(slices, [replace(RUN, slice="q-1")])
    assert [row.used_by for row in rows] == [(), (RUN.id,)]
    queued = queued_rows([QUEUE], rows, slices_known=True)[0]
    assert (queued.used_by, queued.chips, queued.cost_relevant) == ((RUN.id,), 16, False)
    assert queued_rows([QUEUE], (), slices_known=False)[0].used_by is None


def test_a_disk_is_used_by_its_slices_and_by_a_request_that_waits() -> None:
    waiting = replace(QUEUE, name="later", state="WAITING_FOR_RESOURCES", data_disks=(DISK,))
    made = replace(POD, name="q-0", queued_resource="q", data_disks=(DISK,))
    users = disk_users([made], [replace(QUEUE, data_disks=(DISK,)), waiting])
    assert users == {"z-a/data": ["q-0", "later"]}


def test_a_bucket_is_used_by_every_run_that_names_it_even_an_ended_one() -> None:
    store = CloudResource(BUCKET, "store")
    runs = [
        make_run("a-20260101-000000-aaaa", argv=("train.py", "--data=gs://store/x.tar")),
        make_run("b-20260101-000000-aaaa", env={"OUT": "gs://store"}),
        make_run("c-20260101-000000-aaaa", on_end=("report:gs://store/reports",)),
        make_run("d-20260101-000000-aaaa", argv=("train.py", "gs://store-2/x", "gs://store.old", "gs://my-store")),
    ]
    assert bucket_rows([store], runs)[0].used_by == tuple(run.id for run in runs[:3])


def test_a_group_is_used_by_its_runs_and_its_tpu_node_by_the_group() -> None:
    group = InstanceGroup("vms", "z-a", 4, "t", "shape", "n1-standard-16", "pod", made_by_us=True)
    live = [replace(RUN, slice="vms")]

    (row,) = group_rows([group], live)

    assert (row.used_by, row.cost_relevant, row.chips) == ((RUN.id,), True, None)
    assert row.uses == ("template/t", "policy/z/shape", "slice/z-a/pod")
    node = replace(POD, labels={"created-by": "tpu-tui"})
    (used,) = attach_groups(slice_rows([node], live), [row])
    assert used.used_by == ("z-a/vms",)
    assert find_unused([row, used]) == []
    free = group_rows([group], [])
    assert [one.name for one in find_unused([*free, *attach_groups(slice_rows([node], []), free)])] == ["vms", "pod"]
