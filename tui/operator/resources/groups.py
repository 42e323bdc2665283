"""`Groups`: managed instance groups with their templates, images and policies: list, create, resize, delete."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tui.cloud.compute.groups.group_creation import GroupCreation
from tui.cloud.compute.groups.group_resizing import GroupResizing
from tui.errors import NoSuchResourceError, TpuTuiError, UsageError, did_you_mean, near_matches
from tui.operator.connections import Connections
from tui.pod.creation.slice_request import CreationStep
from tui.pod.groups.group_checks import check_group_request
from tui.pod.groups.group_request import GroupRequest
from tui.pod.resources import GROUP, IMAGE, POLICY, SLICE, TEMPLATE, CloudResource, describe_effect
from tui.pod.slice import Slice
from tui.pod.slice_commands import explain_group_stop

if TYPE_CHECKING:
    from tui.cloud.instance_groups.instance_groups import GroupListing
    from tui.operator.resources.resources import Resources
    from tui.operator.slices import Slices

PARTS = (TEMPLATE, POLICY, IMAGE)
"""The kinds of parts that a group is made of; they are deleted after it."""


@dataclass(frozen=True, slots=True)
class GroupDeletion:
    """What `groups delete` deletes, in any order, and a sentence about each thing that stays."""

    chosen: tuple[CloudResource, ...]
    stays: tuple[str, ...]


class Groups:
    """The managed instance groups of the project, whether or not they are slices."""

    def __init__(self, connections: Connections, resources: Resources, slices: Slices) -> None:
        self._connections = connections
        self._resources = resources
        self._slices = slices

    async def list_all(self) -> GroupListing:
        """Return every managed group of the configured zones, or of all; places that failed are problems.

        Raises UsageError with a hosts file.
        """
        return await self._connections.cloud.list_groups()

    async def prepare(self, request: GroupRequest) -> GroupRequest:
        """Return a checked request, with the boot disk of the VM whose image it makes. Raises UsageError."""
        check_group_request(request)
        return await self._creation().prepare(request)

    def create(
        self, request: GroupRequest, *, dry_run: bool = False, waits: bool = True
    ) -> AsyncIterator[CreationStep]:
        """Create what is missing of a prepared request and yield the steps, until all VMs run.

        With `dry_run`, only yield what would be sent; without `waits`, end when the VMs are requested. As for slices,
        every VM has to finish a startup script.
        """
        if not dry_run:
            self._connections.require_changes("creating groups")
        steps = self._creation().create(request, dry_run=dry_run, waits=waits)
        return self._slices.with_startup(steps, request) if waits and not dry_run else steps

    def resize(self, ref: str, size: int, *, dry_run: bool = False, waits: bool = True) -> AsyncIterator[str]:
        """Resize a group, `NAME` or `ZONE/NAME`; yield the progress until all VMs run."""
        if not dry_run:
            self._connections.require_changes("resizing groups")
        zone, name = self._slices.place_of(ref)
        return GroupResizing(self._connections.settings, zone, name).resize(size, dry_run=dry_run, waits=waits)

    async def size_of(self, ref: str) -> int:
        """Return the present size of a group. Raises UsageError if there is none."""
        zone, name = self._slices.place_of(ref)
        listing = await self.list_all()
        matches = [group for group in listing.groups if (group.zone, group.name) == (zone, name)]
        if not matches:
            raise _no_such_group(name, zone, [group.name for group in listing.groups])
        return matches[0].size

    async def plan_deletion(self, ref: str, keep: Collection[str] = ()) -> GroupDeletion:
        """Plan to delete a group with the parts that tpu-tui made for it, except kinds to `keep` and parts in use.

        Parts that an interrupted deletion has left are found without the group. Raises UsageError where there is
        neither.
        """
        zone, name = self._slices.place_of(ref)
        path = f"{zone}/{name}"
        listing = await self._resources.list_compute()
        rows = listing.resources
        group = next((resource for resource in rows if resource.kind == GROUP and resource.path == path), None)
        parts = [resource for resource in rows if resource.kind in PARTS and resource.made_for == path]
        if group is None and not parts:
            if listing.problems:
                raise listing.problems[0]
            raise _no_such_group(name, zone, [resource.name for resource in rows if resource.kind == GROUP])
        chosen = [group] if group is not None else []
        stays: list[str] = []
        for part in sorted(parts, key=lambda part: PARTS.index(part.kind)):
            going = {resource.path for resource in chosen if part.ref in resource.uses}
            users = None if part.used_by is None else [user for user in part.used_by if user not in going]
            if part.kind in keep:
                stays.append(f"{part.kind} {part.name} stays, as --keep {part.kind} says")
            elif users is None or users:
                by = "perhaps others" if users is None else ", ".join(users)
                stays.append(f"{part.kind} {part.name} stays: {by} use{'' if users is None else 's'} it")
            else:
                chosen.append(part)
        stays += [
            f"{used.kind} {used.name} stays: tpu-tui did not make it for this group"
            for used in rows
            if group is not None and used.ref in group.uses and used not in parts
        ]
        for ref in group.uses if group is not None else ():
            kind, _, node = ref.partition("/")
            if kind == SLICE:
                stays.append(f"TPU Node {node} stays: tpu-tui slices delete {node} deletes it")
        return GroupDeletion(tuple(chosen), tuple(stays))

    async def change_slice(self, slice_: Slice, action: str, dry_run: bool) -> AsyncIterator[str]:
        """Delete the group that a slice is, with what tpu-tui made for it; yield the progress.

        Raises UsageError for other actions, and at the end the first problem of a deletion.
        """
        if action != "delete":
            what, why, remedy = explain_group_stop(slice_, action)
            raise UsageError(what, why=why, remedy=remedy)
        plan = await self.plan_deletion(slice_.path)
        for line in plan.stays:
            yield line
        if dry_run:
            for line in describe_effect(plan.chosen, plan.chosen):
                yield f"would delete {line}"
            return
        problems: list[TpuTuiError] = []
        async for step in self._resources.delete(plan.chosen):
            if step.text:
                yield step.text
            problems += [step.problem] if step.problem else []
        if problems:
            raise problems[0]

    def _creation(self) -> GroupCreation:
        return GroupCreation(self._connections.settings)


def _no_such_group(name: str, zone: str, names: Sequence[str]) -> UsageError:
    near = near_matches(name, names)
    remedy = did_you_mean(near) if near else "tpu-tui groups list lists them"
    return NoSuchResourceError(f"no such group in {zone}: {name}", remedy=remedy)
