"""The delete dialog: a slice goes only when its name is typed; then it shows how far that is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from textual.widget import Widget
from textual.widgets import Button, Input, Static

from tui.console.screens.dialog import LiveDialog, plain

if TYPE_CHECKING:
    from tui.errors import TpuTuiError
    from tui.pod.slice import Slice

MOST_LINES = 10


class DeleteProgress:
    """A deletion that is under way: outlives the dialog that shows it."""

    def __init__(self, slice_: Slice) -> None:
        self.slice = slice_
        self.lines: list[str] = []
        self.problem: TpuTuiError | None = None
        self.done = False

    @property
    def told(self) -> str:
        """What happened so far, newest last."""
        lines = self.lines[-MOST_LINES:] or ["asking…"]
        if self.problem is not None:
            return "\n".join([*self.lines[-MOST_LINES:], str(self.problem)])
        return "\n".join(lines if self.done else [*lines, "", "esc leaves this window, deleting goes on."])


class DeleteDialog(LiveDialog[None]):
    """Says what is lost, asks for the name, and shows the progress (`begin` is called once for that)."""

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
        self._told = Static("", markup=False, id="told")

    def body(self) -> Sequence[Widget]:
        """What is lost, and where the name is typed."""
        count = len(self._slice.workers)
        told = f"The slice, its {count} worker{'s' if count != 1 else ''} and their disks go for good."
        if self._runs:
            told += "\n\nRuns that end with it:\n  " + "\n  ".join(self._runs)
        told += f"\n\nType its name, {self._slice.name}, to delete it."
        return [Static(plain(told), markup=False, id="question"), Input(id="name", compact=True), self._told]

    def buttons(self) -> Sequence[Button]:
        """Keep it, or delete it."""
        return [Button("Keep it", id="leave"), Button("Delete it", id="begin", variant="error", disabled=True)]

    def on_mount(self) -> None:
        """Wait for the name."""
        self._arrange()
        self.ready = True

    def on_input_changed(self, event: Input.Changed) -> None:
        """The button is there for the right name only."""
        self.query_one("#begin", Button).disabled = event.value != self._slice.name

    def on_input_submitted(self) -> None:
        """Enter after the right name deletes as well, and says so of another one."""
        typed = self.query_one("#name", Input).value
        if typed and typed != self._slice.name:
            self.notify(f"{typed} is not its name, {self._slice.name}: nothing is deleted", markup=False, timeout=4)
        self._delete()

    def answered(self, button: str) -> None:  # noqa: ARG002
        """The red button."""
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
        self._told.display = going
        if going:
            self.query_one("#leave", Button).label = "Close"
            self.query_one("#leave").focus()
        self.tick()

    def tick(self) -> None:
        """Show what was said since the last time."""
        if self.progress is not None and str(self._told.content) != self.progress.told:
            self._told.update(plain(self.progress.told))
