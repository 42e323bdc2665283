"""Actions on slices: check and delete."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from tui.console.data.ongoing_work import DeleteProgress
from tui.console.data.pollers import RUNS, checks_of
from tui.console.screens.delete import DeleteDialog
from tui.errors import TpuTuiError

if TYPE_CHECKING:
    from tui.console.context import ConsoleContext
    from tui.pod.slice import Slice

MAX_AUTO_CHECKED_WORKERS = 64
"""Slices of up to this many workers are checked when the cursor first rests on them."""
AUTO_CHECK_DELAY_S = 0.5
AUTO_CHECK = "check after a pause"
NO_SLICE = "No slice selected"


class SliceActions:
    """Check a slice, or delete it."""

    def __init__(self, context: ConsoleContext) -> None:
        self._context = context

    def check_after_pause(self, slice_: Slice | None) -> None:
        """Check a slice once if the cursor rests on it and the slice is not huge."""
        context = self._context
        context.tasks.cancel(AUTO_CHECK)
        if slice_ is None or not slice_.is_ready or not 0 < len(slice_.workers) <= MAX_AUTO_CHECKED_WORKERS:
            return
        if context.store.get(checks_of(slice_)).revision == 0:
            context.tasks.start(AUTO_CHECK, self._check_after_pause(slice_))

    async def _check_after_pause(self, slice_: Slice) -> None:
        await asyncio.sleep(AUTO_CHECK_DELAY_S)
        self._context.pollers.check(slice_)

    def check(self, slice_: Slice | None) -> None:
        """Run every check of a slice."""
        if slice_ is None:
            self._context.notify(NO_SLICE, timeout=3)
        else:
            self._context.pollers.check(slice_)

    def delete(self, slice_: Slice | None) -> None:
        """Ask for the slice's name, then delete it; show a deletion that is already in progress."""
        context = self._context
        if slice_ is None:
            context.notify(NO_SLICE, timeout=3)
            return
        statuses = context.store.get(RUNS).value or ()
        live = [status.run.id for status in statuses if status.run.slice == slice_.name and not status.state.is_over]
        progress = context.ongoing.deletions.get(slice_.path)
        context.push_screen(DeleteDialog(slice_, live, lambda: self._start_deletion(slice_), progress))

    def _start_deletion(self, slice_: Slice) -> DeleteProgress:
        context = self._context
        progress = context.ongoing.deletions[slice_.path] = DeleteProgress(slice_)
        context.tasks.start(f"delete {slice_.path}", self._delete(slice_, progress), context.show_error)
        return progress

    async def _delete(self, slice_: Slice, progress: DeleteProgress) -> None:
        context = self._context
        try:
            async for line in context.operator.slices.change(slice_, "delete"):
                progress.lines.append(line)
            context.notify(f"{slice_.path} is deleted", markup=False, timeout=6)
        except TpuTuiError as error:
            progress.problem = error
            context.show_error(error)
        finally:
            progress.done = True
            context.ongoing.deletions.pop(slice_.path, None)
            context.pollers.refresh()
