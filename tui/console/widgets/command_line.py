"""A field for a command: pasted lines become one, and the arrow keys bring back what was typed before."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from textual import events
from textual.binding import Binding, BindingType

from tui.console.widgets.text_fields import TextField


def join_lines(text: str) -> str:
    """Return a command of several lines as one, without the backslashes at their ends."""
    return " ".join(filter(None, (line.strip().removesuffix("\\").rstrip() for line in text.splitlines())))


class CommandLine(TextField):
    """An input that joins pasted lines and recalls commands. `earlier` is newest first."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "earlier(1)", "Earlier command", show=False, id="command.earlier"),
        Binding("down", "earlier(-1)", "Later command", show=False, id="command.later"),
    ]

    def __init__(self, value: str = "", *, id: str, earlier: Iterable[str] = (), placeholder: str = "") -> None:  # noqa: A002 - Textual's own name for it
        super().__init__(value, id=id, compact=True, select_on_focus=False, placeholder=placeholder)
        self._earlier = [command for command in dict.fromkeys(earlier) if command]
        self._back = 0
        """How many commands back the field is; 0 is what was typed."""
        self._typed = ""

    def remember(self, command: str) -> None:
        """Remember a command as the newest one."""
        self._earlier = [command, *(old for old in self._earlier if old != command)]
        self._back = 0

    def action_earlier(self, by: int) -> None:
        """Show an earlier or later command; what was typed is the latest."""
        if self._back == 0:
            self._typed = self.value
        back = min(max(0, self._back + by), len(self._earlier))
        if back != self._back:
            self._back = back
            self.value = self._earlier[back - 1] if back else self._typed
            self.cursor_position = len(self.value)

    def on_paste(self, event: events.Paste) -> None:
        """Insert pasted lines as one line."""
        event.prevent_default()
        event.stop()
        self.replace(join_lines(event.text), *self.selection)
