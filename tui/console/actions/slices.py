"""Actions on slices: check, start, stop and delete."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

from tui.console.data.ongoing_work import ChangeProgress
from tui.console.data.pollers import RUNS, checks_of
from tui.console.data.tasks import to_problem
from tui.console.screens.change import SliceChangeDialog
from tui.console.screens.dialog import TextDialog
from tui.pod.slice_commands import explain_impossible

if TYPE_CHECKING:
    from tui.console.base_app import BaseApp
    from tui.pod.slice import Slice

MAX_AUTO_CHECKED_WORKERS = 64
"""Slices of up to this many workers are checked when the cursor first rests on them."""
AUTO_CHECK_DELAY_S = 0.5
AUTO_CHECK = "check after a pause"
NO_SLICE = "No slice selected"
DONE = {"start": "started", "stop": "stopped", "delete": "deleted"}


class SliceActions:
    """Check, start, stop or delete a slice."""

    def __init__(self, app: BaseApp) -> None:
        self._app = app

    def check_after_pause(self, slice_: Slice | None) -> None:
        """Check a slice once if the cursor rests on it and the slice is not huge."""
        app = self._app
        app.tasks.cancel(AUTO_CHECK)
        if slice_ is None or not slice_.is_ready or not 0 < len(slice_.workers) <= MAX_AUTO_CHECKED_WORKERS:
            return
        if app.store.get(checks_of(slice_)).revision == 0:
            app.tasks.start(AUTO_CHECK, self._check_after_pause(slice_))

    async def _check_after_pause(self, slice_: Slice) -> None:
        await asyncio.sleep(AUTO_CHECK_DELAY_S)
        self._app.pollers.check(slice_)

    def check(self, slice_: Slice | None) -> None:
        """Run every check of a slice."""
        if slice_ is None:
            self._app.notify(NO_SLICE, timeout=3)
        else:
            self._app.pollers.check(slice_)

    def change(self, slice_: Slice | None, action: str) -> None:
        """Ask, then start, stop or delete a slice; show a change that is already in progress."""
        app = self._app
        if slice_ is None:
            app.notify(NO_SLICE, timeout=3)
            return
        progress = app.ongoing.changes.get(slice_.path)
        if progress is None and (why := explain_impossible(slice_, action)):
            app.push_screen(TextDialog(f"{action} {slice_.path}", why))
            return
        live = [
            status.run.id
            for status in app.store.get(RUNS).value or ()
            if status.run.slice == slice_.name and status.run.zone in (None, slice_.zone) and not status.state.is_over
        ]

        def begin() -> ChangeProgress:
            return begin_change(app, action, slice_.path, app.operator.slices.change(slice_, action))

        shown = progress.action if progress else action
        app.push_screen(SliceChangeDialog(shown, slice_, live, begin, progress))


def begin_change(
    app: BaseApp, action: str, name: str, steps: AsyncIterator[str], *, path: str = ""
) -> ChangeProgress:
    """Begin to start, stop or delete `name`; return the progress, which is listed under `path` meanwhile."""
    path = path or name
    progress = app.ongoing.changes[path] = ChangeProgress(action)

    async def follow() -> None:
        try:
            async for line in steps:
                progress.lines.append(line)
            if action == "delete":
                app.ongoing.creations.pop(path, None)
            app.notify(f"{name} is {DONE[action]}", timeout=6)
        except Exception as error:
            progress.problem = to_problem(error, f"{action} {name}")
            app.show_error(progress.problem)
        finally:
            progress.done = True
            app.ongoing.changes.pop(path, None)
            app.pollers.refresh()

    app.tasks.start(f"{action} {name}", follow())
    return progress
