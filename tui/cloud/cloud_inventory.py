"""The slices of a Google Cloud project: those of the Cloud TPU API and the instance groups, as one inventory."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from tui.cloud.api_errors import is_missing
from tui.cloud.instance_groups.group_messages import with_node
from tui.cloud.instance_groups.instance_groups import GroupListing, InstanceGroups, is_forbidden
from tui.cloud.instance_groups.node_pairing import pair_nodes
from tui.cloud.inventory import Listing, no_such_slice, or_error, or_problem, pick_slice
from tui.cloud.tpu.tpu_api import TpuApi
from tui.errors import TpuTuiError, UsageError
from tui.pod.instance_group import InstanceGroup
from tui.pod.slice import INSTANCE_GROUP, Slice
from tui.pod.worker import Worker

REFUSED_INTERVAL_S = 600.0
"""How long groups are not listed again after a refusal, which every refresh would repeat."""


class CloudInventory:
    """Both sources, queried in parallel: where one fails, that is a problem of the listing.

    `groups` is None for a local pod without a Compute Engine API. Where that API is disabled, or this login may not
    list groups, a listing has none, and a note about it.
    """

    def __init__(self, tpu: TpuApi, groups: InstanceGroups | None) -> None:
        self.tpu = tpu
        self.groups = groups
        self._note = ""
        self._refused_until = 0.0

    async def slices(self) -> Listing:
        """Return the slices of both sources. Raises CloudError if the Cloud TPU API fails and no group was found."""
        tpu, groups = await asyncio.gather(or_error(self.tpu.slices()), or_error(self._list_groups()))
        if isinstance(tpu, TpuTuiError):
            if isinstance(groups, TpuTuiError) or not groups.groups:
                raise tpu
            tpu = Listing(problems=(tpu,))
        if isinstance(groups, TpuTuiError):
            groups = GroupListing(problems=(groups,))
        nodes = {(node.zone, node.name): node for node in tpu.slices if node.is_tpu_node}
        paired = pair_nodes(groups.groups, [*nodes.values()])
        listing = (
            Listing() if self.groups is None else await self.groups.slices_of(replace(groups, groups=tuple(paired)))
        )
        slices = [_with_its_node(slice_, nodes) for slice_ in listing.slices]
        drivers = {(slice_.zone, slice_.tpu_node): slice_.name for slice_ in slices if slice_.tpu_node}
        rows = [
            replace(row, instance_group=drivers.get((row.zone, row.name))) if row.is_tpu_node else row
            for row in tpu.slices
        ]
        return Listing(
            tuple(sorted((*rows, *slices), key=lambda slice_: (slice_.zone or "", slice_.name))),
            (*tpu.problems, *listing.problems),
            (self._note,) if self._note else (),
        )

    async def list_groups(self) -> GroupListing:
        """Return all groups with their TPU Nodes. Raises CloudError where they cannot be listed."""
        if self.groups is None:
            return GroupListing()
        nodes, groups = await asyncio.gather(or_problem(self.tpu.nodes(), Listing), self.groups.list_groups())
        paired = pair_nodes(groups.groups, nodes.slices)
        return GroupListing(tuple(paired), (*groups.problems, *nodes.problems))

    async def get(self, name: str, zone: str | None) -> Slice:
        """Return one slice. Raises UsageError for none or several of that name, CloudError when a source fails.

        Where a group and a TPU Node have the same name, the name means the group.
        """
        if zone is None:
            return await self._pick(name)
        tpu, group = await asyncio.gather(or_error(self.tpu.get(name, zone)), or_error(self._find_group(name, zone)))
        if isinstance(group, InstanceGroup):
            if isinstance(tpu, TpuTuiError) or tpu.is_tpu_node:
                return await self._slice_of(group)
            if group.is_slice:
                remedy = "delete one, and create it again with another name"
                raise UsageError(f"{zone}/{name} is the name of a slice and of an instance group", remedy=remedy)
        if isinstance(tpu, Slice):
            return await self._with_its_group(tpu)
        if isinstance(group, TpuTuiError):
            raise group if isinstance(tpu, UsageError) and not isinstance(group, UsageError) else tpu
        if isinstance(tpu, UsageError) and self.groups is not None:
            listing = await self.slices()
            if any(slice_.source == INSTANCE_GROUP for slice_ in listing.slices):
                raise no_such_slice(name, zone, listing.slices)
        raise tpu

    async def find(self, name: str, zone: str) -> Slice | None:
        """Return the slice of a run as it is now; None if it is gone. Raises CloudError if that is unknown."""
        group = None if self.groups is None else await self.groups.find_group(name, zone)
        return await self.tpu.find(name, zone) if group is None else await self._slice_of(group)

    async def host_keys(self, slice_: Slice) -> Slice:
        """Return the slice with its workers' host keys, if they published any. Raises CloudError."""
        return await self._source_of(slice_).host_keys(slice_)

    async def identity(self, slice_: Slice) -> tuple[tuple[str, ...], str | None]:
        """Return the network tags and service account of the slice's workers. Raises CloudError."""
        return await self._source_of(slice_).identity(slice_)

    async def metadata(self, slice_: Slice) -> dict[str, str]:
        """Return the metadata of the slice's machines. Raises CloudError."""
        return await self._source_of(slice_).metadata(slice_)

    async def describe(self, slice_: Slice) -> dict[str, Any]:
        """Return what the slice's source reports about it. Raises CloudError, UsageError if it is gone."""
        return await self._source_of(slice_).describe(slice_)

    async def explain_losses(self, slice_: Slice, lost: Sequence[Worker], since: str | None) -> dict[int, str]:
        """Return why workers of a run lost their machines, by worker. Raises CloudError."""
        return await self._source_of(slice_).explain_losses(slice_, lost, since)

    async def close(self) -> None:
        """Close connections."""
        await self.tpu.close()
        if self.groups is not None:
            await self.groups.close()

    def _source_of(self, slice_: Slice) -> InstanceGroups | TpuApi:
        return self.groups if slice_.source == INSTANCE_GROUP and self.groups is not None else self.tpu

    async def _list_groups(self) -> GroupListing:
        """Return the groups; none while a refusal lasts. Raises CloudError for other failures."""
        if self.groups is None or time.monotonic() < self._refused_until:
            return GroupListing()
        try:
            listing = await self.groups.list_groups()
        except TpuTuiError as error:
            if not (is_forbidden(error) or is_missing(error)):
                raise
            self._refused_until = time.monotonic() + REFUSED_INTERVAL_S
            self._note = f"instance groups are not shown: {error.why}" if is_forbidden(error) else ""
            return GroupListing()
        self._note = ""
        return listing

    async def _find_group(self, name: str, zone: str) -> InstanceGroup | None:
        """Return a group by its name; None if there is none, or if groups may not be read. Raises CloudError."""
        if self.groups is None or time.monotonic() < self._refused_until:
            return None
        try:
            return await self.groups.find_group(name, zone)
        except TpuTuiError as error:
            if is_forbidden(error):
                return None
            raise

    async def _pick(self, name: str) -> Slice:
        """Find a slice by its name in the configured zones."""
        listing = await self.slices()
        matches = [slice_ for slice_ in listing.slices if slice_.name == name]
        driving = [slice_ for slice_ in matches if not slice_.is_tpu_node]
        has_groups = any(slice_.source == INSTANCE_GROUP for slice_ in listing.slices)
        if not (matches or has_groups or listing.problems) and self.tpu.zones:
            return await self.tpu.get(name, None)  # raises an error that names other zones
        return pick_slice(name, None, replace(listing, slices=tuple(driving)) if driving else listing)

    async def _slice_of(self, group: InstanceGroup) -> Slice:
        """Return a group's slice with its TPU Node, if it has one."""
        assert self.groups is not None
        if group.tpu_node:
            slice_, node = await asyncio.gather(
                self.groups.slice_of(group), self.tpu.find(group.tpu_node, group.zone)
            )
            return with_node(slice_, node) if node else slice_
        if not group.is_tpu:
            for slice_ in (await self.slices()).slices:
                if (slice_.source, slice_.path) == (INSTANCE_GROUP, group.path):
                    return slice_
        return await self.groups.slice_of(group)

    async def _with_its_group(self, slice_: Slice) -> Slice:
        """Return a TPU Node's slice with the name of the group that drives it."""
        if not slice_.is_tpu_node or self.groups is None:
            return slice_
        return next(
            (row for row in (await self.slices()).slices if row.path == slice_.path and row.is_tpu_node), slice_
        )


def _with_its_node(slice_: Slice, nodes: Mapping[tuple[str | None, str], Slice]) -> Slice:
    node = nodes.get((slice_.zone, slice_.tpu_node or ""))
    return with_node(slice_, node) if node else slice_
