"""Managed instance groups as a source of slices (Compute Engine API v1, by REST in threads).

A refresh is one aggregated list of the groups, and two requests for each group that is a slice. Templates, which
never change, are read once.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tui.cloud.api_errors import is_missing
from tui.cloud.compute.compute_requests import ComputeRequests
from tui.cloud.guest_attributes import HOST_KEYS
from tui.cloud.instance_groups import group_messages
from tui.cloud.instance_groups.group_messages import Document
from tui.cloud.instance_groups.vm_losses import explain_losses
from tui.cloud.inventory import Listing, gather_answers
from tui.errors import TpuTuiError, UsageError
from tui.pod.api_paths import last_part
from tui.pod.instance_group import InstanceGroup
from tui.pod.slice import Slice
from tui.pod.worker import Worker
from tui.settings import Settings

ROLE = "roles/compute.viewer"
"""Permits every request of this source."""
LIST_PERMISSION = "compute.instanceGroupManagers.list"
_GET_PERMISSION = "compute.instanceGroupManagers.get"
_MANAGERS = "instanceGroupManagers"
_NAMES_PER_FILTER = 50
"""Names of VMs in one filter, which is part of an address of limited length."""


@dataclass(frozen=True)
class GroupListing:
    """The groups found, slices or not, and the problems that may hide others."""

    groups: tuple[InstanceGroup, ...] = ()
    problems: tuple[TpuTuiError, ...] = ()


class InstanceGroups:
    """The managed instance groups of a project, and the slices that they are."""

    def __init__(self, settings: Settings, *, patience: float | None = None) -> None:
        self._requests = ComputeRequests(settings, role=ROLE, patience=patience)
        self._templates: dict[tuple[str, str], Document] = {}
        """By address and the group's creation time: a later group may have a new template of the same name."""

    async def list_groups(self) -> GroupListing:
        """Return the groups of the configured zones, or of all, and their regions. Raises CloudError."""
        managers, silent = await self._requests.aggregated("instance groups", LIST_PERMISSION, _MANAGERS)
        groups, problems = await gather_answers(map(self._with_template, managers))
        return GroupListing(tuple(sorted(groups, key=lambda group: group.path)), (*silent, *problems))

    async def slices_of(self, listing: GroupListing) -> Listing:
        """Return the slices among groups; a group whose VMs cannot be listed is among the problems."""
        regional = [_regional(group) for group in listing.groups if _is_lost_slice(group)]
        slices, problems = await gather_answers(self.slice_of(group) for group in listing.groups if group.is_slice)
        return Listing(tuple(slices), (*listing.problems, *regional, *problems))

    async def slice_of(self, group: InstanceGroup) -> Slice:
        """Return the slice that a group is, with its VMs as they are now. Raises CloudError, UsageError."""
        vms = [group_messages.vm_of(vm) for vm in await self._list_vms(group.name, group.zone)]
        instances = await self._instances(group, [vm.name for vm in vms if vm.id])
        return group_messages.slice_of_group(group, self._requests.project, vms, instances)

    async def find_group(self, name: str, zone: str) -> InstanceGroup | None:
        """Return a group by its name; None if there is none. Raises CloudError."""
        path = f"zones/{zone}/{_MANAGERS}/{name}"
        manager = await self._requests.get(f"instance group {name} cannot be read", _GET_PERMISSION, path)
        return await self._with_template(manager) if manager else None

    async def host_keys(self, slice_: Slice) -> Slice:
        """Return the slice with the host keys that its VMs published as guest attributes.

        Raises CloudError when the API cannot be reached.
        """
        keys = await asyncio.gather(*(self._host_keys(worker) for worker in slice_.workers))
        workers = (
            replace(worker, host_keys=host_keys) for worker, host_keys in zip(slice_.workers, keys, strict=True)
        )
        return replace(slice_, workers=tuple(workers))

    async def identity(self, slice_: Slice) -> tuple[tuple[str, ...], str | None]:
        """Return the network tags and the service account in the group's template. Raises CloudError."""
        group = await self.find_group(slice_.name, slice_.zone or "")
        return (group.tags, group.account) if group else ((), None)

    async def metadata(self, slice_: Slice) -> dict[str, str]:
        """Return the metadata in the group's template. Raises CloudError."""
        group = await self.find_group(slice_.name, slice_.zone or "")
        return dict(group.metadata) if group else {}

    async def describe(self, slice_: Slice) -> dict[str, Any]:
        """Return the API's documents of the group, its template and its VMs. Raises CloudError."""
        path = f"zones/{slice_.zone}/{_MANAGERS}/{slice_.name}"
        what = f"instance group {slice_.name} cannot be read"
        manager = await self._requests.get(what, _GET_PERMISSION, path) or {}
        template, vms = await asyncio.gather(self._template(manager), self._list_vms(slice_.name, slice_.zone or ""))
        return {"group": manager, "template": template, "vms": vms}

    async def explain_losses(self, slice_: Slice, lost: Sequence[Worker], since: str | None) -> dict[int, str]:
        """Return why workers of a run lost their VMs, from the operations of the zone. Raises CloudError."""
        names = "|".join(sorted({worker.hostname or "" for worker in lost}))
        targets = f"(.*/instances/({names})|.*/{_MANAGERS}/{slice_.name})"
        operations = await self._requests.items(
            f"operations in {slice_.zone} cannot be listed",
            "compute.zoneOperations.list",
            f"zones/{slice_.zone}/operations",
            filter=f'targetLink eq "{targets}"',
        )
        return explain_losses(operations, slice_.name, lost, slice_.workers, since)

    def delete(self, zone: str, name: str) -> AsyncIterator[str]:
        """Delete a group with its VMs, wait until it is gone, and yield the progress; its template stays."""
        path = f"zones/{zone}/{_MANAGERS}/{name}"
        return self._requests.delete(f"instance group {name}", "compute.instanceGroupManagers.delete", path)

    async def close(self) -> None:
        """Close connections."""
        await self._requests.close()

    async def _list_vms(self, name: str, zone: str) -> list[dict[str, Any]]:
        return await self._requests.items(
            f"the VMs of instance group {name} cannot be listed",
            _GET_PERMISSION,
            f"zones/{zone}/{_MANAGERS}/{name}/listManagedInstances",
            key="managedInstances",
            verb="POST",
        )

    async def _instances(self, group: InstanceGroup, names: Sequence[str]) -> dict[str, Document]:
        """Return the documents of VMs by name, without those that no longer exist."""
        batches = (names[first : first + _NAMES_PER_FILTER] for first in range(0, len(names), _NAMES_PER_FILTER))
        answers = await asyncio.gather(
            *(
                self._requests.items(
                    f"the VMs of instance group {group.name} cannot be read",
                    "compute.instances.list",
                    f"zones/{group.zone}/instances",
                    filter=f'name eq "({"|".join(batch)})"',
                )
                for batch in batches
            )
        )
        return {instance["name"]: instance for instances in answers for instance in instances}

    async def _host_keys(self, worker: Worker) -> tuple[str, ...]:
        _, _, path = (worker.instance or "").partition("/zones/")
        try:
            answer = await self._requests.ask(
                f"host keys of {worker.name} cannot be read",
                "compute.instances.getGuestAttributes",
                lambda client: client.get(
                    f"{client.project}/zones/{path}/getGuestAttributes", queryPath=f"{HOST_KEYS}/"
                ),
            )
        except TpuTuiError as error:
            if is_missing(error) or is_forbidden(error):
                return ()
            raise
        return group_messages.host_keys_of(answer)

    async def _with_template(self, manager: Document) -> InstanceGroup:
        is_of_gke = InstanceGroup(manager["name"], "").is_of_gke
        return group_messages.group_of(manager, None if is_of_gke else await self._template(manager))

    async def _template(self, manager: Document) -> Document | None:
        """Return the template of a group's VMs; None if it is gone, or may not be read."""
        link = group_messages.template_link(manager)
        key = (link, str(manager.get("creationTimestamp")))
        if link and key not in self._templates:
            _, _, path = link.partition("projects/")
            try:
                self._templates[key] = await self._requests.ask(
                    f"instance template {last_part(link)} cannot be read",
                    "compute.instanceTemplates.get",
                    lambda client: client.get(path),
                )
            except TpuTuiError as error:
                if not (is_missing(error) or is_forbidden(error)):
                    raise
        return self._templates.get(key)


def is_forbidden(error: TpuTuiError) -> bool:
    """Return whether a request failed because the API is disabled, or because this login may not make it."""
    from google.api_core.exceptions import Forbidden

    return isinstance(error.__cause__, Forbidden)


def _is_lost_slice(group: InstanceGroup) -> bool:
    """Return whether a regional group would be a slice if it were zonal."""
    return group.is_regional and replace(group, is_regional=False).is_slice


def _regional(group: InstanceGroup) -> UsageError:
    return UsageError(
        f"instance group {group.path} cannot be used as a slice",
        why="it is regional: its VMs may be in several zones",
        remedy="create a zonal group: tpu-tui groups create",
    )
