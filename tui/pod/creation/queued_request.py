"""A queued resource: a request that waits for capacity, its state and the slices that it makes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tui.errors import TpuTuiError
from tui.text.timestamps import seconds_since

LEFTOVER_STATES = ("FAILED", "SUSPENDED")
"""States in which a request has ended without slices, and keeps its name and possibly quota until it is deleted."""


@dataclass(frozen=True, slots=True)
class QueuedRequest:
    """A queued resource as the API reports it. Times are RFC 3339; `reason` explains the state where there is one."""

    name: str
    zone: str
    state: str | None
    reason: str | None
    nodes: tuple[str, ...]
    accelerator_type: str | None
    runtime_version: str | None
    created: str | None
    spot: bool
    valid_until: str | None = None
    labels: dict[str, str] = field(default_factory=dict)
    data_disks: tuple[str, ...] = ()
    """The disks that its slices will have, as `projects/P/zones/Z/disks/NAME`."""

    @property
    def path(self) -> str:
        """`zone/name`."""
        return f"{self.zone}/{self.name}"

    @property
    def is_leftover(self) -> bool:
        """Return whether the request has ended and only has to be deleted, or reset."""
        return self.state in LEFTOVER_STATES

    @property
    def age_s(self) -> int | None:
        """Seconds since the request was made."""
        return seconds_since(self.created)

    def to_json(self) -> dict[str, Any]:
        """Return the row that `slices queued --json` prints (names are stable)."""
        return {
            "name": self.name,
            "zone": self.zone,
            "state": self.state,
            "reason": self.reason,
            "nodes": list(self.nodes),
            "accelerator_type": self.accelerator_type,
            "runtime_version": self.runtime_version,
            "created": self.created,
            "age_s": self.age_s,
            "spot": self.spot,
            "valid_until": self.valid_until,
            "labels": self.labels,
            "leftover": self.is_leftover,
        }


@dataclass(frozen=True, slots=True)
class QueuedListing:
    """The queued resources found, and the problems that may hide others."""

    requests: tuple[QueuedRequest, ...] = ()
    problems: tuple[TpuTuiError, ...] = ()
