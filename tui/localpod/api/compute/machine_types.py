"""The machine types that the pod offers, and the metadata `tpu-env`, which describes the slice of a TPU machine."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tui.localpod.api.compute.answers import ROOT
from tui.pod.accelerator import type_of_topology
from tui.pod.instance_group import chips_of_machine, generation_of_machine

_FAMILIES = {"n1-standard": 3.75, "n1-highmem": 6.5, "n1-highcpu": 0.9, "n2-standard": 4.0, "e2-standard": 4.0}
"""Memory per virtual CPU in GiB (Compute Engine documentation, machine families)."""
_CPUS = (1, 2, 4, 8, 16, 32, 64, 96)
_TPU_HOSTS = {
    "ct4p-hightpu-4t": (240, 407),
    "ct5lp-hightpu-1t": (24, 48),
    "ct5lp-hightpu-4t": (112, 192),
    "ct5lp-hightpu-8t": (224, 384),
    "ct5p-hightpu-4t": (208, 448),
    "ct6e-standard-1t": (44, 176),
    "ct6e-standard-4t": (180, 720),
    "ct6e-standard-8t": (180, 1440),
    "tpu7x-standard-4t": (224, 960),
}
"""Virtual CPUs, and memory in GiB, of the types with TPU chips (Cloud TPU documentation)."""
_HOST_BOUNDS = {1: (1, 1, 1), 4: (2, 2, 1), 8: (2, 4, 1)}
"""The chips of one machine in each dimension."""


@dataclass(frozen=True)
class OfferedMachine:
    """A machine type: virtual CPUs, memory in MB, and TPU chips."""

    name: str
    cpus: int
    memory_mb: int
    chips: int = 0

    @property
    def family(self) -> str:
        """The TPU family in the name: `ct6e`, `tpu7x`; empty for machines without chips."""
        return self.name.partition("-")[0] if self.chips else ""

    def to_document(self, project: str, zone: str) -> dict[str, Any]:
        """Return the machine type in the form of the API's answers."""
        place = f"projects/{project}/zones/{zone}"
        document: dict[str, Any] = {
            "kind": "compute#machineType",
            "id": str(sum(self.name.encode())),
            "name": self.name,
            "description": f"{self.cpus} vCPUs, {self.memory_mb // 1024} GB RAM",
            "guestCpus": self.cpus,
            "memoryMb": self.memory_mb,
            "isSharedCpu": False,
            "zone": zone,
            "selfLink": f"{ROOT}{place}/machineTypes/{self.name}",
        }
        if self.chips:
            document["accelerators"] = [{"guestAcceleratorType": self.family, "guestAcceleratorCount": self.chips}]
        return document


def _offered() -> Iterator[OfferedMachine]:
    for family, memory in _FAMILIES.items():
        for cpus in _CPUS:
            yield OfferedMachine(f"{family}-{cpus}", cpus, int(cpus * memory * 1024))
    for name, (cpus, memory_gib) in _TPU_HOSTS.items():
        yield OfferedMachine(name, cpus, memory_gib * 1024, chips_of_machine(name) or 0)


MACHINE_TYPES = {machine.name: machine for machine in _offered()}


def tpu_env(machine: OfferedMachine, topology: str, worker: int, zone: str) -> str:
    """Return the metadata `tpu-env` of one machine of a slice; an empty topology means a slice of one machine."""
    bounds = _HOST_BOUNDS[machine.chips]
    sides = [int(side) for side in topology.split("x")] if topology else list(bounds)
    sides += [1] * (3 - len(sides))
    hosts = [max(1, side // bound) for side, bound in zip(sides, bounds, strict=True)]
    values = {
        "ACCELERATOR_TYPE": type_of_topology(generation_of_machine(machine.name), "x".join(map(str, sides))),
        "TYPE": machine.family.upper(),
        "TOPOLOGY": topology or "x".join(map(str, sides)),
        "CHIPS_PER_HOST_BOUNDS": ",".join(map(str, bounds)),
        "HOST_BOUNDS": ",".join(map(str, hosts)),
        "TPU_CHIPS_PER_PROCESS_BOUNDS": ",".join(map(str, bounds)),
        "TPU_PROCESS_BOUNDS": ",".join(map(str, hosts)),
        "WORKER_ID": str(worker),
        "TPU_WORKER_ID": str(worker),
        "ZONE": zone,
    }
    return "".join(f"{name}: '{value}'\n" for name, value in values.items())
