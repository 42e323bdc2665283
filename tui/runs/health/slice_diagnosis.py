"""What the Cloud TPU API's view of a slice says about workers that do not answer. Pure.

Source: Cloud TPU API v2 reference (`Node.State`, `Node.Health`, `QueuedResourceState.State`) and "Manage TPUs".
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass

from tui.pod.run import Run
from tui.pod.slice import Slice
from tui.pod.slice_commands import create_command, delete_command
from tui.text.printable import one_line

_PREEMPTED = ("PREEMPTED", "SUSPENDING", "SUSPENDED", "WAITING_FOR_RESOURCES")
"""The first is a node's; the others a queued resource's, whose node was taken away."""
_BEING_DELETED = ("DELETING", "HIDING", "HIDDEN")
_REPAIRED = ("REPAIRING", "RESTARTING", "REIMAGING")
_COMING = ("CREATING", "STARTING", "UNHIDING", "ACCEPTED", "PROVISIONING")
_MAINTENANCE = "UNHEALTHY_MAINTENANCE"
_LONGEST = 300


@dataclass(frozen=True)
class SliceDiagnosis:
    """Why workers of a slice do not answer, as far as the API knows."""

    kind: str
    """`deleted replaced preempted terminated stopped maintenance unhealthy changing ready unknown`."""
    text: str
    """The sentence; for `ready` that the slice is not what is wrong."""
    is_final: bool = False
    """Whether what ran there has ended for good: no worker that is out will answer again by itself."""
    remedy: str = ""

    @property
    def is_cause(self) -> bool:
        """Whether it is the reason of what went wrong, rather than the word that all is well there."""
        return self.kind not in ("ready", "unknown")


def diagnose(run: Run, slice_: Slice | None) -> SliceDiagnosis:
    """What the run's slice is in; None means that there is no slice of that name any more."""
    again = f"{_create_again(run, slice_)} makes it again"
    delete = delete_command(run.slice, run.zone)
    if slice_ is None:
        return SliceDiagnosis("deleted", f"slice {run.slice} is deleted", True, again)
    if run.slice_created and slice_.created and slice_.created != run.slice_created:
        text = f"slice {run.slice} was deleted and made again since: its workers are others"
        return SliceDiagnosis("replaced", text, True, "launch the run again")
    state, said = slice_.state or "", _said(slice_)
    if state in _PREEMPTED:
        remedy = f"{delete}, then {again}"
        return SliceDiagnosis("preempted", f"slice {run.slice} was preempted ({state}{said})", True, remedy)
    if state == "TERMINATED":
        remedy = f"{delete}, then {again}"
        return SliceDiagnosis("terminated", f"slice {run.slice} was terminated ({state}{said})", True, remedy)
    if state in ("STOPPED", "STOPPING"):
        start = shlex.join(["tpu-tui", "slices", "start", run.slice, *(["--zone", run.zone] if run.zone else [])])
        remedy = f"{start}, then launch the run again"
        return SliceDiagnosis("stopped", f"slice {run.slice} was stopped ({state}{said})", True, remedy)
    if state in _BEING_DELETED:
        return SliceDiagnosis("deleted", f"slice {run.slice} is being deleted ({state}{said})", True, again)
    if state in _REPAIRED or slice_.health == _MAINTENANCE:
        why = state if state in _REPAIRED else slice_.health
        return SliceDiagnosis("maintenance", f"slice {run.slice} is under maintenance ({why}{said})")
    if state in _COMING:
        return SliceDiagnosis("changing", f"slice {run.slice} is {state}{said}")
    if slice_.health not in (None, "HEALTHY"):
        return SliceDiagnosis("unhealthy", f"slice {run.slice} is {state} and {slice_.health}{said}")
    if state == "READY":
        return SliceDiagnosis("ready", f"slice {run.slice} is READY and healthy{said}")
    return SliceDiagnosis("unknown", f"slice {run.slice} is in state {state or 'unknown'}{said}")


def _create_again(run: Run, slice_: Slice | None) -> str:
    """Return the command that makes the slice as it is now, and where the API knows it no more, as at the launch."""
    now = slice_ or Slice(run.slice)
    return create_command(
        run.slice,
        run.zone,
        now.accelerator_type or run.accelerator_type,
        now.runtime_version or run.versions.get("runtime"),
        spot=run.spot if now.spot is None and now.preemptible is None else now.spot or now.preemptible,
    )


def _said(slice_: Slice) -> str:
    """The API's own words: the health's description and what it tells of single workers."""
    told = [slice_.health_description or ""]
    told += [f"{one.symptom_type} on worker {one.worker_id} {one.details}".strip() for one in slice_.symptoms]
    text = one_line("; ".join(part for part in told if part))[:_LONGEST]
    return f": {text}" if text else ""
