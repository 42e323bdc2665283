"""The dialog that asks before something is started, stopped or deleted, then shows the progress."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding, BindingType
from textual.widget import Widget
from textual.widgets import Button, Static

from tui.console.screens.dialog import LiveDialog, make_plain_text
from tui.console.widgets.text_fields import TextField
from tui.settings.command_line import command_line

if TYPE_CHECKING:
    from textual.widgets.button import ButtonVariant

    from tui.console.data.ongoing_work import ChangeProgress, StopProgress


class ChangeDialog(LiveDialog[None]):
    """Says what a change does, asks, and shows its progress (`begin` is called once).

    Enter changes nothing, because the harmless button has the focus: `y` or the other button begins the change.
    If a name is given, it has to be typed first. `command` are the words of tpu-tui's equivalent command.
    """

    AUTO_FOCUS = "#name, #leave"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("y", "begin", "Begin", show=False, id="change.begin")]
    BEGIN: ClassVar[str]
    KEEP: ClassVar[str] = "Cancel"
    VARIANT: ClassVar[ButtonVariant] = "error"

    def __init__(
        self,
        question: str,
        begin: Callable[[], ChangeProgress | StopProgress],
        progress: ChangeProgress | StopProgress | None,
        name: str = "",
        *,
        title: str,
        command: Sequence[str],
    ) -> None:
        super().__init__(title=title)
        self._command = command
        text = f"{question}\n\nType its name, {name}, to confirm." if name else question
        self._name = name
        self._begin = begin
        self.progress = progress
        self._question = Static(make_plain_text(text), markup=False, id="question")
        self._name_field = TextField(id="name", compact=True)
        self._progress_text = Static("", markup=False, id="progress")
        self._leave = Button(self.KEEP, id="leave")
        self._act = Button(self.BEGIN, id="begin", variant=self.VARIANT)

    def body(self) -> Sequence[Widget]:
        """Return the question, with a field for the name, and the progress, of which one is shown."""
        fields = [self._name_field] if self._name else []
        return [self._question, *fields, self._progress_text]

    def buttons(self) -> Sequence[Button]:
        """Return the two answers, the harmless one first."""
        return [self._leave, self._act]

    def equivalent(self) -> str:
        """Return the command that makes the same change."""
        return command_line(self.console.operator.settings, *self._command)

    def on_mount(self) -> None:
        """Show the question."""
        self._act.disabled = not self.is_sure()
        self._arrange()
        self.ready = True

    def is_sure(self) -> bool:
        """Return whether the change may begin."""
        return not self._name or self._name_field.value == self._name

    def gone(self) -> str:
        """Return a sentence if the thing to change no longer exists; empty if it exists."""
        return ""

    def on_input_changed(self) -> None:
        """Enable the button for the right name only."""
        self._act.disabled = not self.is_sure()

    def on_input_submitted(self) -> None:
        """Begin if the name is right, else say that nothing was deleted."""
        typed = self._name_field.value
        if typed and not self.is_sure():
            text = f"{typed} is not its name, {self._name}. Nothing was deleted."
            self.notify(text, timeout=4)
        self.action_begin()

    def answered(self, button: str) -> None:  # noqa: ARG002
        """Begin: the red button was pressed."""
        self.action_begin()

    def action_begin(self) -> None:
        """Begin the change, once."""
        if self.progress is None and self.is_sure() and self._act.display:
            self.progress = self._begin()
            self._arrange()

    def _arrange(self) -> None:
        is_begun = self.progress is not None
        self._question.display = not is_begun
        self._progress_text.display = is_begun
        if is_begun:
            self._close_question()
        self.tick()

    def _close_question(self) -> None:
        """Leave nothing to do but to close the dialog."""
        self._act.display = self._name_field.display = False
        self._leave.label = "Close"
        self._leave.refresh(layout=True)  # Textual leaves it as wide as its first label
        self._leave.focus()

    def tick(self) -> None:
        """Show the newest progress, or that there is nothing left to change."""
        if self.progress is not None:
            text = make_plain_text(self.progress.text)
            if text != self._progress_text.content:
                self._progress_text.update(text)
        elif self._act.display and (reason := self.gone()):
            self._question.update(make_plain_text(reason))
            self._close_question()
