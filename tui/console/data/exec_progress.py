"""Progress of one command on many workers: their answers, and which of them have not answered."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tui.errors import TpuTuiError
from tui.operator.output_groups import SharedOutput, describe_ending

if TYPE_CHECKING:
    from tui.operator import CommandResult, RunningCommand
    from tui.pod.slice import Slice

CANCELLED = "cancelled here; may still be running on the worker"
NEWEST_OUTPUT_BYTES = 1024
"""Last bytes of a running worker's output, in which its newest line is found."""


class ExecProgress:
    """What is known so far. Changes as workers write and answer, until `finish`."""

    def __init__(self, slice_: Slice, command: str, ranks: Sequence[int], begun: float) -> None:
        self.slice = slice_
        self.command = command
        self.ranks = tuple(ranks)
        self.begun = begun
        self.done = False
        self.revision = 0
        self.answers: dict[int, SharedOutput] = {}
        self.problems: dict[int, TpuTuiError] = {}
        """Why workers could not run the command."""
        self.problem: TpuTuiError | None = None
        """Why the command could not be run at all."""
        self.newest: dict[int, bytes] = {}
        """The end of the output of each worker that has written something."""
        self._running: dict[int, RunningCommand] = {}

    def record_output(self, running: RunningCommand, _on_stderr: bool, data: bytes) -> None:
        """Record output of a worker."""
        self._running[running.worker] = running
        self.newest[running.worker] = (self.newest.get(running.worker, b"") + data)[-NEWEST_OUTPUT_BYTES:]
        self.revision += 1

    def record_answer(self, answer: CommandResult | TpuTuiError) -> None:
        """Record how the command ended on a worker."""
        if isinstance(answer, TpuTuiError):
            self.problems[int(answer.worker or 0)] = answer
        else:
            self._running.pop(answer.worker, None)
            self.answers[answer.worker] = SharedOutput(answer.stdout, answer.stderr, describe_ending(answer))
        self.revision += 1

    def finish(self, problem: TpuTuiError | None = None) -> None:
        """End the progress; keep the output of workers that had not finished."""
        for rank in self.waiting:
            if rank in self._running:
                partial = self._running[rank].partial_result()
                self.answers[rank] = SharedOutput(partial.stdout, partial.stderr, CANCELLED)
        self.problem = problem
        self.done = True
        self.revision += 1

    @property
    def waiting(self) -> list[int]:
        """Return the workers that have not answered."""
        return [rank for rank in self.ranks if rank not in self.answers and rank not in self.problems]
