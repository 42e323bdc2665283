"""The base of forms: labelled fields, and beside or beneath them a text that follows what is typed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import ClassVar

from textual import events
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.widget import Widget
from textual.widgets import Input, Label, Select, Static, TextArea

from tui.console.screens.dialog import Answer, Dialog, make_plain_text
from tui.console.widgets.text_fields import TextField

SAME_IN_A_SHELL = "The same in a shell (^y copies it):"


class Fields(VerticalScroll):
    """The fields of a form; the one with the focus stays in view when there is less room for them."""

    def on_resize(self) -> None:
        """Scroll to the field with the focus."""
        focused = self.screen.focused
        if focused is not None and self in focused.ancestors:
            self.scroll_to_widget(focused, animate=False)


class FormDialog(Dialog[Answer]):
    """Fields and a preview, side by side where both fit."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("pageup", "page(-1)", "Scroll the preview", show=False, id="form.page_up", priority=True),
        Binding("pagedown", "page(1)", "Scroll the preview", show=False, id="form.page_down", priority=True),
    ]
    PAGED = "#preview"
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (110, "-normal")]  # noqa: RUF012 - Textual declares it so
    VERTICAL_BREAKPOINTS = [(0, "-short"), (38, "-tall")]  # noqa: RUF012

    def first_fields(self) -> Iterable[Widget]:
        """Return the fields in full width above the others."""
        return ()

    def fields(self) -> Iterable[Widget]:
        """Return the other fields."""
        raise NotImplementedError

    def body(self) -> Sequence[Widget]:
        """Return the fields and the preview."""
        first = Vertical(*self.first_fields(), id="first")
        fields = Fields(*self.fields(), id="fields", can_focus=False)
        preview = VerticalScroll(Static("", id="preview-text", markup=False), id="preview")
        return [first, Horizontal(fields, preview, id="halves")]

    def on_descendant_focus(self, event: events.DescendantFocus) -> None:
        """Emphasise the label of the field that has the focus."""
        for field in self.query(".field"):
            field.set_class(event.widget in field.children, "-current")

    def show_preview(self, *parts: str) -> None:
        """Show texts in the preview, with a blank line between them; empty ones are left out."""
        text = make_plain_text("\n\n".join(part for part in parts if part))
        self.query_one("#preview-text", Static).update(text)

    def read_field(self, name: str) -> str:
        """Return what the field of this name holds."""
        field = self.query_one(f"#{name}")
        if isinstance(field, TextArea):
            return field.text
        return str(field.value) if isinstance(field, (Input, Select)) else ""


def add_label(label: str, field: Widget) -> Widget:
    """Return a field with its label before it."""
    return Horizontal(Label(label), field, classes="field")


def make_field(label: str, name: str, value: str, hint: str = "", choices: Mapping[str, str] | None = None) -> Widget:
    """Return a field with its label: for any text, or for one of the `choices`, whose labels they map to.

    `hint` is shown while a text is empty.
    """
    if choices:
        options = [(text, choice) for choice, text in choices.items()]
        return add_label(label, Select(options, value=value, allow_blank=False, id=name, compact=True))
    return add_label(label, TextField(value, placeholder=hint, id=name, compact=True))
