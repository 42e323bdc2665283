"""The delete dialog: asks for the slice's name, then shows the progress."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from textual.widget import Widget
from textual.widgets import Button, Input, Static

from tui.console.screens.dialog import LiveDialog, make_plain_text
from tui.settings.command_line import command_line

if TYPE_CHECKING:
    from tui.console.data.ongoing_work import DeleteProgress
    from tui.pod.slice import Slice


class DeleteDialog(LiveDialog[None]):
    """Shows what is lost, asks for the name, and shows the progress (`begin` is called once)."""

    AUTO_FOCUS = "#name"

    def __init__(
        self,
        slice_: Slice,
        runs: Sequence[str],
        begin: Callable[[], DeleteProgress],
        progress: DeleteProgress | None = None,
    ) -> None:
        super().__init__()
        self.title = f"delete {slice_.path}"
        self._slice = slice_
        self._runs = runs
        self._begin = begin
        self.progress = progress
        self._progress_text = Static("", markup=False, id="progress")

    def body(self) -> Sequence[Widget]:
        """Return what is lost and the field for the name."""
        count = len(self._slice.workers)
        workers = "its worker and its disk" if count == 1 else f"its {count} workers and their disks"
        text = f"This permanently deletes the slice, {workers}."
        if self._runs:
            text += "\n\nThis also ends these runs:\n  " + "\n  ".join(self._runs)
        text += f"\n\nType the name of the slice, {self._slice.name}, to confirm."
        return [
            Static(make_plain_text(text), markup=False, id="question"),
            Input(id="name", compact=True),
            self._progress_text,
        ]

    def equivalent(self) -> str:
        """Return the command that deletes the slice."""
        return command_line(self.console.operator.settings, "slices", "delete", self._slice.path)

    def buttons(self) -> Sequence[Button]:
        """Return the two answers, the harmless one first."""
        return [Button("Keep slice", id="leave"), Button("Delete slice", id="begin", variant="error", disabled=True)]

    def on_mount(self) -> None:
        """Show the question."""
        self._arrange()
        self.ready = True

    def on_input_changed(self, event: Input.Changed) -> None:
        """Enable the button for the right name only."""
        self.query_one("#begin", Button).disabled = event.value != self._slice.name

    def on_input_submitted(self) -> None:
        """Delete if the name is right, else say that nothing was deleted."""
        typed = self.query_one("#name", Input).value
        if typed and typed != self._slice.name:
            self.notify(
                f"{typed} is not the name of the slice, {self._slice.name}. Nothing was deleted.",
                markup=False,
                timeout=4,
            )
        self._delete()

    def answered(self, button: str) -> None:  # noqa: ARG002
        """Delete: the red button was pressed."""
        self._delete()

    def _delete(self) -> None:
        if self.progress is None and self.query_one("#name", Input).value == self._slice.name:
            self.progress = self._begin()
            self._arrange()

    def _arrange(self) -> None:
        going = self.progress is not None
        self.query_one("#question").display = not going
        self.query_one("#name").display = not going
        self.query_one("#begin").display = not going
        self._progress_text.display = going
        if going:
            self.query_one("#leave", Button).label = "Close"
            self.query_one("#leave").focus()
        self.tick()

    def tick(self) -> None:
        """Show the newest progress."""
        if self.progress is not None and str(self._progress_text.content) != self.progress.text:
            self._progress_text.update(make_plain_text(self.progress.text))
