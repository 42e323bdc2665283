"""Where a worker's room, memory, load and clock begin to matter; settable in a profile's `[thresholds]`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields


@dataclass(frozen=True)
class CheckThresholds:
    """Limits of the workers' checks; a profile's `[thresholds]` sets them by these names."""

    disk_free_gib: float = 5.0
    """Less free room than this is a warning."""
    disk_full_gib: float = 0.5
    """Less than this fails: logs and checkpoints will not fit."""
    memory_free_share: float = 0.1
    """A smaller share of memory left is a warning."""
    load_per_cpu: float = 1.5
    """More processes wanting a CPU than this, for each CPU, is a warning."""
    clock_skew_seconds: float = 2.0
    """Clocks further apart than this are a warning: times of logs cannot be compared."""
    clock_fail_seconds: float = 300.0
    """Further apart than this fails: Google's tokens are refused (they live from their own time)."""

    @classmethod
    def read(cls, values: Mapping[str, float]) -> CheckThresholds:
        """Take the limits of ours among a profile's thresholds; others belong to others."""
        return cls(**{item.name: float(values[item.name]) for item in fields(cls) if item.name in values})
