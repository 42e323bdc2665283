"""Commands about a slice for remedies, quoted for the shell. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from tui.pod.slice import INSTANCE_GROUP, TPU_API, Slice

CANNOT_STOP = "Cloud TPU stops and starts slices of one worker only"
"""Source: Cloud TPU API v2, StopNode: "This operation is only available with single TPU nodes"."""

_NOT_RUNNING = ("STOPPED", "STOPPING", "CREATING", "STARTING", "DELETING", "PREEMPTED", "TERMINATED")


def create_command(
    name: str,
    zone: str | None,
    accelerator_type: str | None,
    runtime_version: str | None,
    *,
    spot: bool | None = False,
    more: Sequence[str] = (),
) -> str:
    """Return the command that creates a slice, with placeholders in capitals for unknown values."""
    arguments = ["tpu-tui", "slices", "create", name, *_in_zone(zone)]
    arguments += ["--type", accelerator_type or "TYPE", "--version", runtime_version or "RUNTIME", *more]
    return shlex.join([*arguments, "--spot"] if spot else arguments)


def create_again(slice_: Slice) -> str:
    """Return the command that creates a slice like this one; a preemptible one becomes spot."""
    settings = (slice_.name, slice_.zone, slice_.accelerator_type, slice_.runtime_version)
    if slice_.is_tpu_node:
        return create_command(
            *settings, more=("--architecture", "node", *(["--preemptible"] if slice_.preemptible else []))
        )
    return create_command(*settings, spot=slice_.spot or slice_.preemptible)


def delete_command(name: str, zone: str | None) -> str:
    """Return the command that deletes a slice."""
    return shlex.join(["tpu-tui", "slices", "delete", name, *_in_zone(zone)])


def can_stop(slice_: Slice) -> bool:
    """Return whether Cloud TPU can stop and start the slice."""
    return len(slice_.workers or slice_.node_endpoints) <= 1


def explain_impossible(slice_: Slice, action: str) -> str:
    """Return why a slice cannot be started, stopped or deleted in its state, and what to do; empty if it can."""
    if slice_.source == INSTANCE_GROUP:
        if action == "delete":
            return ""
        what, why, remedy = explain_group_stop(slice_, action)
        return f"{what}: {why}.\n\nInstead:\n\n  {remedy}"
    if slice_.source != TPU_API:
        return f"{slice_.name} is not a slice of the Cloud TPU API: nothing can {action} it here."
    if action != "delete" and not can_stop(slice_):
        workers = len(slice_.workers or slice_.node_endpoints)
        return f"{CANNOT_STOP}, and {slice_.name} has {workers}.\n\nTo replace it:\n\n  {make_anew(slice_)}"
    if action == "start" and slice_.state != "STOPPED":
        return f"{slice_.name} is {slice_.state}. Only a slice that is STOPPED can be started."
    if action == "stop" and slice_.state in _NOT_RUNNING:
        return f"{slice_.name} is {slice_.state}. Only a slice that runs can be stopped."
    if action == "delete" and slice_.state == "DELETING":
        return f"{slice_.name} is being deleted already."
    return ""


def explain_group_stop(slice_: Slice, action: str) -> tuple[str, str, str]:
    """Return what cannot be done to an instance group, why, and the commands that release and recreate its VMs."""
    group = shlex.quote(slice_.path)
    release, renew = (f"tpu-tui groups resize {group} --size {size}" for size in (0, len(slice_.workers) or "N"))
    done = {"stop": "stopped", "start": "started"}[action]
    return (
        f"group {slice_.name} cannot be {done}",
        "a group recreates VMs that stop, and keeps no disks of VMs that it deletes",
        f"{release} releases its VMs, {renew} makes new ones",
    )


def make_anew(slice_: Slice) -> str:
    """Return the two commands that replace the slice with one of the same kind."""
    return f"{delete_command(slice_.name, slice_.zone)}, then {create_again(slice_)}"


def restart_advice(slice_: Slice, worker: int | None = None) -> str:
    """Return how to restart a slice: stop and start it where possible, else delete and create it again.

    The VMs of an instance group are recreated, a single one where only one worker needs it.
    """
    if slice_.source == INSTANCE_GROUP:
        return f"recreate {'the VM' if worker is not None else 'the VMs'}: {recreate_command(slice_, worker)}"
    if can_stop(slice_) and not (slice_.spot or slice_.preemptible):
        name = shlex.quote(slice_.path)
        return f"stop and start it: tpu-tui slices stop {name}, then tpu-tui slices start {name}"
    return f"create it again: {make_anew(slice_)}"


def recreate_command(slice_: Slice, worker: int | None = None) -> str:
    """Return gcloud's command that replaces the VMs of an instance group, or only one worker's VM, with new ones."""
    names = [vm.name for vm in slice_.workers if worker in (None, vm.index)]
    arguments = ["gcloud", "compute", "instance-groups", "managed", "recreate-instances", slice_.name]
    return shlex.join([*arguments, f"--instances={','.join(names)}", f"--zone={slice_.zone}"])


def group_remedy(slice_: Slice) -> str:
    """Return what to do about an instance group that is not ready, or about its TPU Node."""
    if slice_.state not in ("STOPPED", "PREEMPTED", "TERMINATED"):
        return "wait until it is READY"
    if not slice_.workers:
        return f"tpu-tui groups resize {shlex.quote(slice_.path)} --size N"
    stopped = {symptom.worker_id for symptom in slice_.symptoms if symptom.symptom_type == slice_.state}
    names = [worker.name for worker in slice_.workers if str(worker.index) in stopped]
    if slice_.tpu_node and not names:
        action = "start" if slice_.state == "STOPPED" else "delete"
        command = shlex.join(["tpu-tui", "slices", action, f"{slice_.zone}/{slice_.tpu_node}"])
        return command if action == "start" else f"{command}, then create the TPU Node again"
    if slice_.state == "PREEMPTED":
        return "wait: the group recreates the VM as soon as there is capacity"
    return shlex.join(["gcloud", "compute", "instances", "start", *names, f"--zone={slice_.zone}"])


def _in_zone(zone: str | None) -> list[str]:
    return ["--zone", zone] if zone else []
