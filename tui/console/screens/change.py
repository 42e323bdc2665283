"""The dialogs that ask before something is started, stopped or deleted, then show the progress."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding, BindingType
from textual.widget import Widget
from textual.widgets import Button, Static

from tui.console.data.pollers import SLICES
from tui.console.screens.dialog import LiveDialog, make_plain_text
from tui.console.widgets.text_fields import TextField
from tui.settings.command_line import command_line

if TYPE_CHECKING:
    from textual.widgets.button import ButtonVariant

    from tui.console.data.ongoing_work import ChangeProgress, StopProgress
    from tui.pod.resources import CloudResource
    from tui.pod.slice import Slice


class ChangeDialog(LiveDialog[None]):
    """Says what a change does, asks, and shows its progress (`begin` is called once).

    Enter changes nothing, because the harmless button has the focus: `y` or the other button begins the change.
    If a name is given, it has to be typed first. `command` are the words of tpu-tui's equivalent command, `labels`
    those of the two buttons, the harmless one first.
    """

    AUTO_FOCUS = "#name, #leave"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("y", "begin", "Begin", show=False, id="change.begin")]

    def __init__(
        self,
        question: str,
        begin: Callable[[], ChangeProgress | StopProgress],
        progress: ChangeProgress | StopProgress | None,
        name: str = "",
        *,
        title: str,
        command: Sequence[str],
        labels: tuple[str, str],
        variant: ButtonVariant = "error",
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
        self._leave = Button(labels[0], id="leave")
        self._act = Button(labels[1], id="begin", variant=variant)

    def body(self) -> Sequence[Widget]:
        """Return the question, with a field for the name, and the progress, of which one is shown."""
        fields = [self._name_field] if self._name else []
        return [self._question, *fields, self._progress_text]

    def buttons(self) -> Sequence[Button]:
        """Return the two answers, the harmless one first."""
        return [self._leave, self._act]

    def equivalent(self) -> str:
        """Return the command that makes the same change."""
        return command_line(self.app.operator.settings, *self._command)

    def on_mount(self) -> None:
        """Show the question."""
        self._act.disabled = not self.is_sure()
        self._arrange()

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


class ResourceDeletionDialog(ChangeDialog):
    """Shows what is lost with a resource, and asks for its name."""

    def __init__(
        self,
        resource: CloudResource,
        effect: str,
        begin: Callable[[], ChangeProgress],
        progress: ChangeProgress | None = None,
    ) -> None:
        super().__init__(
            f"This permanently deletes {effect}.",
            begin,
            progress,
            resource.name,
            title=f"delete {resource.ref}",
            command=("resources", "delete", resource.ref),
            labels=("Keep it", "Delete it"),
        )


@dataclass(frozen=True)
class _SliceChange:
    """What a change does to a slice, and the labels of the answers."""

    effect: str
    labels: tuple[str, str]
    variant: ButtonVariant = "error"
    ends_runs: bool = True


_SLICE_CHANGES: Mapping[str, _SliceChange] = {
    "start": _SliceChange(
        "This starts the slice. It costs money from then on.",
        ("Cancel", "Start slice (y)"),
        variant="success",
        ends_runs=False,
    ),
    "stop": _SliceChange(
        "This stops the slice and releases its TPU. Its disk stays.", ("Keep running", "Stop slice (y)")
    ),
    "delete": _SliceChange("This permanently deletes the slice, {}.", ("Keep slice", "Delete slice")),
}


class SliceChangeDialog(ChangeDialog):
    """Says what a change does to a slice, and which runs it ends; asks for the name of a slice to delete."""

    def __init__(
        self,
        action: str,
        slice_: Slice,
        runs: Sequence[str],
        begin: Callable[[], ChangeProgress],
        progress: ChangeProgress | None = None,
    ) -> None:
        self._slice = slice_
        change, count = _SLICE_CHANGES[action], len(slice_.workers)
        lost = "its worker and its disk" if count == 1 else f"its {count} workers and their disks"
        ended = "\n  ".join(["\n\nThis also ends these runs:", *runs]) if runs and change.ends_runs else ""
        super().__init__(
            change.effect.format(lost) + ended,
            begin,
            progress,
            slice_.name if action == "delete" else "",
            title=f"{action} {slice_.path}",
            command=("slices", action, slice_.path),
            labels=change.labels,
            variant=change.variant,
        )

    def gone(self) -> str:
        """Return a sentence if the slice was deleted meanwhile; empty if it was not."""
        path, reading = self._slice.path, self.app.store.get(SLICES)
        is_listed = reading.value is None or any(slice_.path == path for slice_ in reading.value)
        return "" if is_listed or reading.problems else f"{path} is gone: it has been deleted."
