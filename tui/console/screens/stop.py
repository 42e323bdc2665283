"""The stop dialog: names the run and its workers, asks, and then shows every worker's own answer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding, BindingType
from textual.widget import Widget
from textual.widgets import Button, Static

from tui.console.render.safe_text import harmless
from tui.console.screens.dialog import LiveDialog, plain
from tui.console.widgets.tables.row_table import Row, RowTable
from tui.console.widgets.tables.table_columns import Cell, Column
from tui.text.durations import format_elapsed
from tui.text.ranks import format_ranks

if TYPE_CHECKING:
    from tui.errors import TpuTuiError
    from tui.pod.run import Run
    from tui.runs.worker.stop import StopAnswer

COLUMNS = (
    Column("worker", "wkr", 4, right=True),
    Column("name", "name", 18, rank=1),
    Column("answer", "answer", 14),
    Column("exit", "exit", 5, right=True),
    Column("detail", "detail", 20, flexible=1),
)
LEAVE = "Leave it running"
MOST_TOLD = 3
"""Accounts of workers that did not confirm that are told whole."""


class StopProgress:
    """A stop that is under way: outlives the dialog that shows it."""

    def __init__(self, run: Run, begun: float) -> None:
        self.run = run
        self.begun = begun
        self.answers: dict[int, StopAnswer] = {}
        self.problem: TpuTuiError | None = None
        self.done = False

    @property
    def summary(self) -> str:
        """How many workers have confirmed."""
        confirmed = sum(answer.confirmed for answer in self.answers.values())
        return f"{confirmed} of {len(self.run.workers)} workers confirmed"

    @property
    def told(self) -> str:
        """How far it is, and whole why workers did not confirm: there is no room for that in their rows."""
        if self.problem is not None:
            return str(self.problem)
        said: dict[str, list[int]] = {}
        for answer in self.answers.values():
            if answer.detail and not answer.confirmed:
                said.setdefault(answer.detail, []).append(answer.worker)
        why = [f"worker{'s' * (len(ranks) > 1)} {format_ranks(ranks)}: {detail}" for detail, ranks in said.items()]
        ending = "." if self.done else "; esc leaves this window, stopping goes on."
        return "\n".join([self.summary + ending, *why[:MOST_TOLD]])

    def rows(self, now: float) -> list[Row]:
        """A row for each worker, answered or not."""
        return [self._row(worker.index, worker.name, now) for worker in self.run.workers]

    def _row(self, index: int, name: str, now: float) -> Row:
        answer = self.answers.get(index)
        if answer is None:
            waiting = (
                Cell("no answer", "bad") if self.done else Cell(f"saving… {format_elapsed(now - self.begun)}", "busy")
            )
            cells = (waiting, Cell("–", "dim"), Cell("" if self.done else "SIGTERM sent or on its way", "dim"))
        else:
            word = Cell("confirmed", "good") if answer.confirmed else Cell("not confirmed", "bad")
            code = Cell("–" if answer.exit_code is None else str(answer.exit_code))
            cells = (word, code, Cell(harmless(answer.detail or ""), "" if answer.confirmed else "bad"))
        return Row(index, (Cell(str(index)), Cell(harmless(name), "dim"), *cells))


class StopDialog(LiveDialog["str | None"]):
    """Asks whether to stop (`begin` is called for that), then shows the acknowledgements as they come.

    Enter leaves the run alone: the red button is reached by `y`, by the key that asked, or by choosing it.
    """

    AUTO_FOCUS = "#leave"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("y,x", "begin", "Stop it", show=False, id="stop.begin")]

    def __init__(self, run: Run, begin: Callable[[], StopProgress], progress: StopProgress | None = None) -> None:
        super().__init__()
        self._table = RowTable(COLUMNS, id="answers")
        self._told = Static("", markup=False, id="told")
        self.title = f"stop {run.id}"
        self._run = run
        self._begin = begin
        self.progress = progress

    def body(self) -> Sequence[Widget]:
        """The question, and a row a worker."""
        workers = format_ranks(worker.index for worker in self._run.workers)
        count = len(self._run.workers)
        job = self._run.job
        told = (
            f"{' '.join(job.argv)}\n\non {self._run.slice}, worker{'s' if count != 1 else ''} {workers}. "
            f"Each gets SIGTERM, {job.grace:g} s to save, then SIGKILL, and is looked at until nothing is left."
        )
        return [
            Static(plain(told), markup=False, id="question"),
            self._table,
            self._told,
        ]

    def buttons(self) -> Sequence[Button]:
        """Leave it alone, or stop it."""
        return [Button(LEAVE, id="leave"), Button("Stop it (y)", id="begin", variant="error")]

    def on_mount(self) -> None:
        """Wait for the answer; the table takes as much room as it has rows."""
        table = self._table
        table.styles.height = min(len(self._run.workers), 16) + 1
        self._arrange()
        self.ready = True
        self.query_one("#leave").focus()

    def _arrange(self) -> None:
        going = self.progress is not None
        self._table.display = going
        self.query_one("#begin").display = not going
        self.query_one("#leave", Button).label = "Close" if going else LEAVE
        self.tick()

    def tick(self) -> None:
        """Take new answers; also counts the seconds that a worker takes to save."""
        if self.progress is None:
            return
        self._table.show(self.progress.rows(self.console_clock()))
        if str(self._told.content) != self.progress.told:
            self._told.update(plain(self.progress.told))

    def console_clock(self) -> float:
        """The console's clock (monotonic seconds)."""
        return self.console.store.clock()

    def answered(self, button: str) -> None:  # noqa: ARG002
        """The red button."""
        self.action_begin()

    def action_begin(self) -> None:
        """Begin to stop, once."""
        if self.progress is None:
            self.progress = self._begin()
            self._arrange()
            self.query_one("#leave").focus()
