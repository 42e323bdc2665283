"""The actions of `--on-end`: their syntax, which of them a run allows, and which are still to be carried out.

The keeper on the machine that launched the run carries them out (`tui.runs.keeper.on_end`). They are not taken from a
run that is found on its workers, because a worker must not be able to run commands or delete slices here.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from tui.errors import UsageError
from tui.pod.run import Run, RunState
from tui.pod.slice import INSTANCE_GROUP, Slice
from tui.pod.slice_commands import CANNOT_STOP
from tui.runs.record.run_directory import RunDirectory
from tui.runs.record.run_status import status_of

ACTIONS = ("report", "stop-slice", "delete-slice", "command")
"""`report` may name a folder to upload to (`report:gs://bucket/runs`), `command` needs a command (`command:TEXT`)."""
_FINAL_STATUSES = ("done", "failed", "refused")


@dataclass(frozen=True)
class Action:
    """One action for the end of a run."""

    kind: str
    argument: str = ""

    @property
    def is_about_slice(self) -> bool:
        """Return whether it stops or deletes the slice: such actions come last."""
        return self.kind in ("stop-slice", "delete-slice")

    def __str__(self) -> str:
        return f"{self.kind}:{self.argument}" if self.argument else self.kind


def parse_action(text: str) -> Action:
    """Parse the value of one `--on-end`. Raises UsageError if it is not an action."""
    kind, colon, argument = text.partition(":")
    remedy = "report, report:gs://BUCKET/FOLDER, stop-slice, delete-slice or command:SHELL COMMAND"
    if kind not in ACTIONS:
        raise UsageError(f"{text!r} is not an action for the end of a run", remedy=remedy)
    if (kind == "command") is not bool(argument.strip()) and kind != "report":
        problem = "takes no argument" if argument else "needs a command"
        raise UsageError(f"--on-end {kind} {problem}", remedy=remedy)
    if kind == "report" and colon and not re.match("gs://[^/]", argument):
        raise UsageError(f"--on-end report uploads to a bucket, not to {argument!r}", remedy=remedy)
    return Action(kind, argument)


def actions_of(run: Run) -> list[Action]:
    """Return the run's actions in the order of execution: those that stop or delete the slice come last."""
    actions = [parse_action(text) for text in dict.fromkeys(run.job.on_end)]
    return sorted(actions, key=lambda action: action.is_about_slice)


def check_on_end(texts: Iterable[str], slice_: Slice) -> None:
    """Check that the actions are possible on this slice. Raises UsageError."""
    for action in map(parse_action, texts):
        if action.kind == "stop-slice" and slice_.source == INSTANCE_GROUP:
            why, remedy = "a group recreates VMs that stop", "--on-end delete-slice deletes the group"
            raise UsageError(f"--on-end {action}", why=why, remedy=f"{remedy}; its template stays")
        if action.is_about_slice and slice_.zone is None:
            raise UsageError(f"--on-end {action}", why="these machines are not made or deleted by the Cloud TPU API")
        if action.kind == "stop-slice" and len(slice_.workers) > 1:
            why = f"{CANNOT_STOP}, and this one has {len(slice_.workers)}"
            remedy = "--on-end delete-slice gives it back; tpu-tui slices create makes another"
            raise UsageError(f"--on-end {action}", why=why, remedy=remedy)


def describe_actions(run: Run) -> str:
    """Describe the actions, one line each, as `--dry-run` shows them; empty without actions."""
    descriptions = {
        "report": "write the report into the run's directory",
        "stop-slice": f"stop slice {run.slice}, unless part of a run may still be alive there",
        "delete-slice": f"delete slice {run.slice}, unless part of a run may still be alive there",
        "command": "run here, with sh",
    }
    lines = []
    for action in actions_of(run):
        more = f" and upload it to {action.argument}" if action.kind == "report" and action.argument else ""
        more = f": {action.argument}" if action.kind == "command" else more
        lines.append(f"on end: {descriptions[action.kind]}{more}\n")
    return "".join(lines)


def pending_actions(directory: RunDirectory) -> list[Action]:
    """Return the actions yet to be carried out; none for a launch that never began to run on any worker.

    A mistyped command, whose launch fails at once and can be repeated, must not delete a slice.
    """
    if not directory.run.job.on_end or never_began(directory):
        return []
    done = actions_with_status(directory, _FINAL_STATUSES)
    return [action for action in actions_of(directory.run) if str(action) not in done]


def actions_with_status(directory: RunDirectory, statuses: Collection[str]) -> set[str]:
    """Return the actions of which a note has one of these statuses."""
    notes = (event for event in directory.events()[0] if event.kind == "note")
    return {str(note.get("on_end")) for note in notes if note.get("on_end") and note.get("status") in statuses}


def never_began(directory: RunDirectory) -> bool:
    """Return whether a launch failed, or was stopped, before any job could run."""
    status = status_of(directory)
    has_begun = status.started is not None or any(worker.phase in ("start", "confirm") for worker in status.workers)
    return status.state in (RunState.FAILED, RunState.STOPPED) and not has_begun
