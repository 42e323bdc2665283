"""Accelerator types: what the number after the dash counts, and what follows from it."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

_NAME = re.compile(r"(?P<generation>v\d+[a-z]*|local)-(?P<number>[1-9]\d{0,5})")
_CORES_PER_VM = 8
_CHIPS_PER_VM = 4
_CORES_PER_CHIP = {"v2": 2, "v3": 2, "v4": 2, "v5litepod": 1, "v5p": 2, "v6e": 1}
"""What the number in a type's name counts per chip; also every generation of the Cloud TPU API."""
GENERATIONS = tuple(_CORES_PER_CHIP)
_MAX_CHIPS_ON_ONE_VM = 8
"""v5litepod and v6e slices of up to this many chips are one VM; larger ones have four chips per VM."""

HBM_GIB = {"v2": 8, "v3": 16, "v4": 32, "v5litepod": 16, "v5p": 95, "v6e": 32}
"""HBM per XLA device, GiB (Cloud TPU documentation, system architecture pages)."""


@dataclass(frozen=True, slots=True)
class Accelerator:
    """An accelerator type with its numbers of chips, VMs and XLA devices.

    `workers` (VMs) and `devices` are what the type *should* have; what a slice really has is counted from the API.
    """

    name: str
    generation: str
    chips: int
    workers: int
    devices: int

    @property
    def devices_per_worker(self) -> int:
        """XLA devices per VM."""
        return self.devices // self.workers

    @property
    def chips_per_worker(self) -> int:
        """Chips per VM, i.e. entries `/dev/accel*` or `/dev/vfio/*`."""
        return max(1, self.chips // self.workers)

    @property
    def hbm_gib(self) -> int | None:
        """HBM per XLA device in GiB; None where it is not published."""
        return HBM_GIB.get(self.generation)


def parse(name: str) -> Accelerator | None:
    """Parse `v3-32`, `v5litepod-16`, …; None for an unknown generation.

    Source: Cloud TPU documentation, TPU versions. v2 and v3 count cores, two per chip; v4 and v5p count cores, but a
    chip is one device; v5e and v6e count chips.
    """
    match = _NAME.fullmatch(name)
    if match is None:
        return None
    generation, number = match["generation"], int(match["number"])
    if generation in ("v2", "v3"):
        return Accelerator(name, generation, number // 2, max(1, number // _CORES_PER_VM), number)
    if generation in ("v4", "v5p"):
        return Accelerator(name, generation, number // 2, max(1, number // _CORES_PER_VM), max(1, number // 2))
    if generation in ("v5litepod", "v6e"):
        workers = 1 if number <= _MAX_CHIPS_ON_ONE_VM else number // _CHIPS_PER_VM
        return Accelerator(name, generation, number, workers, number)
    return None


def type_of_topology(generation: str, topology: str) -> str | None:
    """Return the type of a generation's topology in chips: `v4-16` of `v4` and `2x2x2`; None for other text."""
    sides = topology.split("x")
    if generation not in _CORES_PER_CHIP or not all(side.isascii() and side.isdecimal() for side in sides):
        return None
    return f"{generation}-{_CORES_PER_CHIP[generation] * math.prod(int(side) for side in sides)}"
