"""Rows about a slice from its source: its state, health and runtime version, and symptoms of single workers."""

from __future__ import annotations

import re
import shlex

from tui.checks.check_row import CheckRow, make_row
from tui.pod import accelerator
from tui.pod.slice import INSTANCE_GROUP, Slice, Symptom
from tui.pod.slice_commands import create_again, group_remedy, restart_advice
from tui.text.numbers import parse_integer
from tui.text.printable import format_count, one_line

_ON_THE_WAY = ("CREATING", "STARTING", "RESTARTING", "REIMAGING", "REPAIRING", "UNHIDING", "PROVISIONING", "ACTIVE")
_QUEUED = ("ACCEPTED", "WAITING_FOR_RESOURCES")
_GONE = ("PREEMPTED", "TERMINATED", "SUSPENDED", "SUSPENDING", "FAILED")
_LAST_NUMBER = re.compile(r"(\d+)$")
_SYMPTOM_REMEDIES = {
    "LOW_MEMORY": "use less host memory: fewer loader workers, smaller buffers",
    "OUT_OF_MEMORY": "use less host memory: fewer loader workers, smaller buffers",
    "HBM_OUT_OF_MEMORY": "use a smaller batch per core, or a larger slice",
    "EXECUTE_TIMED_OUT": "look for a worker that stopped; a stuck collective waits for it",
    "MESH_BUILD_FAIL": "check ports 8476 and 8477 between the workers, then launch again",
    "PROJECT_ABUSE": "Google suspects misuse of the project: see its messages in the Cloud console",
    "PREEMPTED": "wait: the group recreates the VM as soon as there is capacity",
    "RECREATING": "wait until the group has recreated the VM, then launch again",
}
"""Remedies by symptom type (Cloud TPU API v2, Symptom.SymptomType), and by the state of a VM of an instance group."""
_RUNTIMES = (
    (re.compile(r"v2-alpha-tpuv5-lite\b.*"), ("v5litepod",)),
    (re.compile(r"v2-alpha-tpuv5\b.*"), ("v5p",)),
    (re.compile(r"v2-alpha-tpuv6e\b.*"), ("v6e",)),
    (re.compile(r"tpu-vm-v4-.*|tpu-vm-.*-v4|v2-alpha-tpuv4\b.*"), ("v4",)),
    (re.compile(r"tpu-ubuntu2204-base|v2-alpha|tpu-vm-.*"), ("v2", "v3", "v4")),
)
"""The TPU generations of each runtime version (Cloud TPU documentation, TPU software versions)."""
_RUNTIME_OF = {
    "v5litepod": "v2-alpha-tpuv5-lite",
    "v5p": "v2-alpha-tpuv5",
    "v6e": "v2-alpha-tpuv6e",
}


def slice_rows(slice_: Slice) -> list[CheckRow]:
    """Return the rows that need no connection; none for machines from a hosts file."""
    if slice_.state is None and not slice_.is_in_cloud:
        return []
    rows = [_state_row(slice_)]
    if slice_.is_ready and (slice_.health or slice_.source != INSTANCE_GROUP):
        rows.append(_health_row(slice_))  # a group has no health unless it has a health check
    if slice_.is_tpu_node:
        rows.append(make_row("slice", "warn", describe_node(slice_), node_remedy(slice_)))
    return [*rows, *(_symptom_row(symptom, len(slice_.workers)) for symptom in slice_.symptoms)]


def _state_row(slice_: Slice) -> CheckRow:
    state = slice_.state
    if state == "READY":
        count = format_count(
            len(slice_.workers or slice_.node_endpoints), "endpoint" if slice_.is_tpu_node else "worker"
        )
        return make_row("slice", "pass", f"READY, {count}")
    if state is None:
        return make_row("slice", "unknown", "the API reports no state", "check again in a minute")
    why = one_line(slice_.health_description or "")
    return make_row("slice", "fail", f"{state}: {why}" if why else state, state_remedy(slice_))


def state_remedy(slice_: Slice) -> str:
    """Return the remedy for a slice that is not ready."""
    if slice_.source == INSTANCE_GROUP:
        return group_remedy(slice_)
    if slice_.state in _ON_THE_WAY:
        return "wait until it is READY"
    if slice_.state in _QUEUED:
        return f"wait: queued resource {slice_.queued_resource} has no capacity yet"
    if slice_.state in ("STOPPED", "STOPPING"):
        return f"tpu-tui slices start {slice_.path}"
    if slice_.state in _GONE:
        command = f": {create_again(slice_)}" if slice_.accelerator_type and slice_.runtime_version else ""
        return f"tpu-tui slices delete {shlex.quote(slice_.path)}, then create it again{command}"
    return "tpu-tui slices shows when it changes"


def _health_row(slice_: Slice) -> CheckRow:
    why = one_line(slice_.health_description or "")
    if slice_.health == "HEALTHY":
        return make_row("health", "pass", "HEALTHY")
    if slice_.health is None:
        return make_row("health", "unknown", why or "the API reports no health")
    detail = f"{slice_.health}: {why}" if why else slice_.health
    is_maintained = slice_.health == "UNHEALTHY_MAINTENANCE"
    remedy = "wait for the maintenance to end" if is_maintained else restart_advice(slice_)
    return make_row("health", "fail", detail, remedy)


def describe_node(slice_: Slice) -> str:
    """Return why the endpoints of a TPU Node have no login, and which VMs drive it."""
    text = "a TPU Node (API version V1): its endpoints are TPUs, which have no SSH login"
    return f"{text}; the VMs of instance group {slice_.instance_group} drive it" if slice_.instance_group else text


def node_remedy(slice_: Slice) -> str:
    """Return which slice to use instead of a TPU Node."""
    if slice_.instance_group:
        return f"use the slice {slice_.zone}/{slice_.instance_group}"
    return (
        f"create VMs for it: tpu-tui groups create GROUP --tpu-node {slice_.name}; "
        "or list its machines in a hosts file: tpu-tui --hosts FILE"
    )


def _symptom_row(symptom: Symptom, workers: int) -> CheckRow:
    match = _LAST_NUMBER.search(symptom.worker_id)
    index = parse_integer(match[1], workers - 1) if match else None
    named = "" if index is not None or not symptom.worker_id else f" on {one_line(symptom.worker_id)}"
    since = f", {symptom.create_time}" if symptom.create_time else ""
    detail = f"{symptom.symptom_type}{named}{since}: {one_line(symptom.details)}"
    remedy = _SYMPTOM_REMEDIES.get(symptom.symptom_type)
    return make_row("symptom", "warn", detail, remedy, worker=index)


def runtime_rows(slice_: Slice) -> list[CheckRow]:
    """Return whether the runtime version fits the accelerator; nothing for VMs without a TPU runtime."""
    kind = accelerator.parse(slice_.accelerator_type or "")
    runtime = slice_.runtime_version
    if kind is None or not runtime or slice_.tpu_node:
        return []
    made_for = next((generations for pattern, generations in _RUNTIMES if pattern.fullmatch(runtime)), None)
    if made_for is None:
        detail = f"it is not known whether {runtime} is right for {kind.name}"
        return [make_row("runtime", "unknown", detail)]
    if kind.generation in made_for:
        return [make_row("runtime", "pass", f"{runtime} is the right runtime for {kind.name}")]
    recommended = _RUNTIME_OF.get(kind.generation, "tpu-ubuntu2204-base")
    detail = f"{runtime} is a runtime for {', '.join(made_for)}, and this is a {kind.name}"
    return [make_row("runtime", "fail", detail, f"recreate it with --version {recommended}")]
