"""What actions and screens need of the app. They depend on this class; the app, which has them, extends it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tui.console.data.ongoing_work import OngoingWork
from tui.console.data.pollers import Pollers
from tui.console.data.store import Store
from tui.console.data.tasks import Tasks
from tui.console.platform._compat_textual import PausableApp, remove_notifications
from tui.console.render.safe_text import escape_lines
from tui.console.widgets.tables.table_columns import Cell
from tui.errors import TpuTuiError

if TYPE_CHECKING:
    from textual.notifications import SeverityLevel
    from textual.screen import Screen

    from tui.operator import Operator, RunDirectory

SHORT_MESSAGE_S = 4.0
"""Seconds that the answer to a key is shown at most: the next such message replaces it."""


class BaseApp(PausableApp):
    """The console's data, its tasks, and its messages to the user."""

    actions: object
    """What keys do: `tui.console.actions.app.Actions`, whose modules import this one."""

    def __init__(self, operator: Operator, *, demo: bool = False, default_command: Sequence[str] = ()) -> None:
        super().__init__()
        self.operator = operator
        self.demo = demo
        self.default_command = tuple(default_command)
        self.read_only: bool = operator.settings.read_only
        self.store = Store()
        self.tasks = Tasks()
        self.pollers = Pollers(operator, self.store, self.tasks)
        self.ongoing = OngoingWork()

    def open_run(self, directory: RunDirectory | None, pane: str = "cores", *, replace: bool = False) -> None:
        """Show a run, in place of the one on the screen if `replace` is set."""
        raise NotImplementedError

    def choose_slice(self, path: str) -> None:
        """Put the pod screen's cursor on a slice: the next keys are meant for it."""
        raise NotImplementedError

    def is_on_top(self, screen: Screen[Any]) -> bool:
        """Return whether a screen gets the keys. (Textual also calls a screen behind a dialog current.)"""
        return screen in self.screen_stack[-1:]

    def format_headline(self) -> list[list[Cell]]:
        """Return the pod screen's first line: project and zone, mode, and tasks in progress."""
        cells = [Cell("tpu-tui", "accent"), Cell(self.operator.slices.where)]
        if self.demo:
            cells.append(Cell("demo pod on this machine", "busy"))
        if self.read_only:
            cells.append(Cell("read-only", "warn"))
        cells += [Cell(work, "warn") for work in self.ongoing.describe()]
        return [cells]

    def notify(
        self,
        message: str,
        *,
        title: str = "",
        severity: SeverityLevel = "information",
        timeout: float | None = None,
        markup: bool = False,  # noqa: ARG002 - messages have remote text in them, which is not markup
    ) -> None:
        """Show a message as plain text. It replaces an equal one; a short one also replaces other short ones."""
        message = escape_lines(message)
        is_short = timeout is not None and timeout <= SHORT_MESSAGE_S
        remove_notifications(
            self,
            lambda notification: (
                notification.message == message or (is_short and notification.timeout <= SHORT_MESSAGE_S)
            ),
        )
        super().notify(message, title=title, severity=severity, timeout=timeout, markup=False)

    def show_error(self, problem: TpuTuiError) -> None:
        """Show an error that has no pane of its own."""
        self.notify(str(problem), severity="error", timeout=12)

    def open_directory(self, run_id: str) -> RunDirectory | None:
        """Return the run's directory; show the error and return None if it cannot be opened."""
        try:
            return self.operator.runs.open(run_id)
        except TpuTuiError as error:
            self.show_error(error)
            return None
