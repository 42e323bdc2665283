"""The dialogs that start, stop or delete a slice: they ask, then show the progress."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from textual.binding import Binding, BindingType
from textual.widget import Widget
from textual.widgets import Button, Input, Static

from tui.console.data.pollers import SLICES
from tui.console.screens.dialog import LiveDialog, make_plain_text
from tui.settings.command_line import command_line

if TYPE_CHECKING:
    from textual.widgets.button import ButtonVariant

    from tui.console.data.ongoing_work import SliceChangeProgress
    from tui.pod.slice import Slice


class SliceChangeDialog(LiveDialog[None]):
    """Says what a change does, asks, and shows its progress (`begin` is called once).

    Enter changes nothing: the button that does is reached by `y`, or by choosing it.
    """

    AUTO_FOCUS = "#leave"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("y", "begin", "Change the slice", show=False, id="slice.begin")]
    ACTION: ClassVar[str]
    BEGIN: ClassVar[str]
    KEEP: ClassVar[str] = "Cancel"
    VARIANT: ClassVar[ButtonVariant] = "error"
    ENDS_RUNS: ClassVar[bool] = True

    def __init__(
        self,
        slice_: Slice,
        runs: Sequence[str],
        begin: Callable[[], SliceChangeProgress],
        progress: SliceChangeProgress | None = None,
    ) -> None:
        super().__init__()
        self.title = f"{self.ACTION} {slice_.path}"
        self._slice = slice_
        self._runs = runs
        self._begin = begin
        self.progress = progress
        self._question = Static(make_plain_text(self.question()), markup=False, id="question")
        self._progress_text = Static("", markup=False, id="progress")
        self._leave = Button(self.KEEP, id="leave")
        self._act = Button(self.BEGIN, id="begin", variant=self.VARIANT)

    def effect(self) -> str:
        """Return what the change does to the slice."""
        raise NotImplementedError

    def question(self) -> str:
        """Return what is changed, and which runs that ends."""
        text = self.effect()
        if self._runs and self.ENDS_RUNS:
            text += "\n\nThis also ends these runs:\n  " + "\n  ".join(self._runs)
        return text

    def body(self) -> Sequence[Widget]:
        """Return the question and the progress, of which one is shown."""
        return [self._question, self._progress_text]

    def equivalent(self) -> str:
        """Return the command that changes the slice."""
        return command_line(self.console.operator.settings, "slices", self.ACTION, self._slice.path)

    def buttons(self) -> Sequence[Button]:
        """Return the two answers, the harmless one first."""
        return [self._leave, self._act]

    def on_mount(self) -> None:
        """Show the question."""
        self._act.disabled = not self.is_sure()
        self._arrange()
        self.ready = True

    def is_sure(self) -> bool:
        """Return whether the change may begin."""
        return True

    def answered(self, button: str) -> None:  # noqa: ARG002
        """Begin: the red button was pressed."""
        self.action_begin()

    def action_begin(self) -> None:
        """Begin the change, once."""
        if self.progress is None and self.is_sure() and self._act.display:
            self.progress = self._begin()
            self._arrange()

    def _arrange(self) -> None:
        going = self.progress is not None
        self._question.display = not going
        self._progress_text.display = going
        if going:
            self.close_question()
        self.tick()

    def close_question(self) -> None:
        """Leave nothing to do but to close the dialog."""
        self._act.display = False
        self._leave.label = "Close"
        self._leave.focus()

    def tick(self) -> None:
        """Show the newest progress, or that the slice is gone before the question was answered."""
        if self.progress is not None:
            if str(self._progress_text.content) != self.progress.text:
                self._progress_text.update(make_plain_text(self.progress.text))
        elif self._act.display and self._is_gone():
            self._question.update(make_plain_text(f"{self._slice.path} is gone: it was deleted meanwhile."))
            self.close_question()

    def _is_gone(self) -> bool:
        reading = self.console.store.get(SLICES)
        return (
            reading.value is not None
            and not reading.problems
            and not any(one.path == self._slice.path for one in reading.value)
        )


class StartSliceDialog(SliceChangeDialog):
    """Asks whether to start a stopped slice."""

    ACTION = "start"
    BEGIN = "Start slice (y)"
    VARIANT = "success"
    ENDS_RUNS = False

    def effect(self) -> str:
        """Return what it costs."""
        return "This starts the slice. It costs money from then on."


class StopSliceDialog(SliceChangeDialog):
    """Asks whether to stop a slice."""

    ACTION = "stop"
    BEGIN = "Stop slice (y)"
    KEEP = "Keep running"

    def effect(self) -> str:
        """Return what stays."""
        return "This stops the slice and releases its TPU. Its disk stays."


class DeleteSliceDialog(SliceChangeDialog):
    """Asks for the name of a slice, then deletes it."""

    ACTION = "delete"
    BEGIN = "Delete slice"
    KEEP = "Keep slice"
    AUTO_FOCUS = "#name"

    def __init__(self, slice_: Slice, *more: Any) -> None:
        super().__init__(slice_, *more)
        self._name_field = Input(id="name", compact=True)

    def effect(self) -> str:
        """Return what is lost."""
        count = len(self._slice.workers)
        workers = "its worker and its disk" if count == 1 else f"its {count} workers and their disks"
        return f"This permanently deletes the slice, {workers}."

    def question(self) -> str:
        """Return what is lost, and what confirms it."""
        return f"{super().question()}\n\nType the name of the slice, {self._slice.name}, to confirm."

    def body(self) -> Sequence[Widget]:
        """Return the question with a field for the name."""
        return [self._question, self._name_field, self._progress_text]

    def is_sure(self) -> bool:
        """Return whether the name was typed."""
        return self._name_field.value == self._slice.name

    def on_input_changed(self) -> None:
        """Enable the button for the right name only."""
        self._act.disabled = not self.is_sure()

    def on_input_submitted(self) -> None:
        """Delete if the name is right, else say that nothing was deleted."""
        typed = self._name_field.value
        if typed and not self.is_sure():
            self.notify(
                f"{typed} is not the name of the slice, {self._slice.name}. Nothing was deleted.",
                markup=False,
                timeout=4,
            )
        self.action_begin()

    def close_question(self) -> None:
        """Take the field away with the question."""
        self._name_field.display = False
        super().close_question()


CHANGE_DIALOGS: Mapping[str, type[SliceChangeDialog]] = {
    one.ACTION: one for one in (StartSliceDialog, StopSliceDialog, DeleteSliceDialog)
}
