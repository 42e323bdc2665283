"""The questions before a slice is started, stopped or deleted."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

from tui.console.data.pollers import SLICES
from tui.console.screens.change import ChangeDialog

if TYPE_CHECKING:
    from tui.console.data.ongoing_work import ChangeProgress
    from tui.pod.slice import Slice


class SliceChangeDialog(ChangeDialog):
    """Says what a change does to a slice, and which runs it ends."""

    ACTION: ClassVar[str]
    EFFECT: ClassVar[str]
    ENDS_RUNS: ClassVar[bool] = True

    def __init__(
        self,
        slice_: Slice,
        runs: Sequence[str],
        begin: Callable[[], ChangeProgress],
        progress: ChangeProgress | None = None,
    ) -> None:
        self._slice = slice_
        ended = "\n  ".join(["\n\nThis also ends these runs:", *runs]) if runs and self.ENDS_RUNS else ""
        super().__init__(
            self.effect() + ended,
            begin,
            progress,
            slice_.name if self.ACTION == "delete" else "",
            title=f"{self.ACTION} {slice_.path}",
            command=("slices", self.ACTION, slice_.path),
        )

    def effect(self) -> str:
        """Return what the change does to the slice."""
        return self.EFFECT

    def gone(self) -> str:
        """Return a sentence if the slice was deleted meanwhile; empty if it was not."""
        path, reading = self._slice.path, self.console.store.get(SLICES)
        is_listed = reading.value is None or any(slice_.path == path for slice_ in reading.value)
        return "" if is_listed or reading.problems else f"{path} is gone: it has been deleted."


class StartSliceDialog(SliceChangeDialog):
    """Asks whether to start a stopped slice."""

    ACTION = "start"
    EFFECT = "This starts the slice. It costs money from then on."
    BEGIN = "Start slice (y)"
    VARIANT = "success"
    ENDS_RUNS = False


class StopSliceDialog(SliceChangeDialog):
    """Asks whether to stop a slice."""

    ACTION = "stop"
    EFFECT = "This stops the slice and releases its TPU. Its disk stays."
    BEGIN = "Stop slice (y)"
    KEEP = "Keep running"


class DeleteSliceDialog(SliceChangeDialog):
    """Asks for the name of a slice, then deletes it."""

    ACTION = "delete"
    BEGIN = "Delete slice"
    KEEP = "Keep slice"

    def effect(self) -> str:
        """Return what is lost."""
        count = len(self._slice.workers)
        workers = "its worker and its disk" if count == 1 else f"its {count} workers and their disks"
        return f"This permanently deletes the slice, {workers}."


CHANGE_DIALOGS: Mapping[str, type[SliceChangeDialog]] = {
    dialog.ACTION: dialog for dialog in (StartSliceDialog, StopSliceDialog, DeleteSliceDialog)
}
