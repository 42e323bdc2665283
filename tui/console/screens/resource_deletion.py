"""The dialog that asks for a resource's name, then shows its deletion."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from textual.widget import Widget
from textual.widgets import Button, Input, Static

from tui.console.screens.dialog import LiveDialog, make_plain_text
from tui.settings.command_line import command_line

if TYPE_CHECKING:
    from tui.console.data.resources import ResourceDeletion
    from tui.pod.resources import CloudResource


class ResourceDeletionDialog(LiveDialog[None]):
    """Shows what is lost, asks for the name, and shows the progress (`begin` is called once)."""

    AUTO_FOCUS = "#name"

    def __init__(
        self,
        resource: CloudResource,
        effect: str,
        begin: Callable[[], ResourceDeletion],
        progress: ResourceDeletion | None = None,
    ) -> None:
        super().__init__()
        self.title = f"delete {resource.ref}"
        self._resource = resource
        self._effect = effect
        self._begin = begin
        self.progress = progress
        self._progress_text = Static("", markup=False, id="progress")

    def body(self) -> Sequence[Widget]:
        """Return what is lost and the field for the name."""
        text = f"This permanently deletes {self._effect}.\n\nType its name, {self._resource.name}, to confirm."
        return [
            Static(make_plain_text(text), markup=False, id="question"),
            Input(id="name", compact=True),
            self._progress_text,
        ]

    def equivalent(self) -> str:
        """Return the command that deletes the resource."""
        return command_line(self.console.operator.settings, "resources", "delete", self._resource.ref)

    def buttons(self) -> Sequence[Button]:
        """Return the two answers, the harmless one first."""
        return [Button("Keep it", id="leave"), Button("Delete it", id="begin", variant="error", disabled=True)]

    def on_mount(self) -> None:
        """Show the question."""
        self._arrange()
        self.ready = True

    def on_input_changed(self, event: Input.Changed) -> None:
        """Enable the button for the right name only."""
        self.query_one("#begin", Button).disabled = event.value != self._resource.name

    def on_input_submitted(self) -> None:
        """Delete if the name is right, else say that nothing was deleted."""
        typed = self.query_one("#name", Input).value
        if typed and typed != self._resource.name:
            text = f"{typed} is not its name, {self._resource.name}. Nothing was deleted."
            self.notify(text, markup=False, timeout=4)
        self._delete()

    def answered(self, button: str) -> None:  # noqa: ARG002
        """Delete: the red button was pressed."""
        self._delete()

    def _delete(self) -> None:
        if self.progress is None and self.query_one("#name", Input).value == self._resource.name:
            self.progress = self._begin()
            self._arrange()

    def _arrange(self) -> None:
        is_begun = self.progress is not None
        for name in ("#question", "#name", "#begin"):
            self.query_one(name).display = not is_begun
        self._progress_text.display = is_begun
        if is_begun:
            leave = self.query_one("#leave", Button)
            leave.label = "Close"
            leave.focus()
        self.tick()

    def tick(self) -> None:
        """Show the newest progress."""
        if self.progress is not None and str(self._progress_text.content) != self.progress.text:
            self._progress_text.update(make_plain_text(self.progress.text))
