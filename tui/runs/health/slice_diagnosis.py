"""Diagnose why workers do not answer, from their slice as its source reports it. Pure.

Source: Cloud TPU API v2 reference (`Node.State`, `Node.Health`, `QueuedResourceState.State`) and "Manage TPUs".
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tui.pod.run import Run
from tui.pod.slice import INSTANCE_GROUP, Slice
from tui.pod.slice_commands import create_command, delete_command
from tui.pod.worker import Worker
from tui.text.printable import one_line

_PREEMPTED = ("PREEMPTED", "SUSPENDING", "SUSPENDED", "WAITING_FOR_RESOURCES")
"""The first is a state of a node, the others are states of a queued resource whose node was taken away."""
_BEING_DELETED = ("DELETING", "HIDING", "HIDDEN")
_REPAIRED = ("REPAIRING", "RESTARTING", "REIMAGING")
_COMING = ("CREATING", "STARTING", "UNHIDING", "ACCEPTED", "PROVISIONING")
_MAINTENANCE = "UNHEALTHY_MAINTENANCE"
_LONGEST = 300
_ENDING = ("PREEMPTED", "STOPPED", "STOPPING", "RECREATING", "DELETING")
"""States of a single machine in which nothing runs there any more."""
_NAMED = 4
"""Limit on the lost workers that a diagnosis names."""


@dataclass(frozen=True)
class SliceDiagnosis:
    """The reason why workers of a slice do not answer, according to the API."""

    kind: str
    """`deleted replaced lost preempted terminated stopped maintenance unhealthy changing ready unknown`."""
    text: str
    """The reason as a sentence; for `ready` it says that the slice is fine."""
    is_final: bool = False
    """Whether the job has ended for good, because no unreachable worker will answer again by itself."""
    remedy: str = ""
    lost: frozenset[int] = frozenset()
    """The workers whose machines are gone, where the others' are not."""

    @property
    def is_cause(self) -> bool:
        """Return whether it explains what went wrong."""
        return self.kind not in ("ready", "unknown")


def lost_workers(run: Run, slice_: Slice) -> list[Worker]:
    """Return the run's workers whose machines are gone, in a slice whose machines are replaced one by one.

    A new machine may have a worker's name. A worker whose machine is being stopped or recreated is lost, too.
    """
    now = {worker.instance: worker for worker in slice_.workers}
    ending = {symptom.worker_id for symptom in slice_.symptoms if symptom.symptom_type in _ENDING}
    return [
        worker
        for worker in run.workers
        if worker.machine_id is not None
        and (
            (current := now.get(worker.instance)) is None
            or current.machine_id != worker.machine_id
            or str(current.index) in ending
        )
    ]


def diagnose(run: Run, slice_: Slice | None, reasons: Mapping[int, str] | None = None) -> SliceDiagnosis:
    """Diagnose the run's slice; None means that the slice no longer exists.

    `reasons` say why single workers lost their machines (`was preempted`), where that is known.
    """
    again = f"{_create_again(run, slice_)} recreates it"
    if run.source == INSTANCE_GROUP:
        again = f"tpu-tui groups create {run.slice} recreates it"
    delete = delete_command(run.slice, run.zone)
    if slice_ is None:
        return SliceDiagnosis("deleted", f"slice {run.slice} is deleted", True, again)
    if run.slice_created and slice_.created and slice_.created != run.slice_created:
        text = f"slice {run.slice} was deleted and recreated: its workers are not those of the run"
        return SliceDiagnosis("replaced", text, True, "launch the run again")
    if lost := lost_workers(run, slice_):
        return _diagnose_losses(run, slice_, lost, reasons or {})
    state, symptoms = slice_.state or "", _describe_symptoms(slice_)
    if state in _PREEMPTED or state == "TERMINATED":
        kind = "preempted" if state in _PREEMPTED else "terminated"
        text, remedy = f"slice {run.slice} was {kind} ({state}{symptoms})", f"{delete}, then {again}"
        return SliceDiagnosis(kind, text, True, remedy)
    if state in ("STOPPED", "STOPPING"):
        start = shlex.join(["tpu-tui", "slices", "start", run.slice, *(["--zone", run.zone] if run.zone else [])])
        remedy = f"{start}, then launch the run again"
        return SliceDiagnosis("stopped", f"slice {run.slice} was stopped ({state}{symptoms})", True, remedy)
    if state in _BEING_DELETED:
        return SliceDiagnosis("deleted", f"slice {run.slice} is being deleted ({state}{symptoms})", True, again)
    if state in _REPAIRED or slice_.health == _MAINTENANCE:
        why = state if state in _REPAIRED else slice_.health
        return SliceDiagnosis("maintenance", f"slice {run.slice} is under maintenance ({why}{symptoms})")
    if state in _COMING:
        return SliceDiagnosis("changing", f"slice {run.slice} is {state}{symptoms}")
    if slice_.health not in (None, "HEALTHY"):
        return SliceDiagnosis("unhealthy", f"slice {run.slice} is {state} and {slice_.health}{symptoms}")
    if state == "READY":
        return SliceDiagnosis("ready", f"slice {run.slice} is READY and healthy{symptoms}")
    return SliceDiagnosis("unknown", f"slice {run.slice} is in state {state or 'unknown'}{symptoms}")


def _diagnose_losses(run: Run, slice_: Slice, lost: Sequence[Worker], reasons: Mapping[int, str]) -> SliceDiagnosis:
    now = {worker.instance: worker for worker in slice_.workers}
    states = {symptom.worker_id: symptom.symptom_type for symptom in slice_.symptoms}

    def describe(worker: Worker) -> str:
        current = now.get(worker.instance)
        if current is None:
            loss = f"is no longer in {run.slice}"
        elif current.machine_id not in (None, worker.machine_id):
            loss = "was recreated"
        else:
            loss = f"is {states.get(str(current.index), 'gone')}"
        return f"worker {worker.index} ({worker.name}) {reasons.get(worker.index, loss)}"

    losses = [describe(worker) for worker in lost[:_NAMED]]
    if len(lost) > _NAMED:
        losses.append(f"{len(lost) - _NAMED} more are gone")
    missing = len(run.workers) - len(slice_.workers)
    remedy = "launch the run again when the slice is READY; --restarts N does that by itself"
    if missing > 0:
        path = shlex.quote(slice_.path)
        remedy = f"tpu-tui groups resize {path} --size {len(run.workers)}, then launch the run again"
    return SliceDiagnosis("lost", ", ".join(losses), True, remedy, frozenset(worker.index for worker in lost))


def _create_again(run: Run, slice_: Slice | None) -> str:
    """Return the command that creates the slice as it is now, or, if it is gone, as it was at the launch."""
    now = slice_ or Slice(run.slice)
    return create_command(
        run.slice,
        run.zone,
        now.accelerator_type or run.accelerator_type,
        now.runtime_version or run.versions.get("runtime"),
        spot=run.spot if now.spot is None and now.preemptible is None else now.spot or now.preemptible,
    )


def _describe_symptoms(slice_: Slice) -> str:
    parts = [slice_.health_description or ""]
    parts += [
        f"{symptom.symptom_type} on worker {symptom.worker_id} {symptom.details}".strip()
        for symptom in slice_.symptoms
    ]
    text = one_line("; ".join(part for part in parts if part))[:_LONGEST]
    return f": {text}" if text else ""
