"""Limits for a worker's disk, memory, load and clock; set in a profile's `[thresholds]`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields


@dataclass(frozen=True)
class CheckThresholds:
    """Limits of the workers' checks; a profile's `[thresholds]` sets them by these names."""

    disk_free_gib: float = 5.0
    """Less free space is a warning."""
    disk_full_gib: float = 0.5
    """Less free space fails: logs and checkpoints will not fit."""
    memory_free_share: float = 0.1
    """A smaller share of free memory is a warning."""
    load_per_cpu: float = 1.5
    """A higher load average per CPU is a warning."""
    clock_skew_seconds: float = 2.0
    """A larger difference between clocks is a warning: times in logs cannot be compared."""
    clock_fail_seconds: float = 300.0
    """A larger difference fails: Google refuses tokens, whose validity depends on the time."""

    @classmethod
    def read(cls, values: Mapping[str, float]) -> CheckThresholds:
        """Return the limits from a profile's thresholds, which contain others too."""
        return cls(**{item.name: float(values[item.name]) for item in fields(cls) if item.name in values})
