"""The launch of a run as a table: how far each worker is. Pure functions of the feed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tui.console.render import state_styles
from tui.console.render.safe_text import decode_visible_line, escape_line
from tui.console.widgets.tables.row_table import TableRow
from tui.console.widgets.tables.table_columns import Cell, Column
from tui.operator import PHASES, ended_with_the_others
from tui.pod.run import RunState

if TYPE_CHECKING:
    from tui.console.data.run_feed import Feed
    from tui.operator import RunStatus, WorkerStatus

SHOWN_PHASES = {"connect": 1, "prepare": 1, "barrier": 3, "start": 2, "confirm": 1}
"""Phases with the rank of their columns: without room, the shortest phases are dropped first."""
PHASE_COLUMNS = (
    Column("worker", "wkr", 4, right=True),
    *(Column(phase, phase, 8, rank=rank) for phase, rank in SHOWN_PHASES.items()),
    Column("last", "last line or error", 20, flexible=1, wanted=40),
)


def format_phase_title(feed: Feed) -> str:
    """Return what is going on while there are no metrics."""
    status = feed.status
    if status is None:
        return "No training lines found in this log" if feed.has_caught_up else "Reading the log…"
    if status.state is RunState.PREPARING:
        return "Launching: nothing starts until every worker is ready"
    if status.state is RunState.RUNNING:
        return "Started. Compiling or loading; no step yet."
    return str(status.state)


def explain_no_phases(feed: Feed) -> str:
    """Return what the phase table shows without rows: a saved log has no launch."""
    if feed.status is not None:
        return "Waiting for the first event"
    return f"tpu-tui dialect test {escape_line(feed.title)} shows which lines are understood." * feed.has_caught_up


def make_phase_rows(feed: Feed) -> list[TableRow]:
    """Return a row per worker: its launch phases and its last line."""
    status = feed.status
    return [] if status is None else [_phase_row(worker, feed, status) for worker in status.workers]


def _phase_row(worker: WorkerStatus, feed: Feed, status: RunStatus) -> TableRow:
    reached = PHASES.index(worker.phase) if worker.phase in PHASES else -1
    cells = [Cell(str(worker.worker))]
    for phase in SHOWN_PHASES:
        index = PHASES.index(phase)
        if index < reached:
            cells.append(Cell("done", "good"))
        elif index == reached:
            cells.append(state_styles.style_phase(worker.phase_status))
        else:
            cells.append(Cell("·", "dim"))
    return TableRow(worker.worker, (*cells, _last(worker, feed, status)))


def _last(worker: WorkerStatus, feed: Feed, status: RunStatus) -> Cell:
    if worker.phase_status == "failed":
        return Cell(escape_line(worker.detail or "failed"), "bad")
    if worker.ended:
        code = f"signal {worker.signal}" if worker.signal else f"exit code {worker.exit_code}"
        is_harmless = worker.exit_code == 0 or ended_with_the_others(status, worker)
        return Cell(escape_line(worker.exit_cause or code), "" if is_harmless else "bad")
    if lines := feed.last_lines(worker.worker, 1):
        return Cell(decode_visible_line(lines[0]))
    if status.state is RunState.PREPARING:
        return Cell(escape_line(worker.detail or ""), "dim")
    return Cell("no output yet", "dim")
