"""What exists in the cloud and may cost money: its rows, what each costs, and the order in which it is deleted. Pure.

Sources for the cost: Cloud TPU pricing (a node is charged while it is READY, and its disks also while it is stopped),
Compute Engine disk and image pricing (by size, used or not), Cloud Storage pricing (by stored bytes, soft-deleted
objects included).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from tui.errors import TpuTuiError, UsageError, did_you_mean, near_matches
from tui.pod.creation.machine_request import CREATED_BY
from tui.text.timestamps import seconds_since

SLICE, QUEUED, GROUP, TEMPLATE, POLICY = "slice", "queued-resource", "group", "template", "policy"
IMAGE, DISK, BUCKET = "image", "disk", "bucket"
KINDS = (SLICE, QUEUED, GROUP, TEMPLATE, IMAGE, DISK, POLICY, BUCKET)
"""Every kind of row."""
DELETION_ORDER = ((QUEUED, GROUP), (SLICE,), (TEMPLATE, POLICY), (IMAGE, DISK), (BUCKET,))
"""The kinds that are deleted at the same time, users before what they use."""
DESCRIPTION_PREFIX = "tpu-tui:"
"""Begins the description of what tpu-tui creates, where a resource has no labels."""
_USERS = {SLICE: (GROUP,), DISK: (SLICE, QUEUED), TEMPLATE: (GROUP,), POLICY: (GROUP,), IMAGE: (TEMPLATE,)}
"""The kinds of each kind's possible users, in the order of deletion. A resource without users is unused."""
_SLICES_WITHOUT_COST = ("CREATING", "PREEMPTED", "TERMINATED", "DELETING")
"""States in which a slice is not charged; a stopped one has disks."""


@dataclass(frozen=True, slots=True)
class CloudResource:
    """One resource. What the API does not report is None, never a guess.

    `zone` is the region of a regional disk and of a bucket, and None for an image. `created` is RFC 3339. `used_by`
    names runs, slices, groups, templates and machines; for a slice, a queued resource, a group or a bucket, only
    runs. None is unknown.
    """

    kind: str
    name: str
    zone: str | None = None
    state: str | None = None
    created: str | None = None
    chips: int | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    used_by: tuple[str, ...] | None = ()
    made_by_us: bool = False
    cost_relevant: bool | None = None
    size_gb: float | None = None
    """Of disks and images."""
    is_empty: bool | None = None
    """Of buckets: whether nothing is stored in it."""
    belongs_to: str | None = None
    """Of slices: the path of the queued resource that created it."""
    uses: tuple[str, ...] = ()
    """Of groups and templates: the refs of the resources they need, which can be deleted only after them."""
    made_for: str | None = None
    """The path of the group for which tpu-tui made it; of a group, its own path."""

    @property
    def path(self) -> str:
        """`zone/name`, or the bare name; a bucket is `gs://name`."""
        if self.kind == BUCKET:
            return f"gs://{self.name}"
        return f"{self.zone}/{self.name}" if self.zone else self.name

    @property
    def ref(self) -> str:
        """The path with the kind in front, which is unique; `resources delete` accepts it."""
        return self.path if self.kind == BUCKET else f"{self.kind}/{self.path}"

    @property
    def is_unused(self) -> bool:
        """Return whether `--unused` may delete it: tpu-tui made it, nothing uses it, and nothing is stored in it."""
        return self.made_by_us and self.used_by == () and (self.kind != BUCKET or self.is_empty is True)

    def age_s(self, now: datetime | None = None) -> int | None:
        """Return the seconds since it was created."""
        return seconds_since(self.created, now)

    def to_json(self) -> dict[str, Any]:
        """Return the row that `resources --json` prints (names are stable)."""
        return {
            "kind": self.kind,
            "name": self.name,
            "zone": self.zone,
            "state": self.state,
            "created": self.created,
            "age_s": self.age_s(),
            "chips": self.chips,
            "labels": dict(self.labels),
            "used_by": None if self.used_by is None else list(self.used_by),
            "made_by_us": self.made_by_us,
            "cost_relevant": self.cost_relevant,
            "size_gb": self.size_gb,
        }


@dataclass(frozen=True, slots=True)
class ResourceListing:
    """The resources found, the most expensive and oldest first, and the problems that may hide others."""

    resources: tuple[CloudResource, ...] = ()
    problems: tuple[TpuTuiError, ...] = ()


def is_made_by_us(labels: Mapping[str, str], description: str = "") -> bool:
    """Return whether tpu-tui created a resource, by its label or, without labels, by its description."""
    if labels:
        return labels.get(CREATED_BY[0]) == CREATED_BY[1]
    return description.startswith(DESCRIPTION_PREFIX)


def slice_costs(state: str | None) -> bool | None:
    """Return whether a slice in this state is charged; None where the state is unknown."""
    return None if state is None else state not in _SLICES_WITHOUT_COST


def in_order_of_cost(resources: Iterable[CloudResource]) -> list[CloudResource]:
    """Return the resources: what costs first, then unknown cost, then the rest; within each the oldest first."""
    rank = {True: 0, None: 1, False: 2}
    return sorted(
        resources, key=lambda resource: (rank[resource.cost_relevant], resource.created or "~", resource.ref)
    )


def in_order_of_deletion(resources: Iterable[CloudResource]) -> list[list[CloudResource]]:
    """Return the stages of a deletion, without slices that are deleted with a queued resource of the deletion."""
    chosen = list(resources)
    remaining = [resource for resource in chosen if holder_of(resource, chosen) is resource]
    stages = ([resource for resource in remaining if resource.kind in kinds] for kinds in DELETION_ORDER)
    return [stage for stage in stages if stage]


def holder_of(resource: CloudResource, chosen: Iterable[CloudResource]) -> CloudResource:
    """Return the queued resource of a deletion with which a slice is deleted, else the resource itself."""
    return next((row for row in chosen if _goes_with(resource, row)), resource)


def _goes_with(resource: CloudResource, other: CloudResource) -> bool:
    """Return whether a resource is a slice that is deleted with the queued resource that created it."""
    return resource.kind == SLICE and other.kind == QUEUED and resource.belongs_to == other.path


def find_unused(resources: Sequence[CloudResource]) -> list[CloudResource]:
    """Return what `--unused` deletes: what nothing uses, and what only others of the same deletion use."""
    unused = [resource for resource in resources if resource.is_unused]
    for kind, users in _USERS.items():
        going = {resource.path for resource in unused if resource.kind in users}
        unused += [
            resource
            for resource in resources
            if resource.kind == kind
            and resource.made_by_us
            and resource.used_by
            and all((f"{resource.zone}/{user}" if kind == DISK else user) in going for user in resource.used_by)
        ]
    return unused


def users_by_ref(resources: Iterable[CloudResource]) -> dict[str, list[str]]:
    """Return the paths of the resources that name each ref in `uses`."""
    users: dict[str, list[str]] = {}
    for resource in resources:
        for ref in resource.uses:
            users.setdefault(ref, []).append(resource.path)
    return users


def attach_users(resources: Iterable[CloudResource], incomplete: Iterable[str] = ()) -> list[CloudResource]:
    """Return the resources, each with the paths of the others that name it in `uses`.

    Not all resources of the `incomplete` kinds are known: what they may use has unknown users (None) if it has none.
    """
    listed, hidden = list(resources), set(incomplete)
    users = users_by_ref(listed)

    def used_by(resource: CloudResource) -> tuple[str, ...] | None:
        if resource.ref in users:
            return tuple(sorted(users[resource.ref]))
        return None if hidden.intersection(_USERS.get(resource.kind, ())) else resource.used_by

    return [replace(resource, used_by=used_by(resource)) for resource in listed]


def find_resources(names: Sequence[str], listing: ResourceListing) -> list[CloudResource]:
    """Return the resources of these names: `NAME`, `ZONE/NAME`, `KIND/…` or `gs://NAME`, each once.

    Raises UsageError for a name of no or several resources, or the problem of the listing that may hide one.
    """
    found = [_find(name, listing) for name in names]
    return list({resource.ref: resource for resource in found}.values())


def _find(name: str, listing: ResourceListing) -> CloudResource:
    matches = [row for row in listing.resources if name in (row.name, row.path, f"{row.kind}/{row.name}", row.ref)]
    queued = [resource for resource in matches if resource.kind == QUEUED]
    if len(queued) == 1 and all(
        resource is queued[0] or resource.belongs_to == queued[0].path for resource in matches
    ):
        return queued[0]
    if len(matches) == 1:
        return matches[0]
    if matches:
        refs = ", ".join(sorted(resource.ref for resource in matches))
        raise UsageError(f"{name} is the name of several resources", remedy=f"name one of: {refs}")
    if listing.problems:
        raise listing.problems[0]
    near = near_matches(name, (resource.name for resource in listing.resources))
    raise UsageError(
        f"no such resource: {name}", remedy=did_you_mean(near) if near else "tpu-tui resources lists them"
    )


def describe_effect(chosen: Sequence[CloudResource], known: Iterable[CloudResource]) -> list[str]:
    """Return a line for each resource of a deletion, in its order, with what else is lost with it."""
    slices = [resource for resource in known if resource.kind == SLICE]
    return [
        _effect(resource, [slice_ for slice_ in slices if _goes_with(slice_, resource)])
        for stage in in_order_of_deletion(chosen)
        for resource in stage
    ]


def _effect(resource: CloudResource, slices: Sequence[CloudResource]) -> str:
    parts = [resource.ref]
    if resource.state:
        parts.append(resource.state)
    if slices:
        parts.append(f"with its slices {', '.join(slice_.name for slice_ in slices)} and their disks")
    elif resource.kind == SLICE:
        parts.append("with the disks of its workers")
    elif resource.kind == GROUP:
        parts.append("with its VMs and their disks")
    elif resource.kind == BUCKET and not resource.is_empty:
        parts.append("with everything that is stored in it")
    if resource.used_by:
        parts.append(f"used by {', '.join(resource.used_by)}")
    if not resource.made_by_us:
        parts.append("not made by tpu-tui")
    return " · ".join(parts)
