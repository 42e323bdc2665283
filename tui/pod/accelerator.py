"""Accelerator types: what the number after the dash counts, and what hangs on it."""

from __future__ import annotations

import re
from dataclasses import dataclass

_NAME = re.compile(r"(?P<generation>v\d+[a-z]*|local)-(?P<number>[1-9]\d{0,5})")
_CORES_PER_VM = 8
_CHIPS_PER_VM = 4
_MAX_CHIPS_ON_ONE_VM = 8
"""v5litepod and v6e slices up to this many chips are one VM; larger ones have four chips a VM."""

HBM_GIB = {"v2": 8, "v3": 16, "v4": 32, "v5litepod": 16, "v5p": 95, "v6e": 32}
"""HBM per XLA device, GiB (Cloud TPU documentation, system architecture pages)."""


@dataclass(frozen=True, slots=True)
class Accelerator:
    """An accelerator type by its real core and chip arithmetic.

    `workers` is the number of VMs and `devices` the number of XLA devices that the type *should* have; what a
    slice really has is counted from the API, never taken from here.
    """

    name: str
    generation: str
    chips: int
    workers: int
    devices: int

    @property
    def devices_per_worker(self) -> int:
        """XLA devices each VM drives."""
        return self.devices // self.workers

    @property
    def chips_per_worker(self) -> int:
        """Chips, so `/dev/accel*` or `/dev/vfio/*` entries, on each VM."""
        return max(1, self.chips // self.workers)

    @property
    def hbm_gib(self) -> int | None:
        """HBM of one XLA device in GiB, None where it is not published."""
        return HBM_GIB.get(self.generation)


def parse(name: str) -> Accelerator | None:
    """Read `v3-32`, `v5litepod-16`, …; None when the generation is not one whose arithmetic is known.

    Source: Cloud TPU documentation, TPU versions. v2 and v3 count cores, two a chip; v4 and v5p count cores, but a
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
