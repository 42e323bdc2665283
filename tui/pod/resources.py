"""What exists in the cloud and may cost money: its rows, what each costs, and the order in which it is deleted. Pure.

Sources for the cost: Cloud TPU pricing (a node is charged while it is READY, and its disks also while it is stopped),
Compute Engine disk and image pricing (by size, used or not), Cloud Storage pricing (by stored bytes, soft-deleted
objects included).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any

from tui.errors import TpuTuiError, UsageError, did_you_mean, near_matches
from tui.pod.creation.slice_request import CREATED_BY

SLICE, QUEUED, IMAGE, DISK, BUCKET = "slice", "queued-resource", "image", "disk", "bucket"
KINDS = (SLICE, QUEUED, "group", "template", IMAGE, DISK, "policy", BUCKET)
"""Every kind of row; groups, templates and policies are not listed yet."""
DELETION_ORDER = ((QUEUED,), (SLICE,), (IMAGE, DISK), (BUCKET,))
"""The kinds that are deleted together, the ones that use others first."""
DESCRIPTION_PREFIX = "tpu-tui:"
"""Begins the description of what tpu-tui creates, where a resource has no labels."""
_SLICES_WITHOUT_COST = ("CREATING", "PREEMPTED", "TERMINATED", "DELETING")
"""States in which a slice is not charged; a stopped one has disks."""


@dataclass(frozen=True, slots=True)
class CloudResource:
    """One resource. What the API does not report is None, never a guess.

    `zone` is the region of a regional disk and of a bucket, and None for an image. `created` is RFC 3339. `used_by`
    names runs, slices and machines; for a slice, a queued resource or a bucket, only runs.
    """

    kind: str
    name: str
    zone: str | None = None
    state: str | None = None
    created: str | None = None
    chips: int | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    used_by: tuple[str, ...] = ()
    made_by_us: bool = False
    cost_relevant: bool | None = None
    size_gb: float | None = None
    """Of disks and images."""
    is_empty: bool | None = None
    """Of buckets: whether nothing is stored in it."""
    belongs_to: str | None = None
    """Of slices: the path of the queued resource that created it."""

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
        """Whether `--unused` may delete it: tpu-tui made it, nothing uses it, and nothing is stored in it."""
        return self.made_by_us and not self.used_by and (self.kind != BUCKET or self.is_empty is True)

    def age_s(self, now: datetime | None = None) -> int | None:
        """Return the seconds since it was created."""
        if self.created is None:
            return None
        created = datetime.fromisoformat(self.created.replace("Z", "+00:00"))
        return max(0, int(((now or datetime.now(timezone.utc)) - created).total_seconds()))

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
            "used_by": list(self.used_by),
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
    return sorted(resources, key=lambda one: (rank[one.cost_relevant], one.created or "~", one.ref))


def in_order_of_deletion(resources: Iterable[CloudResource]) -> list[list[CloudResource]]:
    """Return the stages of a deletion; slices that go with a queued resource of the same deletion are left out."""
    found = list(resources)
    queued = {one.path for one in found if one.kind == QUEUED}
    left = [one for one in found if one.kind != SLICE or one.belongs_to not in queued]
    stages = ([one for one in left if one.kind in kinds] for kinds in DELETION_ORDER)
    return [stage for stage in stages if stage]


def find_resources(names: Sequence[str], listing: ResourceListing) -> list[CloudResource]:
    """Return the resources of these names: `NAME`, `ZONE/NAME`, `KIND/…` or `gs://NAME`, each once.

    Raises UsageError for a name of none or of several, and a problem of the listing that may hide it.
    """
    found = {one.ref: one for name in names for one in [_find(name, listing)]}
    return list(found.values())


def _find(name: str, listing: ResourceListing) -> CloudResource:
    found = [one for one in listing.resources if name in _names_of(one)]
    queued = [one for one in found if one.kind == QUEUED]
    if len(queued) == 1 and all(one is queued[0] or one.belongs_to == queued[0].path for one in found):
        return queued[0]
    if len(found) == 1:
        return found[0]
    if found:
        refs = ", ".join(sorted(one.ref for one in found))
        raise UsageError(f"{name} is the name of several resources", remedy=f"name one of: {refs}")
    if listing.problems:
        raise listing.problems[0]
    near = near_matches(name, (one.name for one in listing.resources))
    raise UsageError(
        f"no such resource: {name}", remedy=did_you_mean(near) if near else "tpu-tui resources lists them"
    )


def _names_of(resource: CloudResource) -> tuple[str, ...]:
    return resource.name, resource.path, f"{resource.kind}/{resource.name}", resource.ref
