"""Progress of one command on many workers: equal outputs grouped, and the workers that have not answered."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING

from tui.console.render.safe_text import decode_visible_line, escape_line, escape_lines
from tui.console.widgets.tables.table_columns import Cell
from tui.errors import TpuTuiError
from tui.operator.output_groups import SharedOutput, describe_ending, format_heading, group_outputs
from tui.text.durations import format_elapsed
from tui.text.ranks import name_ranks

if TYPE_CHECKING:
    from tui.operator import CommandResult, RunningCommand
    from tui.pod.slice import Slice

MAX_LINES = 2000
"""Lines of all outcomes that are shown."""
MAX_LINES_PER_OUTPUT = 400
"""Lines of one output that are shown, half of them from its end, where errors stand."""
MAX_RUNNING_WORKERS = 8
"""Workers whose newest line is shown while their command runs."""
CANCELLED = "cancelled here; may still be running on the worker"
NEWEST_OUTPUT_BYTES = 1024
"""Bytes of a worker's output that its newest line is looked for in."""


class ExecProgress:
    """What is known so far. Changes as workers write and answer, until `finish`."""

    def __init__(self, slice_: Slice, command: str, ranks: Sequence[int], begun: float) -> None:
        self.slice = slice_
        self.command = command
        self.ranks = tuple(ranks)
        self.begun = begun
        self.done = False
        self.revision = 0
        self._answers: dict[int, SharedOutput] = {}
        self._problems: dict[int, TpuTuiError] = {}
        self._running: dict[int, RunningCommand] = {}
        self._newest: dict[int, bytes] = {}
        self._problem: TpuTuiError | None = None

    def record_output(self, running: RunningCommand, _on_stderr: bool, data: bytes) -> None:
        """Record output of a worker."""
        self._running[running.worker] = running
        self._newest[running.worker] = (self._newest.get(running.worker, b"") + data)[-NEWEST_OUTPUT_BYTES:]
        self.revision += 1

    def record_answer(self, answer: CommandResult | TpuTuiError) -> None:
        """Record how the command ended on a worker."""
        if isinstance(answer, TpuTuiError):
            self._problems[int(answer.worker or 0)] = answer
        else:
            self._running.pop(answer.worker, None)
            self._answers[answer.worker] = SharedOutput(answer.stdout, answer.stderr, describe_ending(answer))
        self.revision += 1

    def finish(self, problem: TpuTuiError | None = None) -> None:
        """End the progress; keep the output of workers that had not finished."""
        for rank in self.waiting:
            if rank in self._running:
                partial = self._running[rank].partial_result()
                self._answers[rank] = SharedOutput(partial.stdout, partial.stderr, CANCELLED)
        self._problem = problem
        self.done = True
        self.revision += 1

    @property
    def waiting(self) -> list[int]:
        """Return the workers that have not answered."""
        return [rank for rank in self.ranks if rank not in self._answers and rank not in self._problems]

    def lines(self, now: float) -> list[Cell]:
        """Return one cell per line: outputs, then unreachable workers, then workers that have not answered."""
        cells = list(islice(self._outcomes(), MAX_LINES + 1))
        if len(cells) > MAX_LINES:
            note = f"… and more (tpu-tui exec {escape_line(self.slice.name)} -- COMMAND shows everything)"
            cells = [*cells[:MAX_LINES], Cell(note, "dim")]
        cells += [Cell(escape_lines(str(self._problems[rank])), "bad") for rank in sorted(self._problems)]
        return cells + list(self._rest(now))

    def _outcomes(self) -> Iterator[Cell]:
        for number, (outcome, ranks) in enumerate(group_outputs(self._answers.items())):
            if number:
                yield Cell("")
            yield Cell(format_heading(outcome, ranks), "bad" if outcome.ending else "good")
            if not (outcome.stdout or outcome.stderr):
                yield Cell("no output", "dim")
            yield from _shown(outcome.stdout, "")
            yield from _shown(outcome.stderr, "warn")

    def _rest(self, now: float) -> Iterator[Cell]:
        waiting = self.waiting
        named = name_ranks("worker", waiting)
        if self._problem is not None:
            yield Cell(escape_lines(str(self._problem)), "bad")
        elif waiting and self.done:
            yield Cell(f"cancelled: no answer from {named}", "warn")
        elif waiting:
            yield Cell(f"waiting for {named}, {format_elapsed(now - self.begun)} · Esc cancels", "busy")
            writing = [rank for rank in waiting if self._newest.get(rank, b"").strip()]
            for rank in writing[:MAX_RUNNING_WORKERS]:
                newest = self._newest[rank].rstrip().rpartition(b"\n")[2]
                yield Cell(f"{rank:>4}│{decode_visible_line(newest)}", "dim")


def _shown(output: bytes, tone: str) -> Iterator[Cell]:
    """Yield the lines of an output; only the first and last ones of a long output."""
    lines = output.removesuffix(b"\n").split(b"\n") if output else []
    half = MAX_LINES_PER_OUTPUT // 2
    left_out = len(lines) - 2 * half
    first, last = (lines[:half], lines[-half:]) if left_out > 0 else (lines, [])
    yield from (Cell(decode_visible_line(line), tone) for line in first)
    if left_out > 0:
        yield Cell(f"… {left_out:,} lines left out …", "dim")
    yield from (Cell(decode_visible_line(line), tone) for line in last)
