"""A slice that comes up, as text and as rows of its workers' startup scripts. Pure functions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tui.console.render.safe_text import escape_line
from tui.console.widgets.tables.row_table import TableRow
from tui.console.widgets.tables.table_columns import Cell, Column
from tui.pod.creation.startup_progress import progress_line
from tui.text.durations import format_elapsed

if TYPE_CHECKING:
    from tui.console.data.ongoing_work import CreationProgress
    from tui.pod.creation.slice_request import WorkerStartup

WORKER_COLUMN = Column("worker", "wkr", 4, right=True)
STATE_COLUMN = Column("state", "startup script", 14, flexible=1)
SLICE_COLUMN = Column("slice", "slice", 8, flexible=1)
LEAVE = "Esc closes this window; the creation continues."
COME_BACK = "Esc closes this window; Enter on the slice's row opens it again."


def format_progress(progress: CreationProgress, now: float) -> str:
    """Return what is created, how long that has taken, the operation, and how to leave."""
    elapsed = format_elapsed((progress.ended or now) - progress.started)
    state = "READY after" if progress.done else progress.lines[-1][1] if progress.lines else "sending the request"
    if progress.problem is not None:
        state = "failed after"
    lines = [progress.request.summary, f"{state} {elapsed}" if progress.done else f"{elapsed} · {state}"]
    if progress.operation:
        lines.append(f"operation {progress.operation.rpartition('/')[2]}")
    if progress.startup and progress.done:
        lines.append(progress_line(progress.startup))
    if not progress.done:
        lines.append(LEAVE)
    elif progress.problem is not None and progress.startup:
        lines.append(COME_BACK)
    return "\n".join(lines)


def format_steps(progress: CreationProgress) -> str:
    """Return every step with the time since the start."""
    return "\n".join(f"{format_elapsed(when):>7}  {text}" for when, text in progress.lines)


def make_startup_rows(progress: CreationProgress) -> list[TableRow]:
    """Return a row for each worker's startup script, failed ones first; its key is (slice, worker)."""
    several = len(progress.request.slice_names) > 1
    scripts = sorted(progress.startup, key=lambda script: (_rank(script, progress), script.slice_name, script.worker))
    rows = []
    for script in scripts:
        cells = (Cell(str(script.worker)), format_script_state(script, progress))
        name = (Cell(escape_line(script.slice_name)),) if several else ()
        rows.append(TableRow((script.slice_name, script.worker), (*name, *cells)))
    return rows


def _rank(script: WorkerStartup, progress: CreationProgress) -> int:
    return 0 if script.has_failed else 1 if progress.done and not script.has_ended else 2


def format_script_state(script: WorkerStartup, progress: CreationProgress) -> Cell:
    """Return whether a script waits, runs, or how it ended."""
    if script.exit_code is not None:
        return Cell(f"exit {script.exit_code}", "bad" if script.exit_code else "good")
    tone = "bad" if script.has_ended or progress.done else "busy"
    return Cell(escape_line(script.detail) or ("failed" if script.has_ended else "running"), tone)
