"""The output of one command on many workers, as lines: equal outputs once. Pure functions."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING

from tui.console.render.safe_text import decode_visible_line, escape_line, escape_lines
from tui.console.widgets.tables.table_columns import Cell
from tui.operator.output_groups import format_heading, group_outputs
from tui.text.durations import format_elapsed
from tui.text.ranks import name_ranks

if TYPE_CHECKING:
    from tui.console.data.exec_progress import ExecProgress

MAX_LINES = 2000
"""Lines of all outcomes that are shown."""
MAX_LINES_PER_OUTPUT = 400
"""Lines of one output that are shown, half of them from its end, where errors stand."""
MAX_RUNNING_WORKERS = 8
"""Workers whose newest line is shown while their command runs."""


def make_output_lines(progress: ExecProgress, now: float) -> list[Cell]:
    """Return one cell per line: outputs, then unreachable workers, then workers that have not answered."""
    cells = list(islice(_outcomes(progress), MAX_LINES + 1))
    if len(cells) > MAX_LINES:
        note = f"… and more (tpu-tui exec {escape_line(progress.slice.name)} -- COMMAND shows everything)"
        cells = [*cells[:MAX_LINES], Cell(note, "dim")]
    cells += [Cell(escape_lines(str(problem)), "bad") for _, problem in sorted(progress.problems.items())]
    return cells + list(_rest(progress, now))


def _outcomes(progress: ExecProgress) -> Iterator[Cell]:
    for number, (outcome, ranks) in enumerate(group_outputs(progress.answers.items())):
        if number:
            yield Cell("")
        yield Cell(format_heading(outcome, ranks), "bad" if outcome.ending else "good")
        if not (outcome.stdout or outcome.stderr):
            yield Cell("no output", "dim")
        yield from _output_lines(outcome.stdout, "")
        yield from _output_lines(outcome.stderr, "warn")


def _rest(progress: ExecProgress, now: float) -> Iterator[Cell]:
    waiting = progress.waiting
    named = name_ranks("worker", waiting)
    if progress.problem is not None:
        yield Cell(escape_lines(str(progress.problem)), "bad")
    elif waiting and progress.done:
        yield Cell(f"cancelled: no answer from {named}", "warn")
    elif waiting:
        yield Cell(f"waiting for {named}, {format_elapsed(now - progress.begun)} · Esc cancels", "busy")
        writing = [rank for rank in waiting if progress.newest.get(rank, b"").strip()]
        for rank in writing[:MAX_RUNNING_WORKERS]:
            newest = progress.newest[rank].rstrip().rpartition(b"\n")[2]
            yield Cell(f"{rank:>4}│{decode_visible_line(newest)}", "dim")


def _output_lines(output: bytes, tone: str) -> Iterator[Cell]:
    """Yield the lines of an output; only the first and last ones of a long output."""
    lines = output.removesuffix(b"\n").split(b"\n") if output else []
    half = MAX_LINES_PER_OUTPUT // 2
    left_out = len(lines) - 2 * half
    first, last = (lines[:half], lines[-half:]) if left_out > 0 else (lines, [])
    yield from (Cell(decode_visible_line(line), tone) for line in first)
    if left_out > 0:
        yield Cell(f"… {left_out:,} lines left out …", "dim")
    yield from (Cell(decode_visible_line(line), tone) for line in last)
