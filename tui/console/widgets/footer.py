"""The line of keys at the bottom: as many as there is room for, the most wanted first, none of them cut."""

from __future__ import annotations

from typing import Any

from rich.cells import cell_len
from textual import events
from textual.app import ComposeResult
from textual.screen import Screen
from textual.widget import Widget
from textual.widgets import Footer

KEY_GAP_COLUMNS = 2
"""Columns that a key takes beside its sign and its words: a blank between the two, and one after."""
ACTION_ORDER = (
    "open",
    "back",
    "app.show_help",
    "new_run",
    "stop_run",
    "check",
    "logs",
    "filter",
    "follow",
    "app.ask_quit",
    "describe",
    "next_sort",
    "shell",
    "execute",
    "export",
    "app.command_palette",
    "zoom",
    "delete_slice",
)
"""Actions in the order in which their keys are shown; others come after them."""


class KeyFooter(Footer):
    """Textual's footer in an order of its own and without the keys that do not fit; `?` tells of all."""

    def __init__(self) -> None:
        super().__init__(show_command_palette=False, compact=True)
        self._room = 0
        self._shown: list[tuple[object, ...]] = []

    def compose(self) -> ComposeResult:
        """The keys that fit into the screen's width."""
        self._shown = self._shown_bindings()
        self._room = room = self.app.size.width
        for key in sorted(super().compose(), key=_place):
            room -= cell_len(str(getattr(key, "key_display", ""))) + cell_len(str(getattr(key, "description", "")))
            room -= KEY_GAP_COLUMNS
            if room < -1:  # the blank after the last one may be missing
                return
            yield key

    def bindings_changed(self, screen: Screen[Any]) -> None:
        """As a footer does it, but once in a window that has not got the focus as well: no line is empty."""
        self._bindings_ready = True
        if self.is_attached and screen is self.screen and (screen.app.app_focus or not self.children):
            self.call_after_refresh(self._recompose_if_changed)

    def on_resize(self, event: events.Resize) -> None:
        """More keys, or fewer."""
        if event.size.width != self._room:
            self.call_after_refresh(self.recompose)

    async def _recompose_if_changed(self) -> None:
        """Make the keys anew where they are others: most changes of the focus leave them as they are."""
        if self.is_attached and (not self.children or self._shown_bindings() != self._shown):
            await self.recompose()

    def _shown_bindings(self) -> list[tuple[object, ...]]:
        bindings = self.screen.active_bindings.values()
        return [(binding, enabled, tooltip) for _, binding, enabled, tooltip in bindings if binding.show]


def _place(key: Widget) -> int:
    action = getattr(key, "action", "")
    return ACTION_ORDER.index(action) if action in ACTION_ORDER else len(ACTION_ORDER)
