"""A managed instance group and its VMs: as a slice, the group has its VMs as workers. Pure.

Source: Compute Engine API v1, `instanceGroupManagers` and `ManagedInstance`; "TPU resources in Compute Engine" for
the machine types.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tui.pod import accelerator

TPU_NODE_KEY = "tpu-node"
"""The key of a template's metadata that names the TPU Node of its group."""
_TPU_MACHINE = re.compile(r"(?P<family>ct\d+[a-z]*|tpu\d+[a-z]*)-.*?(?P<chips>\d+)t")
_GENERATIONS = {"ct4p": "v4", "ct5l": "v5litepod", "ct5lp": "v5litepod", "ct5p": "v5p", "ct6e": "v6e"}
"""Generations by family of machine type, where the names differ."""
_TRAILING_NUMBER = re.compile(r"-(\d+)$")
RUNNING, NO_ACTION = "RUNNING", "NONE"
HARMLESS_ACTIONS = (NO_ACTION, "REFRESHING")
"""Actions during which a VM keeps running: REFRESHING only changes settings."""
_LEAVING = ("DELETING", "ABANDONING")
"""Actions after which a VM is no longer the group's."""


@dataclass(frozen=True, slots=True)
class InstanceGroup:
    """A managed instance group, with settings of its template; None where neither has a value."""

    name: str
    zone: str
    """The region of a regional group."""
    size: int = 0
    """The target size: how many VMs the group is to have."""
    template: str | None = None
    """The instance template's name."""
    policy: str | None = None
    """The workload policy's name."""
    machine_type: str | None = None
    tpu_node: str | None = None
    """The TPU Node that the VMs drive, in the group's zone."""
    network: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    """The labels of the VMs, by the template: a group has none."""
    created: str | None = None
    """RFC 3339."""
    made_by_us: bool = False
    is_stable: bool | None = None
    """Whether no VM of the group changes, or is about to."""
    is_regional: bool = False
    spot: bool | None = None
    preemptible: bool | None = None
    metadata: Mapping[str, str] = field(default_factory=dict)
    """The metadata that the template gives each VM."""
    tags: tuple[str, ...] = ()
    """The network tags of the VMs, which firewall rules may name."""
    account: str | None = None
    """The VMs' service account, which firewall rules may name."""

    @property
    def path(self) -> str:
        """`zone/name`, which names any zonal group as a SLICE argument."""
        return f"{self.zone}/{self.name}"

    @property
    def is_tpu(self) -> bool:
        """Return whether its machine type has TPUs."""
        return is_tpu_machine(self.machine_type)

    @property
    def is_of_gke(self) -> bool:
        """Return whether it is a node pool of Google Kubernetes Engine, whose VMs run its containers only."""
        return self.name.startswith("gke-")

    @property
    def is_slice(self) -> bool:
        """Return whether it is listed as a slice: its VMs have TPUs, or drive a TPU Node."""
        return not (self.is_regional or self.is_of_gke) and (self.is_tpu or self.tpu_node is not None)

    @property
    def can_be_preempted(self) -> bool:
        """Return whether Compute Engine may take its VMs away at any time."""
        return bool(self.spot or self.preemptible)

    def to_json(self) -> dict[str, Any]:
        """Return the row that `groups list --json` prints (names are stable)."""
        return {
            "name": self.name,
            "zone": self.zone,
            "size": self.size,
            "template": self.template,
            "policy": self.policy,
            "tpu_node": self.tpu_node,
            "slice": self.name if self.is_slice else None,
        }


@dataclass(frozen=True, slots=True)
class GroupVm:
    """One VM of a group, with the values that `listManagedInstances` reports.

    A VM that does not exist now has a name but no status and no ID.
    """

    name: str
    status: str | None = None
    """`instanceStatus`: `RUNNING`, `STOPPING`, `TERMINATED`, …"""
    action: str = NO_ACTION
    """`currentAction`: what the group is doing with it."""
    health: str | None = None
    """The worst `detailedHealthState` of the health checks; None without one."""
    error: str = ""
    """The messages of the last attempt to create or delete it."""
    id: str | None = None
    """The VM's ID, which differs for a later VM of the same name."""

    @property
    def is_leaving(self) -> bool:
        """Return whether the group is about to lose it."""
        return self.action in _LEAVING

    @property
    def is_steady(self) -> bool:
        """Return whether it runs and no action of the group interrupts it."""
        return self.status == RUNNING and self.action in HARMLESS_ACTIONS


def is_tpu_machine(machine_type: str | None) -> bool:
    """Return whether VMs of this machine type have TPUs (`ct6e-standard-4t`, `tpu7x-standard-4t`)."""
    return _TPU_MACHINE.fullmatch(machine_type or "") is not None


def chips_of_machine(machine_type: str | None) -> int | None:
    """Return the TPU chips of one VM; None for a machine type without TPUs."""
    match = _TPU_MACHINE.fullmatch(machine_type or "")
    return int(match["chips"]) if match else None


def generation_of_machine(machine_type: str | None) -> str:
    """Return the TPU generation of a machine type; empty for one without TPUs."""
    match = _TPU_MACHINE.fullmatch(machine_type or "")
    return _GENERATIONS.get(match["family"], match["family"]) if match else ""


def accelerator_type_of(machine_type: str | None, vms: int) -> str | None:
    """Return the Cloud TPU API's name of the type that the VMs form: `v6e-16` for 4 × `ct6e-standard-4t`."""
    chips = chips_of_machine(machine_type)
    if chips is None or vms < 1:
        return None
    return accelerator.type_of_topology(generation_of_machine(machine_type), str(chips * vms))


def in_worker_order(vms: Iterable[GroupVm], worker_ids: Mapping[str, int]) -> list[GroupVm]:
    """Return the VMs in worker order: by `TPU_WORKER_ID` (by VM name), else by the index in the name, else by name.

    A VM without a worker ID, such as one that is being recreated, gets an index that no other VM has.
    """
    listed = list(vms)
    numbers = {vm.name: int(match[1]) for vm in listed if (match := _TRAILING_NUMBER.search(vm.name))}
    by_number = len(numbers) == len(listed)
    named = sorted(listed, key=lambda vm: (numbers[vm.name] if by_number else 0, vm.name))
    indices = {vm.name: worker_ids[vm.name] for vm in listed if vm.name in worker_ids}
    if not indices or len(set(indices.values())) < len(indices):
        return named
    free = (index for index in range(len(named)) if index not in worker_ids.values())
    indices |= {vm.name: next(free, len(named)) for vm in named if vm.name not in indices}
    return sorted(named, key=lambda vm: indices[vm.name])
