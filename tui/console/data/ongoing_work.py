"""Work on runs and slices that outlives the dialogs that show it: stops, creations, deletions, copies of logs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tui.text.ranks import name_ranks

if TYPE_CHECKING:
    from pathlib import Path

    from tui.errors import TpuTuiError
    from tui.operator import StopAnswer
    from tui.pod.creation.slice_request import CreationStep, SliceRequest, WorkerStartup
    from tui.pod.run import Run
    from tui.pod.slice import Slice

MAX_DETAILS = 3
"""Details of workers that did not confirm that are shown in full."""
MAX_PROGRESS_LINES = 10
"""Newest lines of a slice's change that are shown."""
CHANGE_VERBS = {"start": "starting", "stop": "stopping", "delete": "deleting"}
"""What is done to slices while they are started, stopped or deleted."""


class StopProgress:
    """A stop in progress. It outlives the dialog that shows it."""

    def __init__(self, run: Run, started: float) -> None:
        self.run = run
        self.started = started
        self.answers: dict[int, StopAnswer] = {}
        self.problem: TpuTuiError | None = None
        self.done = False

    @property
    def summary(self) -> str:
        """Return how many workers have confirmed."""
        confirmed = sum(answer.confirmed for answer in self.answers.values())
        count = len(self.run.workers)
        if confirmed == count:
            return "Stop confirmed by the worker" if count == 1 else f"Stop confirmed by all {count} workers"
        return f"Stop confirmed by {confirmed} of {count} workers"

    @property
    def text(self) -> str:
        """Return the summary and why workers did not confirm: their rows have no room for that."""
        if self.problem is not None:
            return str(self.problem)
        reasons: dict[str, list[int]] = {}
        for answer in self.answers.values():
            if answer.detail and not answer.confirmed:
                reasons.setdefault(answer.detail, []).append(answer.worker)
        why = [f"{name_ranks('worker', ranks)}: {detail}" for detail, ranks in reasons.items()]
        ending = "." if self.done else ". Esc closes this window; the stop continues."
        return "\n".join([self.summary + ending, *why[:MAX_DETAILS]])


class ChangeProgress:
    """The start, stop or deletion of something in the cloud. It outlives the dialog that shows it."""

    def __init__(self, action: str) -> None:
        self.action = action
        self.lines: list[str] = []
        self.problem: TpuTuiError | None = None
        self.done = False

    @property
    def text(self) -> str:
        """Return the newest lines, newest last, and the error if there is one."""
        lines = self.lines[-MAX_PROGRESS_LINES:]
        if self.problem is not None:
            return "\n".join([*lines, str(self.problem)])
        lines = lines or ["sending the request…"]
        return "\n".join(
            lines if self.done else [*lines, "", f"Esc closes this window; the {self.action} continues."]
        )


class CreationProgress:
    """A creation of a slice, or of several in the queue. It outlives the dialog that shows it."""

    def __init__(self, request: SliceRequest, started: float) -> None:
        self.request = request
        self.started = started
        self.ended: float | None = None
        self.lines: list[tuple[float, str]] = []
        """The seconds since the start, and what happened then."""
        self.operation: str | None = None
        self.startup: tuple[WorkerStartup, ...] = ()
        self.problem: TpuTuiError | None = None
        self.revision = 0

    @property
    def path(self) -> str:
        """`zone/name` of the slice or of its queued resource."""
        return f"{self.request.zone}/{self.request.name}"

    @property
    def slice_paths(self) -> tuple[str, ...]:
        """`zone/name` of the slices to create."""
        return tuple(f"{self.request.zone}/{node}" for node in self.request.slice_names)

    @property
    def done(self) -> bool:
        """Return whether it has succeeded or failed."""
        return self.ended is not None

    def record(self, step: CreationStep, now: float) -> None:
        """Take a step."""
        if step.text:
            self.lines.append((now - self.started, step.text))
        self.operation = step.operation or self.operation
        self.startup = step.startup or self.startup
        self.revision += 1

    def finish(self, problem: TpuTuiError | None, now: float) -> None:
        """End, with the error if it has failed."""
        self.problem, self.ended = problem, now
        self.revision += 1


@dataclass
class OngoingWork:
    """Work that outlives the screens that show it."""

    stops: dict[str, StopProgress] = field(default_factory=dict)
    """Stops in progress, by run ID."""
    changes: dict[str, ChangeProgress] = field(default_factory=dict)
    """Starts, stops and deletions in progress, by the path of a slice or the ref of another resource."""
    creations: dict[str, CreationProgress] = field(default_factory=dict)
    """Creations in progress, and those that failed, by path, newest last."""
    catch_up_errors: dict[str, TpuTuiError | None] = field(default_factory=dict)
    """Runs whose logs a read-only console copies itself, by ID, each with the error if copying fails."""
    code_sources: dict[str, Path] = field(default_factory=dict)
    """By run ID, the directory that was copied to the workers for a run launched here."""

    def find_creation(self, slice_: Slice | None) -> CreationProgress | None:
        """Return the creation of a slice, if it is in progress or has failed."""
        creations = (
            creation
            for creation in reversed(self.creations.values())
            if slice_ and slice_.path in creation.slice_paths
        )
        return next(creations, None)

    def creation_to_show(self, slice_: Slice | None) -> CreationProgress | None:
        """Return the creation in progress of a slice, else the newest one in progress."""
        own_creation = self.find_creation(slice_)
        running = [creation for creation in self.creations.values() if not creation.done]
        return own_creation if own_creation in running else next(reversed(running), None)

    def running_creations(self) -> list[str]:
        """Return the paths of the creations in progress, newest last."""
        return [path for path, creation in self.creations.items() if not creation.done]

    def describe(self) -> list[str]:
        """Return what is in progress, each kind in one phrase: `deleting us-central1-a/old`."""
        kinds = [("stopping", list(self.stops)), ("creating", self.running_creations())]
        for action, verb in CHANGE_VERBS.items():
            kinds.append((verb, [path for path, change in self.changes.items() if change.action == action]))
        return [f"{verb} {', '.join(paths)}" for verb, paths in kinds if paths]
