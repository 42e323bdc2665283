"""How far the deletion of a slice is."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tui.errors import TpuTuiError
    from tui.pod.slice import Slice

MAX_PROGRESS_LINES = 10


class DeleteProgress:
    """A deletion in progress. It outlives the dialog that shows it."""

    def __init__(self, slice_: Slice) -> None:
        self.slice = slice_
        self.lines: list[str] = []
        self.problem: TpuTuiError | None = None
        self.done = False

    @property
    def text(self) -> str:
        """Return the newest lines, newest last, and the error if there is one."""
        lines = self.lines[-MAX_PROGRESS_LINES:]
        if self.problem is not None:
            return "\n".join([*lines, str(self.problem)])
        lines = lines or ["sending the request…"]
        return "\n".join(lines if self.done else [*lines, "", "Esc closes this window; the deletion continues."])
