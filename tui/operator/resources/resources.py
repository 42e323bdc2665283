"""`Resources`: list what costs money, and delete it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING

from tui.cloud.compute.resource_listing import ComputeResources
from tui.cloud.compute.resource_rows import attach_slices
from tui.cloud.instance_groups.instance_groups import GroupListing
from tui.cloud.inventory import Listing, or_problem
from tui.cloud.storage.bucket_lifecycle import BucketLifecycle
from tui.errors import TpuTuiError
from tui.operator.connections import Connections
from tui.operator.resources.deletion import Deletion, DeletionStep
from tui.operator.resources.usage import (
    attach_groups,
    bucket_rows,
    disk_users,
    group_rows,
    queued_rows,
    runs_on,
    slice_rows,
)
from tui.operator.runs import Runs
from tui.pod.creation.queued_request import QueuedListing
from tui.pod.resources import GROUP, QUEUED, TEMPLATE, CloudResource, ResourceListing, attach_users, in_order_of_cost

if TYPE_CHECKING:
    from tui.cloud.tpu.tpu_api import TpuApi


class Resources:
    """Slices, queued resources, groups and what they are made of, disks, and the buckets that tpu-tui created."""

    def __init__(self, connections: Connections, runs: Runs) -> None:
        self._connections = connections
        self._runs = runs

    async def list_all(self) -> ResourceListing:
        """Return every resource, those that cost money first; a zone or an API that fails is among the problems.

        Raises UsageError with a hosts file, whose machines are not in Google Cloud.
        """
        tpu, compute = self._tpu, ComputeResources(self._connections.settings)
        async with self._buckets() as buckets:
            slices, queued, disks, of_groups, own_buckets, statuses = await asyncio.gather(
                or_problem(tpu.nodes(), Listing),
                or_problem(tpu.queued_requests(), QueuedListing),
                or_problem(compute.disks(), ResourceListing),
                self.list_compute(),
                or_problem(buckets.list_own(), ResourceListing),
                asyncio.to_thread(self._runs.list_statuses),
            )
        is_whole = not (slices.problems or queued.problems)
        rows = slice_rows(slices.slices, [status.run for status in statuses if not status.state.is_over])
        rows = attach_groups(rows, of_groups.resources)
        rows += queued_rows(queued.requests, rows, is_whole)
        users = disk_users(slices.slices, queued.requests)
        rows += attach_slices(disks.resources, users, slices_known=is_whole)
        rows += of_groups.resources
        rows += bucket_rows(own_buckets.resources, [status.run for status in statuses])
        problems = _problems_of(slices, queued, disks, of_groups, own_buckets)
        return ResourceListing(tuple(in_order_of_cost(rows)), problems)

    async def list_compute(self) -> ResourceListing:
        """Return the groups, templates, policies and images, each with its users, and what could not be listed."""
        compute = ComputeResources(self._connections.settings)
        groups, templates, policies, images, statuses = await asyncio.gather(
            or_problem(self._connections.cloud.list_groups(), GroupListing),
            or_problem(compute.templates(), ResourceListing),
            or_problem(compute.policies(), ResourceListing),
            or_problem(compute.images(), ResourceListing),
            asyncio.to_thread(self._runs.list_statuses),
        )
        live = [status.run for status in statuses if not status.state.is_over]
        rows = [*group_rows(groups.groups, live), *images.resources, *templates.resources, *policies.resources]
        incomplete = [kind for kind, listing in ((GROUP, groups), (TEMPLATE, templates)) if listing.problems]
        problems = _problems_of(groups, templates, policies, images)
        return ResourceListing(tuple(attach_users(rows, incomplete)), problems)

    def delete(self, resources: Sequence[CloudResource], *, only_unused: bool = False) -> AsyncIterator[DeletionStep]:
        """Delete resources of the last listing, those that use others first; yield the progress of each.

        A failure does not stop the other deletions. With `only_unused`, a resource on which a run is live by then is
        kept; the workers of slices are queried for this.
        """
        self._connections.require_changes("deleting resources")
        deletion = Deletion(
            self._tpu,
            ComputeResources(self._connections.settings),
            self._buckets,
            self._live_runs if only_unused else None,
        )
        return deletion.run(resources)

    async def _live_runs(self, resource: CloudResource) -> list[str]:
        """Return the runs that live now on a slice, a group, a TPU Node's group, or a queued resource's slices.

        Raises OutOfReachError where that cannot be known.
        """
        listing = await (self._tpu.nodes() if resource.kind == QUEUED else self._connections.cloud.slices())
        slices = [
            slice_
            for slice_ in listing.slices
            if resource.path
            in (slice_.path, f"{slice_.zone}/{slice_.queued_resource}", f"{slice_.zone}/{slice_.tpu_node}")
        ]
        if listing.problems and not slices:
            raise listing.problems[0]
        statuses = await asyncio.to_thread(self._runs.list_statuses)
        live = [status.run for status in statuses if not status.state.is_over]
        run_ids = {run for slice_ in slices for run in runs_on(slice_, live)}
        for slice_ in slices:
            if not run_ids and slice_.is_ready and slice_.workers:
                run_ids.update(await self._runs.live_on_workers(slice_))
        return sorted(run_ids)

    def _buckets(self) -> BucketLifecycle:
        return BucketLifecycle(self._connections.settings)

    @property
    def _tpu(self) -> TpuApi:
        return self._connections.cloud.tpu


def _problems_of(*listings: Listing | QueuedListing | GroupListing | ResourceListing) -> tuple[TpuTuiError, ...]:
    """Return the problems of all listings, each once."""
    return tuple({str(problem): problem for listing in listings for problem in listing.problems}.values())
