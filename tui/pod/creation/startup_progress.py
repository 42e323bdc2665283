"""The progress of the startup scripts of new slices, as a line of text, and the error when one fails. Pure."""

from __future__ import annotations

import shlex
from collections import defaultdict
from collections.abc import Sequence

from tui.errors import TpuTuiError
from tui.pod.creation.machine_request import MachineRequest
from tui.pod.creation.slice_request import WorkerStartup
from tui.pod.creation.startup_journal import UNIT
from tui.text.durations import format_duration
from tui.text.ranks import format_workers

_MOST_GROUPS, _MOST_CHARACTERS = 3, 200
"""Different causes that one line names, and the length of each."""


def progress_line(states: Sequence[WorkerStartup]) -> str:
    """Return how many workers' scripts have ended: `startup script: 3 of 4 workers finished, 1 failed`."""
    failed = sum(state.has_failed for state in states)
    ended = sum(state.has_ended for state in states)
    workers = "worker" if len(states) == 1 else "workers"
    return f"startup script: {ended} of {len(states)} {workers} finished" + (f", {failed} failed" if failed else "")


def waiting_line(states: Sequence[WorkerStartup], elapsed_s: float) -> str:
    """Return `progress_line` with the time, and what the others wait for."""
    waiting = _group_workers([state for state in states if not state.has_ended], states)
    return f"{progress_line(states)} after {format_duration(int(elapsed_s))}; {waiting}"


def startup_error(request: MachineRequest, states: Sequence[WorkerStartup]) -> TpuTuiError | None:
    """Return the error that names the workers whose script failed, or did not end in time; None if all succeeded."""
    failed = [state for state in states if state.has_failed]
    named = failed or [state for state in states if not state.has_ended]
    if not named:
        return None
    limit = format_duration(request.startup_timeout_s)
    what = f"the startup script of {request.name} " + ("failed" if failed else f"did not end within {limit}")
    return TpuTuiError(what, why=_group_workers(named, states), remedy=startup_remedy(request, named[0]))


def startup_remedy(request: MachineRequest, state: WorkerStartup) -> str:
    """Return that the slices stay, with the commands to look at one worker's script and to delete the slices."""
    look = shlex.join(["tpu-tui", "ssh", f"{request.zone}/{state.slice_name}", "--worker", str(state.worker)])
    stay, them = (
        ("the slice stays and costs", "it") if len(request.slice_names) == 1 else ("the slices stay and cost", "them")
    )
    return f"{stay} money: look with {look} (sudo journalctl -u {UNIT}), or delete {them}: {request.delete_command}"


def _group_workers(named: Sequence[WorkerStartup], states: Sequence[WorkerStartup]) -> str:
    """Group workers by their details, and by slice if there are several: `workers 0, 2 of pod-1: exit code 3`."""
    is_one_slice = len({state.slice_name for state in states}) == 1
    groups: defaultdict[tuple[str, str], list[int]] = defaultdict(list)
    for state in named:
        groups[state.slice_name, state.detail].append(state.worker)
    parts = [
        f"{format_workers(workers)}{'' if is_one_slice else f' of {name}'}: {detail[:_MOST_CHARACTERS]}"
        for (name, detail), workers in groups.items()
    ]
    more = len(parts) - _MOST_GROUPS
    return "; ".join(parts[:_MOST_GROUPS]) + (f"; and {more} more" if more > 0 else "")
