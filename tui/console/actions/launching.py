"""Actions that launch runs."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from tui.console.data.launch_form import LaunchForm
from tui.console.data.pollers import RUNS, SLICES
from tui.console.screens.dialog import WaitDialog
from tui.console.screens.launch import LaunchDialog
from tui.pod.job_options import JobOptions

if TYPE_CHECKING:
    from tui.console.base_app import BaseApp
    from tui.operator import RunDirectory
    from tui.pod.slice import Slice


class LaunchActions:
    """Ask what to launch, and open what was launched."""

    def __init__(self, app: BaseApp) -> None:
        self._app = app

    def ask_new_run(self, slice_: Slice | None) -> None:
        """Ask what to launch on a slice."""
        if self._list_slices_first(lambda: self.ask_new_run(slice_)):
            return
        app = self._app
        reading = app.store.get(SLICES)
        slices = reading.value or ()
        if not slices:
            reasons = [str(problem) for problem in reading.problems]
            reasons = reasons or [f"no slices in {app.operator.slices.where}"]
            app.notify("\n".join(["Nothing to launch on", *reasons]), timeout=6)
            return
        self._show_form(
            LaunchForm(
                slices,
                slice_.path if slice_ else slices[0].path,
                JobOptions(tuple(app.default_command), runtime=app.operator.settings.runtime),
            )
        )

    def ask_repeat(self, directory: RunDirectory | None) -> None:
        """Ask what to launch, filled in from a run."""
        if self._list_slices_first(lambda: self.ask_repeat(directory)):
            return
        slices = self._app.store.get(SLICES).value or ()
        if directory is None or not slices:
            self.ask_new_run(None)
        else:
            code = self._app.ongoing.code_sources.get(directory.id)
            self._show_form(LaunchForm.from_run(directory.run, slices, code))

    def _list_slices_first(self, then: Callable[[], None]) -> bool:
        """Return whether the slices are still to be listed; `then` is called afterwards."""
        reading = self._app.store.get(SLICES)
        if reading.at is not None or reading.problems:
            return False
        dialog = WaitDialog("new run", f"Listing the slices of {self._app.operator.slices.where} …")
        self._app.push_screen(dialog)
        self._app.tasks.start("listing the slices", self._once_listed(dialog, then), self._app.show_error)
        return True

    async def _once_listed(self, dialog: WaitDialog, then: Callable[[], None]) -> None:
        await self._app.pollers.wait_for_slices()
        if not self._app.is_on_top(dialog):
            dialog.leave_with(None)
            return
        self._app.pop_screen()
        then()
        for event in dialog.typed:
            self._app.post_message(event)

    def _show_form(self, form: LaunchForm) -> None:
        statuses = self._app.store.get(RUNS).value or ()
        earlier = tuple(shlex.join(status.run.job.argv) for status in statuses)
        self._app.push_screen(LaunchDialog(replace(form, earlier=earlier)), self._open_launched)

    def _open_launched(self, run_id: str | None) -> None:
        if run_id is not None:
            self._app.open_run(self._app.open_directory(run_id), replace=True)
