"""The stop dialog: names the run and its workers, asks, then shows every worker's answer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding, BindingType
from textual.widget import Widget
from textual.widgets import Button, Static

from tui.console.render.safe_text import escape_line
from tui.console.screens.dialog import LiveDialog, make_plain_text
from tui.console.widgets.tables.row_table import RowTable, TableRow
from tui.console.widgets.tables.table_columns import Cell, Column
from tui.settings.command_line import command_line
from tui.text.durations import format_elapsed
from tui.text.ranks import format_ranks

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
LEAVE = "Keep running"


def make_rows(progress: StopProgress, now: float) -> list[TableRow]:
    """Return a row for each worker, whether it has answered or not."""
    return [_make_row(progress, worker.index, worker.name, now) for worker in progress.run.workers]


def _make_row(progress: StopProgress, index: int, name: str, now: float) -> TableRow:
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


class StopDialog(LiveDialog["str | None"]):
    """Asks whether to stop (`begin` is called for that), then shows the acknowledgements as they come.

    Enter leaves the run alone: the red button is reached by `y`, by the key that asked, or by choosing it.
    """

    AUTO_FOCUS = "#leave"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("y,x", "begin", "Stop run", show=False, id="stop.begin")]

    def __init__(self, run: Run, begin: Callable[[], StopProgress], progress: StopProgress | None = None) -> None:
        super().__init__()
        self._table = RowTable(COLUMNS, id="answers")
        self._progress_text = Static("", markup=False, id="progress")
        self.title = f"stop {run.id}"
        self._run = run
        self._begin = begin
        self.progress = progress

    def body(self) -> Sequence[Widget]:
        """Return the question, and a table with a row per worker."""
        workers = format_ranks(worker.index for worker in self._run.workers)
        count = len(self._run.workers)
        job = self._run.job
        text = (
            f"{' '.join(job.argv)}\n\non {self._run.slice}, worker{'s' if count != 1 else ''} {workers}. "
            f"Each worker gets SIGTERM, then {job.grace:g} s to save, then SIGKILL. "
            "Waits until every process is gone."
        )
        return [
            Static(make_plain_text(text), markup=False, id="question"),
            self._table,
            self._progress_text,
        ]

    def equivalent(self) -> str:
        """Return the command that stops the run."""
        return command_line(self.console.operator.settings, "stop", self._run.id)

    def buttons(self) -> Sequence[Button]:
        """Return the two answers, the harmless one first."""
        return [Button(LEAVE, id="leave"), Button("Stop run (y)", id="begin", variant="error")]

    def on_mount(self) -> None:
        """Show the question; make the table as high as it has rows."""
        table = self._table
        table.styles.height = min(len(self._run.workers), 16) + 1
        self._arrange()
        self.ready = True
        self.query_one("#leave").focus()

    def _arrange(self) -> None:
        is_begun = self.progress is not None
        self._table.display = is_begun
        self.query_one("#begin").display = not is_begun
        self.query_one("#leave", Button).label = "Close" if is_begun else LEAVE
        self.tick()

    def tick(self) -> None:
        """Show new answers, and count the seconds that a worker takes to save."""
        if self.progress is None:
            return
        self._table.show(make_rows(self.progress, self.console_clock()))
        if str(self._progress_text.content) != self.progress.text:
            self._progress_text.update(make_plain_text(self.progress.text))

    def console_clock(self) -> float:
        """Return the console's clock (monotonic seconds)."""
        return self.console.store.clock()

    def answered(self, button: str) -> None:  # noqa: ARG002
        """Stop: the red button was pressed."""
        self.action_begin()

    def action_begin(self) -> None:
        """Begin to stop, once."""
        if self.progress is None:
            self.progress = self._begin()
            self._arrange()
            self.query_one("#leave").focus()
