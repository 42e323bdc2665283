"""Work on runs and slices that outlives the dialogs that show it: stops, deletions, copies of logs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tui.text.ranks import name_ranks

if TYPE_CHECKING:
    from pathlib import Path

    from tui.errors import TpuTuiError
    from tui.operator import StopAnswer
    from tui.pod.run import Run
    from tui.pod.slice import Slice

MAX_DETAILS = 3
"""Details of workers that did not confirm that are shown in full."""
MAX_PROGRESS_LINES = 10
"""Newest lines of a deletion that are shown."""


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


class DeleteProgress:
    """A deletion in progress. It outlives the dialog that shows it."""

    def __init__(self, slice_: Slice) -> None:
        self.slice = slice_
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
        return "\n".join(lines if self.done else [*lines, "", "Esc closes this window; the deletion continues."])


@dataclass
class OngoingWork:
    """Work that outlives the screens that show it."""

    stops: dict[str, StopProgress] = field(default_factory=dict)
    """Stops in progress, by run ID."""
    deletions: dict[str, DeleteProgress] = field(default_factory=dict)
    """Deletions in progress, by the slice's path."""
    catch_up_errors: dict[str, TpuTuiError | None] = field(default_factory=dict)
    """Runs whose logs a read-only console copies itself, by ID, each with the error if copying fails."""
    code_sources: dict[str, Path] = field(default_factory=dict)
    """By run ID, the directory that was copied to the workers for a run launched here."""
