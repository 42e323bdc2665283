"""Accelerator types: what the number after the dash counts, and what follows from it."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass

_NAME = re.compile(r"(?P<generation>v\d+[a-z]*|tpu\d+[a-z]*)-(?P<number>[1-9]\d{0,5})")
_TOPOLOGY = re.compile(r"[1-9]\d{0,3}(?:x[1-9]\d{0,3}){0,2}")
_CHIPS_PER_VM = 4
"""Of slices of several VMs that are created by type."""


@dataclass(frozen=True, slots=True)
class Generation:
    """What is the same for all types of a TPU generation.

    `counted_per_chip` is what the number in a type's name counts for each chip; `hbm_gib` is the HBM per XLA device
    in GiB. A slice of up to `most_chips_on_one_vm` chips is one VM.
    """

    counted_per_chip: int
    devices_per_chip: int
    hbm_gib: int
    most_chips_on_one_vm: int = _CHIPS_PER_VM
    in_tpu_api: bool = True
    """Whether the Cloud TPU API creates it; Compute Engine creates v5p and later."""


GENERATIONS: Mapping[str, Generation] = {
    "v2": Generation(2, 2, 8),
    "v3": Generation(2, 2, 16),
    "v4": Generation(2, 1, 32),
    "v5litepod": Generation(1, 1, 16, most_chips_on_one_vm=8),
    "v5p": Generation(2, 1, 95),
    "v6e": Generation(1, 1, 32, most_chips_on_one_vm=8),
    "tpu7x": Generation(2, 2, 96, in_tpu_api=False),
}
"""Every known generation. Sources: Cloud TPU documentation, the page of each TPU version and "TPU instances in MIGs".
A TPU7x chip has 192 GiB of HBM and is two XLA devices ("TPU7x (Ironwood)", "Dual-chiplet architecture"). Its types
count TensorCores: xpk calls the topology 2x2x1 tpu7x-8 and 4x4x4 tpu7x-128."""

CONFIG_TYPES = {"v2": "V2", "v3": "V3", "v4": "V4", "v5litepod": "V5LITE_POD", "v5p": "V5P", "v6e": "V6E"}
"""The name of a generation's AcceleratorConfig.Type in the Cloud TPU API."""
TPU_API_GENERATIONS = tuple(name for name, generation in GENERATIONS.items() if generation.in_tpu_api)
"""The generations that the Cloud TPU API creates."""
TPU_NODE_GENERATIONS = ("v2", "v3")
"""The generations that have TPU Nodes (Cloud TPU documentation, "TPU architectures"); later ones are TPU VMs only."""
LONGEST_NODE_PREFIX = 29
"""The smallest block of addresses that a TPU Node can have is a /29."""


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
    def hbm_gib(self) -> int:
        """HBM per XLA device in GiB."""
        return GENERATIONS[self.generation].hbm_gib


def parse(name: str) -> Accelerator | None:
    """Parse `v3-32`, `v5litepod-16`, `tpu7x-8`, …; None for an unknown generation.

    v2, v3, v4, v5p and TPU7x count TensorCores, two per chip; v5e and v6e count chips.
    """
    match = _NAME.fullmatch(name)
    generation = GENERATIONS.get(match["generation"]) if match else None
    if match is None or generation is None:
        return None
    chips = int(match["number"]) // generation.counted_per_chip
    workers = 1 if chips <= generation.most_chips_on_one_vm else chips // _CHIPS_PER_VM
    return Accelerator(name, match["generation"], chips, workers, max(1, chips * generation.devices_per_chip))


def type_of_topology(generation: str, topology: str) -> str | None:
    """Return the type of a generation's topology in chips: `v4-16` of `v4` and `2x2x2`; None for other text."""
    details, chips = GENERATIONS.get(generation), chips_of_topology(topology)
    return f"{generation}-{details.counted_per_chip * chips}" if details and chips else None


def chips_of_topology(topology: str) -> int | None:
    """Return the chips of `2x2x4`; None for other text."""
    if not _TOPOLOGY.fullmatch(topology):
        return None
    return math.prod(int(side) for side in topology.split("x"))
