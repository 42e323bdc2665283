"""A text field with choices: the arrow keys go through them, and any other text is possible, too."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.binding import Binding, BindingType

from tui.console.widgets.text_fields import TextField


class ChoiceInput(TextField):
    """An input whose arrow keys show, one after the other, the choices that contain what was typed."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("down", "choose(1)", "Next choice", show=False, id="choice.next"),
        Binding("up", "choose(-1)", "Previous choice", show=False, id="choice.previous"),
    ]

    def __init__(self, value: str, *, id: str, placeholder: str = "") -> None:  # noqa: A002 - Textual's own name for it
        super().__init__(value, id=id, compact=True, placeholder=placeholder)
        self.choices: Sequence[str] = ()
        self._typed = value
        self._chosen: str | None = None

    @property
    def matching(self) -> Sequence[str]:
        """Return the choices that contain what was typed; all of them for a text that is a choice, or in none."""
        if self.value != self._chosen:
            self._typed, self._chosen = self.value, None
        typed = self._typed.strip().lower()
        matches = [choice for choice in self.choices if typed in choice.lower()]
        return self.choices if not matches or typed in self.choices else matches

    def action_choose(self, by: int) -> None:
        """Show the next or previous choice."""
        matching = self.matching
        if not matching:
            return
        index = matching.index(self.value) + by if self.value in matching else min(by, 0)
        self._chosen = self.value = matching[index % len(matching)]
        self.cursor_position = len(self.value)

    def describe_choices(self) -> str:
        """Return the choices as text, from the one before the current one; the current one is in brackets."""
        matching = self.matching
        if not matching:
            return ""
        index = matching.index(self.value) if self.value in matching else 0
        labels = [f"[{choice}]" if choice == self.value else choice for choice in matching[max(0, index - 1) :]]
        return f"↑↓ {'… ' if index > 1 else ''}{' '.join(labels)}"
