"""The dialog that shows how a slice comes up, with the startup script of every worker."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, ClassVar

from rich.text import Text
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.widget import Widget
from textual.widgets import Static

from tui.console.data.listed_lines import ListedLines
from tui.console.render.creation import (
    SLICE_COLUMN,
    STATE_COLUMN,
    WORKER_COLUMN,
    format_progress,
    format_steps,
    make_startup_rows,
)
from tui.console.render.safe_text import escape_line
from tui.console.screens.dialog import LiveDialog, make_plain_text
from tui.console.widgets.log.log_pane import LogPane
from tui.console.widgets.tables.row_table import RowTable
from tui.settings.command_line import create_command

if TYPE_CHECKING:
    from collections.abc import Hashable

    from tui.console.data.ongoing_work import CreationProgress


class CreationDialog(LiveDialog[None]):
    """Time, state and steps; with a startup script the workers, failed ones first, and the chosen one's lines."""

    AUTO_FOCUS = ""
    VERTICAL_BREAKPOINTS = [(0, "-tiny"), (16, "-roomy"), (38, "-tall")]  # noqa: RUF012 - Textual declares it so
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("N", "new_slice", "Create another slice", show=False, id="creation.new"),
        Binding("q", "leave", "Back", show=False),
    ]

    def __init__(self, progress: CreationProgress, ask_new_slice: Callable[[], None]) -> None:
        classes = "-scripts" if progress.request.has_startup_script else ""
        super().__init__(title=f"create {progress.path}", classes=classes)
        self.progress = progress
        self._ask_new_slice = ask_new_slice
        node = (SLICE_COLUMN,) if len(progress.request.slice_names) > 1 else ()
        self._table = RowTable((*node, WORKER_COLUMN, STATE_COLUMN), id="startup-workers")
        self._table.stays_on_top = True
        self._log = LogPane(id="startup-log")
        self._lines = ListedLines()
        self._state, self._problem = Static("", markup=False, id="progress"), Static("", markup=False)
        self._step_texts, self._log_title = Static("", markup=False), Static("", markup=False, id="log-title")
        self._failure = VerticalScroll(self._problem, id="failure")
        self._steps = VerticalScroll(self._step_texts, id="steps")
        self._scripts = Horizontal(self._table, Vertical(self._log_title, self._log), id="startup")
        self._shown: tuple[object, ...] = ()
        self._worker: Hashable = None

    def body(self) -> Sequence[Widget]:
        """Return the state above the steps, and beneath them the startup scripts."""
        return [self._state, self._failure, self._steps, self._scripts]

    def equivalent(self) -> str:
        """Return the command that creates the same."""
        return create_command(self.app.operator.settings, self.progress.request)

    def on_mount(self) -> None:
        """Begin to draw."""
        self._log.open(self._lines)
        self._scripts.display = self._failure.display = False
        self._steps.focus()
        self.tick()

    def tick(self) -> None:
        """Show new steps and lines, and count the seconds."""
        progress, now = self.progress, self.app.store.clock()
        mark = (progress.revision, 0 if progress.done else int(now - progress.started), self._table.cursor_key)
        if mark != self._shown:
            self._shown = mark
            self._show(progress, now)
        self._log.tick()

    def _show(self, progress: CreationProgress, now: float) -> None:
        self._state.update(make_plain_text(format_progress(progress, now)))
        self._step_texts.update(make_plain_text(format_steps(progress)))
        self._steps.scroll_end(animate=False)
        if progress.problem is not None:
            self._failure.display = True
            self._problem.update(make_plain_text(str(progress.problem)))
        if progress.startup:
            self._show_startup(progress)

    def _show_startup(self, progress: CreationProgress) -> None:
        if not self._scripts.display:
            self._scripts.display = True
            self._table.focus()
        self._table.show(make_startup_rows(progress))
        key = self._table.cursor_key
        chosen = next((script for script in progress.startup if (script.slice_name, script.worker) == key), None)
        if chosen is None:
            return
        self._lines.replace(chosen.lines)
        if key != self._worker:
            self._worker = key
            self._log.open(self._lines)
        parts = (f"worker {chosen.worker} of {chosen.slice_name}", chosen.detail, self._log.summary)
        title = " · ".join(escape_line(part) for part in parts if part)
        self._log_title.update(Text(title, no_wrap=True, overflow="ellipsis"))

    def on_log_pane_summary_changed(self) -> None:
        """Show with the next tick whether the log follows, is filtered or wrapped."""
        self._shown = ()

    def action_new_slice(self) -> None:
        """Leave, and ask for another slice."""
        self.action_leave()
        self._ask_new_slice()
