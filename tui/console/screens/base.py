"""The base of the two main screens: the tick, the filter bar, and common keys."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from textual import events
from textual.binding import Binding, BindingType
from textual.screen import Screen
from textual.widgets import Input

from tui.console.context import get_context
from tui.console.intents import EquivalentsRequested, ReportRequested, TextRequested
from tui.console.widgets.filter_bar import FilterBar
from tui.console.widgets.log.log_pane import LogPane
from tui.console.widgets.tables.line_table import LineTable

if TYPE_CHECKING:
    from tui.console.context import ConsoleContext
    from tui.logs.saved_log import SavedLog
    from tui.operator import RunDirectory
    from tui.pod.slice import Slice

NARROW, NORMAL, WIDE = "-narrow", "-normal", "-wide"
SHORT, TALL = "-short", "-tall"
FRAMELESS, MIN_FRAMED_ROWS = "-frameless", 14
"""Rows of a screen below which frames would leave too few rows inside."""

REMOTE_SHELL_BINDINGS: tuple[BindingType, ...] = (
    Binding("s", "shell", "Shell", tooltip="Shell on the worker", id="shell"),
    Binding("exclamation_mark", "execute", "Exec", key_display="!", tooltip="Exec on all workers", id="exec"),
)


def apply_breakpoints(screen: Screen[Any]) -> None:
    """Give a screen the classes of its breakpoints before its first layout: Textual does after it, and all jumps."""
    size = screen.app.size
    for points, extent in ((screen.HORIZONTAL_BREAKPOINTS, size.width), (screen.VERTICAL_BREAKPOINTS, size.height)):
        chosen = max((point for point in points or () if point[0] <= extent), default=(0, ""))[1]
        for _, name in points or ():
            screen.set_class(name == chosen, name)
    screen.set_class(size.height < MIN_FRAMED_ROWS, FRAMELESS)


def is_on_top(screen: Screen[Any]) -> bool:
    """Return whether this screen gets the keys. (Textual also calls a screen behind a dialog current.)"""
    return screen in screen.app.screen_stack[-1:]


class MainScreen(Screen[None]):
    """A screen that is drawn from data on the app's tick."""

    HORIZONTAL_BREAKPOINTS = [(0, NARROW), (110, NORMAL), (170, WIDE)]  # noqa: RUF012 - Textual declares it so
    VERTICAL_BREAKPOINTS = [(0, SHORT), (34, TALL)]  # noqa: RUF012
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
        Binding("question_mark", "app.show_help", "Help", key_display="?", id="help"),
        Binding("e", "export", "Export", tooltip="Export a report of the run", id="export"),
        Binding("d", "describe", "Describe", tooltip="Describe: show all details", id="describe"),
        Binding("y", "equivalents", "As command", tooltip="As command: what keys do here, to copy", id="equivalents"),
        Binding("q", "app.ask_quit", "Quit", tooltip="Quit; asks first", id="quit"),
    ]

    ready = False
    """Whether the screen can be drawn."""

    @property
    def console(self) -> ConsoleContext:
        """Return what the console offers to its screens."""
        return get_context(self.app)

    def on_resize(self, event: events.Resize) -> None:
        """Drop the frames on a very low screen."""
        self.set_class(event.size.height < MIN_FRAMED_ROWS, FRAMELESS)

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

    def filter_target(self) -> LineTable | LogPane | None:
        """Return the pane that `/` filters: the focused one, or the most useful one."""
        focused = self.focused
        return focused if isinstance(focused, (LineTable, LogPane)) else None

    def drop_filter(self) -> bool:
        """Clear the filter of the focused pane; return whether there was one."""
        target = self.focused
        if not isinstance(target, (LineTable, LogPane)) or not target.filter_text:
            return False
        target.set_filter("")
        return True

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
        self.console.perform(ReportRequested(self.reportable()))

    def action_equivalents(self) -> None:
        """Show the commands that do in a shell what keys do here."""
        worker = self.chosen_worker() if self.chosen_slice() is None else None
        self.console.perform(EquivalentsRequested(self.chosen_slice(), self.chosen_run(), worker))

    def action_describe(self) -> None:
        """Show everything known about the item under the cursor."""
        title, text = self.description()
        if text:
            self.console.perform(TextRequested(title, text))
        else:
            self.notify(title, timeout=3)

    def description(self) -> tuple[str, str]:
        """Return title and text for `describe`."""
        raise NotImplementedError
