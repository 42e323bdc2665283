"""How far a stop is: which workers have confirmed it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tui.text.ranks import format_ranks

if TYPE_CHECKING:
    from tui.errors import TpuTuiError
    from tui.operator import StopAnswer
    from tui.pod.run import Run

MAX_DETAILS = 3
"""Details of workers that did not confirm that are shown in full."""


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
        why = [f"worker{'s' * (len(ranks) > 1)} {format_ranks(ranks)}: {detail}" for detail, ranks in reasons.items()]
        ending = "." if self.done else ". Esc closes this window; the stop continues."
        return "\n".join([self.summary + ending, *why[:MAX_DETAILS]])
