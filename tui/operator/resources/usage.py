"""Rows of slices, queued resources, disks and buckets with the runs and slices that use them. Pure."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from tui.pod import accelerator
from tui.pod.api_paths import region_of
from tui.pod.creation.queued_request import QueuedRequest
from tui.pod.instance_group import InstanceGroup, chips_of_machine
from tui.pod.resources import (
    GROUP,
    POLICY,
    QUEUED,
    SLICE,
    TEMPLATE,
    CloudResource,
    is_made_by_us,
    slice_costs,
    users_by_ref,
)
from tui.pod.run import Run
from tui.pod.slice import Slice


def slice_rows(slices: Iterable[Slice], live: Sequence[Run]) -> list[CloudResource]:
    """Return the rows of slices; `live` are the runs that have not ended."""
    return [
        CloudResource(
            SLICE,
            slice_.name,
            slice_.zone,
            slice_.state,
            slice_.created,
            _chips(slice_.accelerator_type, 1),
            slice_.labels,
            runs_on(slice_, live),
            is_made_by_us(slice_.labels),
            slice_costs(slice_.state),
            belongs_to=f"{slice_.zone}/{slice_.queued_resource}" if slice_.queued_resource else None,
        )
        for slice_ in slices
    ]


def runs_on(slice_: Slice, live: Iterable[Run]) -> tuple[str, ...]:
    """Return the IDs of the live runs on a slice, and not on an earlier one of the same name."""
    return tuple(sorted(run.id for run in live if _is_on(run, slice_)))


def _is_on(run: Run, slice_: Slice) -> bool:
    if slice_.is_tpu_node and run.tpu_node == slice_.name and run.zone == slice_.zone:
        return run.project in (None, slice_.project)
    is_same = (run.slice, run.zone) == (slice_.name, slice_.zone) and run.project in (None, slice_.project)
    return is_same and (run.slice_created is None or slice_.created in (None, run.slice_created))


def group_rows(groups: Iterable[InstanceGroup], live: Sequence[Run]) -> list[CloudResource]:
    """Return the rows of managed instance groups, whose VMs cost money; `live` are the runs that have not ended."""
    return [
        CloudResource(
            GROUP,
            group.name,
            group.zone,
            {True: "STABLE", False: "CHANGING", None: None}[group.is_stable],
            group.created,
            None if (chips := chips_of_machine(group.machine_type)) is None else chips * group.size,
            group.labels,
            tuple(sorted(run.id for run in live if (run.slice, run.zone) == (group.name, group.zone))),
            group.made_by_us,
            group.size > 0,
            uses=_parts_of(group),
            made_for=group.path if group.made_by_us else None,
        )
        for group in groups
    ]


def _parts_of(group: InstanceGroup) -> tuple[str, ...]:
    """Return the refs of a group's template, of its workload policy, which is in its region, and of its TPU Node."""
    region = group.zone if group.is_regional else region_of(group.zone)
    parts = {
        f"{TEMPLATE}/{group.template}": group.template,
        f"{POLICY}/{region}/{group.policy}": group.policy,
        f"{SLICE}/{group.zone}/{group.tpu_node}": group.tpu_node,
    }
    return tuple(ref for ref, name in parts.items() if name)


def attach_groups(slices: Iterable[CloudResource], groups: Iterable[CloudResource]) -> list[CloudResource]:
    """Return the rows of slices; a TPU Node is used by the groups whose VMs drive it, too."""
    drivers = users_by_ref(groups)
    return [replace(row, used_by=(*(row.used_by or ()), *drivers.get(row.ref, ()))) for row in slices]


def queued_rows(
    requests: Iterable[QueuedRequest], slices: Iterable[CloudResource], slices_known: bool
) -> list[CloudResource]:
    """Return the rows of queued resources, which cost nothing themselves; runs on their slices use them."""
    runs: dict[str, list[str]] = defaultdict(list)
    for slice_ in slices:
        if slice_.belongs_to:
            runs[slice_.belongs_to] += slice_.used_by or ()
    return [
        CloudResource(
            QUEUED,
            request.name,
            request.zone,
            request.state,
            request.created,
            _chips(request.accelerator_type, len(request.nodes)),
            request.labels,
            tuple(sorted(runs[request.path])) if slices_known else None,
            is_made_by_us(request.labels),
            False,
        )
        for request in requests
    ]


def disk_users(slices: Iterable[Slice], requests: Iterable[QueuedRequest]) -> dict[str, list[str]]:
    """Return the slices, and the queued resources without slices, by the `zone/name` of their disks."""
    users: dict[str, list[str]] = defaultdict(list)
    provisioned = {f"{slice_.zone}/{slice_.queued_resource}" for slice_ in slices}
    for slice_ in slices:
        for disk in slice_.data_disks:
            users[_disk_path(disk)].append(slice_.name)
    for request in requests:
        for disk in () if request.path in provisioned else request.data_disks:
            users[_disk_path(disk)].append(request.name)
    return users


def _disk_path(source: str) -> str:
    """Return `zone/name` of `projects/P/zones/Z/disks/NAME`."""
    parts = source.split("/")
    return f"{parts[-3]}/{parts[-1]}" if len(parts) >= 4 else source


def bucket_rows(buckets: Iterable[CloudResource], runs: Sequence[Run]) -> list[CloudResource]:
    """Return the buckets with the runs, also ended ones, whose command, variables or reports name them."""
    return [replace(bucket, used_by=_runs_naming(bucket.name, runs)) for bucket in buckets]


def _runs_naming(bucket: str, runs: Iterable[Run]) -> tuple[str, ...]:
    address = re.compile(rf"gs://{re.escape(bucket)}(?![a-z0-9._-])")
    return tuple(sorted(run.id for run in runs if any(map(address.search, _texts(run)))))


def _texts(run: Run) -> Iterator[str]:
    yield from run.job.argv
    yield from run.job.env.values()
    yield from run.job.on_end


def _chips(type_name: str | None, slices: int) -> int | None:
    parsed = accelerator.parse(type_name) if type_name else None
    return parsed.chips * slices if parsed else None
