"""What keys and the palette do, by subject; and the actions of the console as a whole."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tui.console.actions.creating import CreateActions
from tui.console.actions.launching import LaunchActions
from tui.console.actions.remote_shell import RemoteShell
from tui.console.actions.resources import ResourceActions
from tui.console.actions.runs import RunActions
from tui.console.actions.slices import SliceActions
from tui.console.data.pollers import RUNS
from tui.console.render.equivalent_commands import list_commands, make_command_rows
from tui.console.screens.dialog import LossyQuitDialog, QuitDialog
from tui.console.screens.equivalents import EquivalentsDialog

if TYPE_CHECKING:
    from tui.console.base_app import BaseApp
    from tui.operator import RunDirectory
    from tui.pod.slice import Slice


class Actions:
    """Everything that the console can do."""

    def __init__(self, app: BaseApp) -> None:
        self._app = app
        self.slices = SliceActions(app)
        self.creating = CreateActions(app)
        self.runs = RunActions(app)
        self.launching = LaunchActions(app)
        self.remote_shell = RemoteShell(app)
        self.resources = ResourceActions(app)

    def show_equivalents(self, slice_: Slice | None, directory: RunDirectory | None, worker: int | None) -> None:
        """Show what can be done with a slice and a run as commands for a shell."""
        run = None if directory is None else directory.run
        code = self._app.ongoing.code_sources.get(run.id) if run else None
        commands = list_commands(self._app.operator.settings, slice_, run, worker, code)
        self._app.push_screen(EquivalentsDialog(make_command_rows(commands)))

    def ask_quit(self) -> None:
        """Show what continues without the console, then quit."""
        app = self._app
        dialog = LossyQuitDialog if app.demo or app.ongoing.stops else QuitDialog
        app.push_screen(dialog(self._quit_text()), lambda is_sure: app.exit() if is_sure else None)

    def _quit_text(self) -> str:
        statuses = self._app.store.get(RUNS).value or ()
        live = [status.run.id for status in statuses if not status.state.is_over]
        if self._app.demo:
            text = "Quitting ends the demo pod and everything on it."
            return text + (f"\n\nRunning now: {', '.join(live)}" if live else "")
        if self._app.ongoing.stops:
            return "A stop is still in progress. Quit anyway?\n\n  " + "\n  ".join(self._app.ongoing.stops)
        parts = [self._continuing_slices()]
        if live:
            listed = "\n  ".join(live)
            text = f"Runs continue without this console:\n\n  {listed}\n\nReopen with tpu-tui or tpu-tui attach RUN."
            parts.append(text)
        return "\n\n".join(filter(None, parts)) or "No runs are active."

    def _continuing_slices(self) -> str:
        """Return which creations and changes continue in the cloud."""
        ongoing = self._app.ongoing
        creations = ongoing.running_creations()
        lines = [f"creation of {path}: it costs money once it is ready" for path in creations]
        lines += [f"{change.action} of {path}" for path, change in ongoing.changes.items()]
        if not lines:
            return ""
        listed = "\n  ".join(lines)
        text = f"These continue in the cloud without this console:\n\n  {listed}\n\ntpu-tui resources shows them."
        if any(ongoing.creations[path].request.has_startup_script for path in creations):
            text += "\n\nStartup scripts continue, too; their results are not read."
        return text
