"""The stop dialog: names the run and its workers, asks, then shows every worker's answer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding, BindingType
from textual.widget import Widget

from tui.console.render.safe_text import escape_line
from tui.console.screens.change import ChangeDialog
from tui.console.widgets.tables.row_table import RowTable, TableRow
from tui.console.widgets.tables.table_columns import Cell, Column
from tui.text.durations import format_elapsed
from tui.text.ranks import name_ranks

if TYPE_CHECKING:
    from tui.console.data.ongoing_work import StopProgress
    from tui.pod.run import Run

COLUMNS = (
    Column("worker", "wkr", 4, right=True),
    Column("name", "name", 18, rank=1),
    Column("answer", "answer", 14),
    Column("exit", "exit", 5, right=True),
    Column("detail", "detail", 20, flexible=1),
)
MAX_TABLE_ROWS = 16
"""Workers that are visible at once; the table scrolls to the others."""


def make_row(progress: StopProgress, index: int, name: str, now: float) -> TableRow:
    """Return the row of a worker, whether it has answered or not."""
    answer = progress.answers.get(index)
    if answer is None:
        waiting = Cell(f"saving… {format_elapsed(now - progress.started)}", "busy")
        state = Cell("no answer", "bad") if progress.done else waiting
        cells = (state, Cell("–", "dim"), Cell("" if progress.done else "waiting for its answer", "dim"))
    else:
        state = Cell("confirmed", "good") if answer.confirmed else Cell("not confirmed", "bad")
        code = Cell("–" if answer.exit_code is None else str(answer.exit_code))
        cells = (state, code, Cell(escape_line(answer.detail or ""), "" if answer.confirmed else "bad"))
    return TableRow(index, (Cell(str(index)), Cell(escape_line(name), "dim"), *cells))


class StopDialog(ChangeDialog):
    """Asks whether to stop the run (`begin` is called once), then shows the workers' answers as they come.

    `x`, the key that opens the dialog, also presses its red button.
    """

    BINDINGS: ClassVar[list[BindingType]] = [Binding("y,x", "begin", "Stop run", show=False, id="stop.begin")]
    progress: StopProgress | None

    def __init__(self, run: Run, begin: Callable[[], StopProgress], progress: StopProgress | None = None) -> None:
        labels = ("Keep running", "Stop run (y)")
        super().__init__(
            _describe(run), begin, progress, title=f"stop {run.id}", command=("stop", run.id), labels=labels
        )
        self._table = RowTable(COLUMNS, id="answers")
        self._table.styles.height = min(len(run.workers), MAX_TABLE_ROWS) + 1

    def body(self) -> Sequence[Widget]:
        """Return the question, and a table with a row per worker."""
        return [self._question, self._table, self._progress_text]

    def _arrange(self) -> None:
        self._table.display = self.progress is not None
        super()._arrange()
        self._question.display = self._progress_text.display = True

    def tick(self) -> None:
        """Show new answers, and count the seconds that a worker takes to save."""
        super().tick()
        if self.progress is not None:
            progress, now = self.progress, self.app.store.clock()
            self._table.show([make_row(progress, worker.index, worker.name, now) for worker in progress.run.workers])


def _describe(run: Run) -> str:
    """Return what a stop does to a run."""
    workers = name_ranks("worker", [worker.index for worker in run.workers])
    return (
        f"{' '.join(run.job.argv)}\n\non {run.slice}, {workers}. "
        f"Each worker gets SIGTERM, then {run.job.grace:g} s to save, then SIGKILL. "
        "Waits until every process is gone."
    )
