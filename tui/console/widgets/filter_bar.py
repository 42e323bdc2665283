"""The input that `/` opens at the bottom: it filters the pane that had the focus."""

from __future__ import annotations

from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.widgets import Input

from tui.console.widgets.tables.line_view import LineView
from tui.console.widgets.text_fields import TextField


class FilterBar(TextField):
    """Filters while typing. Enter keeps the filter, Esc clears it.

    It takes the focus at once: keys typed right after `/` must not act on the screen.
    """

    DEFAULT_CSS = """
    FilterBar {
        height: 1; border: none; padding: 0 1; background: $panel; display: none;
        &:focus { border: none; }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "submit", "Apply", id="filter.keep"),
        Binding("escape", "give_up", "Clear", id="filter.clear"),
    ]

    def __init__(self) -> None:
        super().__init__(placeholder="Filter … (Enter to keep, Esc to clear)", id="filter-bar")
        self._target: LineView | None = None

    def open_for(self, target: LineView) -> None:
        """Begin to filter a widget."""
        self._target = target
        self.value = target.filter_text
        self.display = True
        self.screen.set_focus(self)

    def on_input_changed(self, event: Input.Changed) -> None:
        """Filter while typing."""
        event.stop()
        if self._target is not None and self.display and event.value != self._target.filter_text:
            self._target.set_filter(event.value)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Keep the filter."""
        event.stop()
        self._close()

    def action_give_up(self) -> None:
        """Show everything again."""
        if self._target is not None:
            self._target.set_filter("")
        self._close()

    def _close(self) -> None:
        target, self._target = self._target, None
        if target is not None:
            self.screen.set_focus(target)
        self.display = False
