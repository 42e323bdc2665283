"""What actions and screens need from the console. They depend on this protocol; the app implements it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Protocol, cast

if TYPE_CHECKING:
    from textual.app import App
    from textual.notifications import SeverityLevel
    from textual.screen import Screen

    from tui.console.data.ongoing_work import OngoingWork
    from tui.console.data.pollers import Pollers
    from tui.console.data.store import Store
    from tui.console.data.tasks import Tasks
    from tui.console.intents import Intent
    from tui.console.widgets.tables.table_columns import Cell
    from tui.errors import TpuTuiError
    from tui.operator import Operator, RunDirectory


class ConsoleContext(Protocol):
    """The console's data, its tasks, and the few things that only an app can do."""

    operator: Operator
    store: Store
    tasks: Tasks
    pollers: Pollers
    ongoing: OngoingWork
    read_only: bool
    demo: bool
    default_command: tuple[str, ...]
    theme: str

    @property
    def screen(self) -> Screen[Any]:
        """Return the screen that gets the keys."""

    @property
    def screen_stack(self) -> list[Screen[Any]]:
        """Return all open screens, the top one last."""

    def perform(self, intent: Intent) -> None:
        """Carry out a request at once, without Textual's message queue."""

    def open_directory(self, run_id: str) -> RunDirectory | None:
        """Open a run's directory; show the error and return None if that fails."""

    def show_error(self, problem: TpuTuiError) -> None:
        """Show an error that has no pane of its own."""

    def headline(self) -> list[list[Cell]]:
        """Return the pod screen's first line."""

    def action_show_help(self) -> None:
        """Show every key of the screen."""

    def notify(self, message: str, *, severity: SeverityLevel = "information", timeout: float | None = None) -> None:
        """Show a message for some seconds. It may have remote text in it."""

    def push_screen(self, screen: Any, callback: Callable[[Any], None] | None = None) -> Any:
        """Show a screen on top; `callback` gets its answer."""

    def pop_screen(self) -> Any:
        """Leave the screen on top."""

    def post_message(self, message: Any) -> bool:
        """Put a message at the end of the app's queue."""

    def suspend(self) -> AbstractContextManager[None]:
        """Leave the terminal to another program."""

    def bell(self) -> None:
        """Ring the terminal's bell."""

    def exit(self) -> None:
        """Close the console."""


def get_context(app: App[Any]) -> ConsoleContext:
    """Return what the console's app offers, given the `app` of a screen or of a palette provider."""
    return cast("ConsoleContext", app)
