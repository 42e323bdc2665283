"""The states of a group and of its VMs, with the names that slices use. Pure.

Source: Compute Engine API v1, `ManagedInstance.currentAction`, `instanceStatus` and `instanceHealth`. The names of
the states are those of `Node.State` of the Cloud TPU API.
"""

from __future__ import annotations

from collections.abc import Sequence

from tui.pod.instance_group import NO_ACTION, GroupVm, InstanceGroup
from tui.pod.slice import Symptom

_BY_ACTION = {
    "CREATING": "CREATING",
    "CREATING_WITHOUT_RETRIES": "CREATING",
    "RECREATING": "REPAIRING",
    "RESTARTING": "RESTARTING",
    "STARTING": "STARTING",
    "RESUMING": "STARTING",
    "VERIFYING": "STARTING",
    "STOPPING": "STOPPING",
    "SUSPENDING": "STOPPING",
    "DELETING": "DELETING",
    "ABANDONING": "DELETING",
}
_BY_STATUS = {
    "PENDING": "CREATING",
    "PROVISIONING": "STARTING",
    "STAGING": "STARTING",
    "REPAIRING": "REPAIRING",
    "PENDING_STOP": "STOPPING",
    "STOPPING": "STOPPING",
    "SUSPENDING": "STOPPING",
    "DEPROVISIONING": "STOPPING",
    "STOPPED": "STOPPED",
    "SUSPENDED": "STOPPED",
    "TERMINATED": "STOPPED",
}
"""States of a VM during which the group does nothing with it."""
_WORST_FIRST = ("PREEMPTED", "STOPPED", "STOPPING", "REPAIRING", "RESTARTING", "CREATING", "STARTING", "UNKNOWN")
_HEALTHY = "HEALTHY"
_SHOWN = 4
"""VMs that a description names."""


def state_of(group: InstanceGroup, vms: Sequence[GroupVm]) -> str:
    """Return the state of the slice that a group is: READY when it has all its VMs, and each runs undisturbed."""
    staying = [vm for vm in vms if not vm.is_leaving]
    if not staying:
        return "DELETING" if vms else "CREATING" if group.size else "STOPPED"
    states = {vm_state(vm, is_spot=group.can_be_preempted) for vm in staying if not vm.is_steady}
    if states:
        return min(states, key=_WORST_FIRST.index)
    return "CREATING" if len(staying) < group.size else "READY"


def vm_state(vm: GroupVm, *, is_spot: bool) -> str:
    """Return the state of a VM that is not steady. A spot VM that the group did not stop was preempted."""
    if vm.action != NO_ACTION:
        return _BY_ACTION.get(vm.action, "UNKNOWN")
    state = _BY_STATUS.get(vm.status or "PENDING", "UNKNOWN")
    return "PREEMPTED" if is_spot and state in ("STOPPING", "STOPPED") else state


def health_of(vms: Sequence[GroupVm]) -> str | None:
    """Return the worst health that the health checks report; None without health checks."""
    states = [vm.health for vm in vms if vm.health is not None]
    return next((state for state in states if state != _HEALTHY), states[0] if states else None)


def describe_state(group: InstanceGroup, state: str, vms: Sequence[GroupVm]) -> str | None:
    """Return what keeps a group from being ready and healthy, by worker; None if nothing does."""
    parts = [f"worker {index} {describe_vm(vm)}" for index, vm in enumerate(vms) if is_noteworthy(vm)]
    if len(parts) > _SHOWN:
        parts = [*parts[:_SHOWN], f"and {len(parts) - _SHOWN} more"]
    if state == "STOPPED" and not vms:
        parts = ["the group has no VMs: its size is 0"]
    elif len(vms) < group.size:
        parts = [f"{len(vms)} of {group.size} VMs exist", *parts]
    return "; ".join(parts) or None


def symptoms_of(vms: Sequence[GroupVm], *, is_spot: bool) -> tuple[Symptom, ...]:
    """Return a symptom for each VM that does not run undisturbed, is unhealthy, or could not be created."""
    return tuple(
        Symptom(_symptom_type(vm, is_spot=is_spot), str(index), describe_vm(vm))
        for index, vm in enumerate(vms)
        if is_noteworthy(vm)
    )


def is_noteworthy(vm: GroupVm) -> bool:
    """Return whether something is wrong with a VM, or is about to change."""
    return not vm.is_steady or vm.health not in (None, _HEALTHY)


def describe_vm(vm: GroupVm) -> str:
    """Return a VM's name with its status, action and health, and the error of the group's last attempt."""
    states = [vm.status or "not there"]
    states += [state for state, fine in ((vm.action, NO_ACTION), (vm.health, _HEALTHY)) if state not in (None, fine)]
    text = f"({vm.name}) is {', '.join(states)}"
    return f"{text}: {vm.error}" if vm.error else text


def _symptom_type(vm: GroupVm, *, is_spot: bool) -> str:
    if vm.is_steady:
        return vm.health or "UNKNOWN"
    return vm.action if vm.action == "RECREATING" else vm_state(vm, is_spot=is_spot)
