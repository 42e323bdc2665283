"""The base of the main screens: the tick, the headline, the filter bar, and common keys."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, cast

from textual import events, getters
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import Screen
from textual.widgets import Input

from tui.console.base_app import BaseApp
from tui.console.screens import breakpoints
from tui.console.screens.dialog import TextDialog
from tui.console.screens.help import format_help, list_bindings
from tui.console.widgets.filter_bar import FilterBar
from tui.console.widgets.footer import KeyFooter
from tui.console.widgets.headline import Headline
from tui.console.widgets.tables.line_view import LineView

if TYPE_CHECKING:
    from tui.console.actions.app import Actions
    from tui.logs.saved_log import SavedLog
    from tui.operator import RunDirectory
    from tui.pod.slice import Slice

DIALOG_FRAME_COLUMNS = 12
"""Columns of the screen that a dialog leaves to its frame and to what is behind it."""
MAX_HELP_COLUMNS = 102
"""Columns of text in the dialog of keys on a wide screen."""
REMOTE_SHELL_BINDINGS: tuple[BindingType, ...] = (
    Binding("s", "shell", "Shell", tooltip="Shell on the worker", id="shell"),
    Binding("exclamation_mark", "execute", "Exec", key_display="!", tooltip="Exec on all workers", id="exec"),
)


class MainScreen(Screen[None]):
    """A screen that is drawn from data on the app's tick."""

    HORIZONTAL_BREAKPOINTS = breakpoints.HORIZONTAL_BREAKPOINTS
    VERTICAL_BREAKPOINTS = breakpoints.VERTICAL_BREAKPOINTS
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(
            "slash", "filter", "Filter", key_display="/", tooltip="Filter rows by text", id="filter", priority=True
        ),
        Binding(
            "colon",
            "app.command_palette",
            "Commands",
            key_display=":",
            tooltip="Commands: search all actions",
            id="palette",
        ),
        Binding("question_mark", "show_help", "Help", key_display="?", id="help"),
        Binding("e", "export", "Export", tooltip="Export a report of the run", id="export"),
        Binding("d", "describe", "Describe", tooltip="Describe: show all details", id="describe"),
        Binding("y", "equivalents", "As command", tooltip="As command: what keys do here, to copy", id="equivalents"),
        Binding("q", "app.ask_quit", "Quit", tooltip="Quit; asks first", id="quit"),
    ]

    app = getters.app(BaseApp)
    ready = False
    """Whether the screen can be drawn."""

    def __init__(self) -> None:
        super().__init__()
        self.headline = Headline(id="headline")

    def compose(self) -> ComposeResult:
        """Lay out the headline, the panes, and the keys."""
        breakpoints.apply_breakpoints(self)
        yield self.headline
        yield from self.compose_panes()
        yield FilterBar()
        yield KeyFooter()

    def compose_panes(self) -> ComposeResult:
        """Lay out what is between the headline and the keys."""
        raise NotImplementedError

    @property
    def actions(self) -> Actions:
        """Return what keys do."""
        return cast("Actions", self.app.actions)

    def on_resize(self, event: events.Resize) -> None:
        """Drop the frames on a very low screen."""
        self.set_class(event.size.height < breakpoints.MIN_FRAMED_ROWS, breakpoints.FRAMELESS)

    def tick(self) -> None:
        """Show what is new; called 15 times per second while the screen is visible."""
        raise NotImplementedError

    def chosen_slice(self) -> Slice | None:
        """Return the slice that keys act on."""
        return None

    def chosen_worker(self) -> int | None:
        """Return the index of the worker that keys act on."""
        return None

    def chosen_run(self) -> RunDirectory | None:
        """Return the run that keys act on."""
        return None

    def reportable(self) -> RunDirectory | SavedLog | None:
        """Return what `e` reports on."""
        return self.chosen_run()

    def filter_target(self) -> LineView | None:
        """Return the pane that `/` filters: the focused one, or the most useful one."""
        focused = self.focused
        return focused if isinstance(focused, LineView) else None

    def drop_filter(self) -> bool:
        """Clear the filter of the focused pane, else of another one in view; return whether there was one."""
        panes = [pane for pane in (self.focused, *self.query(LineView)) if isinstance(pane, LineView)]
        filtered = next((pane for pane in panes if pane.filter_text and pane.is_on_screen), None)
        if filtered is not None:
            filtered.set_filter("")
        return filtered is not None

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Disable `/` inside an input. It has priority, so that what is typed right after it is the filter."""
        if action == "filter" and isinstance(self.focused, Input):
            return False
        return super().check_action(action, parameters)

    def action_filter(self) -> None:
        """Open the filter bar."""
        target = self.filter_target()
        if target is not None:
            self.query_one(FilterBar).open_for(target)

    def action_export(self) -> None:
        """Write a report of the run."""
        self.actions.runs.report(self.reportable())

    def action_stop_run(self) -> None:
        """Ask, then stop the run. No key of a read-only screen does this."""
        self.actions.runs.stop(self.chosen_run())

    def action_equivalents(self) -> None:
        """Show the commands that do in a shell what keys do here."""
        worker = self.chosen_worker() if self.chosen_slice() is None else None
        self.actions.show_equivalents(self.chosen_slice(), self.chosen_run(), worker)

    def action_show_help(self) -> None:
        """Show every key of the screen."""
        panes = {type(widget): widget for widget in self.focus_chain if list_bindings(widget)}
        width = min(self.size.width - DIALOG_FRAME_COLUMNS, MAX_HELP_COLUMNS)
        self.app.push_screen(TextDialog("keys", format_help(self, panes.values(), width)))

    def action_describe(self) -> None:
        """Show everything known about the item under the cursor."""
        title, text = self.description()
        if text:
            self.app.push_screen(TextDialog(title, text))
        else:
            self.notify(title, timeout=3)

    def description(self) -> tuple[str, str]:
        """Return title and text for `describe`."""
        raise NotImplementedError
