"""Actions of the console as a whole, and the dispatch of every intent."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tui.console import intents
from tui.console.actions.creating import CreateActions
from tui.console.actions.launching import LaunchActions
from tui.console.actions.remote_shell import RemoteShell
from tui.console.actions.resources import ResourceActions
from tui.console.actions.runs import RunActions
from tui.console.actions.slices import SliceActions
from tui.console.data.pollers import RUNS
from tui.console.render.equivalent_commands import list_commands, make_command_rows
from tui.console.screens.dialog import LossyQuitDialog, QuitDialog, TextDialog
from tui.console.screens.equivalents import EquivalentsDialog

if TYPE_CHECKING:
    from tui.console.context import ConsoleContext
    from tui.console.intents import Intent


class Actions:
    """Everything that the console can do."""

    def __init__(self, context: ConsoleContext) -> None:
        self._context = context
        self.slices = SliceActions(context)
        self.creating = CreateActions(context)
        self.runs = RunActions(context)
        self.launching = LaunchActions(context)
        self.remote_shell = RemoteShell(context)
        self.resources = ResourceActions(context)

    def perform(self, intent: Intent) -> None:
        """Carry out an intent."""
        match intent:
            case intents.SliceHighlighted(slice_):
                self.slices.check_after_pause(slice_)
            case intents.CheckRequested(slice_):
                self.slices.check(slice_)
            case intents.SliceChangeRequested(slice_, action):
                self.slices.change(slice_, action)
            case intents.NewSliceRequested(slice_):
                self.creating.ask_new_slice(slice_)
            case intents.CreationRequested(path):
                self.creating.show(path)
            case intents.NewRunRequested(slice_):
                self.launching.ask_new_run(slice_)
            case intents.RepeatRunRequested(directory):
                self.launching.ask_repeat(directory)
            case intents.OpenRunRequested(directory, pane):
                self.runs.open(directory, pane)
            case intents.StopRunRequested(directory):
                self.runs.stop(directory)
            case intents.ReportRequested(source):
                self.runs.report(source)
            case intents.KeeperRequested(directory):
                self.runs.ensure_keeper(directory)
            case intents.RunClosed(directory):
                self.runs.stop_catch_up(directory)
            case intents.LeaveRunRequested():
                if not self.runs.leave():
                    self.ask_quit()
            case intents.ShellRequested(target, worker):
                self.remote_shell.open_shell(target, worker)
            case intents.ExecRequested(target):
                self.remote_shell.ask_command(target)
            case intents.TextRequested(title, text):
                self._context.push_screen(TextDialog(title, text))
            case intents.EquivalentsRequested(slice_, directory, worker):
                settings = self._context.operator.settings
                run = None if directory is None else directory.run
                code = self._context.ongoing.code_sources.get(run.id) if run else None
                commands = list_commands(settings, slice_, run, worker, code)
                self._context.push_screen(EquivalentsDialog(make_command_rows(commands)))
            case intents.ResourcesRequested():
                self.resources.open()
            case intents.ResourcesClosed():
                self.resources.close()
            case intents.ResourceDeletionRequested(resource):
                self.resources.delete(resource)
            case intents.QuitRequested():
                self.ask_quit()
            case _:
                raise NotImplementedError(f"no action for {type(intent).__name__}")

    def ask_quit(self) -> None:
        """Show what continues without the console, then quit."""
        context = self._context
        dialog = LossyQuitDialog if context.demo or context.ongoing.stops else QuitDialog
        context.push_screen(dialog(self._quit_text()), lambda is_sure: context.exit() if is_sure else None)

    def _quit_text(self) -> str:
        statuses = self._context.store.get(RUNS).value or ()
        live = [status.run.id for status in statuses if not status.state.is_over]
        if self._context.demo:
            text = "Quitting ends the demo pod and everything on it."
            return text + (f"\n\nRunning now: {', '.join(live)}" if live else "")
        if self._context.ongoing.stops:
            return "A stop is still in progress. Quit anyway?\n\n  " + "\n  ".join(self._context.ongoing.stops)
        parts = [self._continuing_slices()]
        if live:
            listed = "\n  ".join(live)
            text = f"Runs continue without this console:\n\n  {listed}\n\nReopen with tpu-tui or tpu-tui attach RUN."
            parts.append(text)
        return "\n\n".join(filter(None, parts)) or "No runs are active."

    def _continuing_slices(self) -> str:
        """Return which creations and changes continue in the cloud."""
        ongoing = self._context.ongoing
        creations = ongoing.running_creations()
        lines = [f"creation of {path}: it costs money once it is ready" for path in creations]
        lines += [f"{change.action} of {path}" for path, change in ongoing.changes.items()]
        if not lines:
            return ""
        listed = "\n  ".join(lines)
        text = f"These continue in the cloud without this console:\n\n  {listed}\n\ntpu-tui resources shows them."
        if any(ongoing.creations[path].has_script for path in creations):
            text += "\n\nStartup scripts continue, too; their results are not read."
        return text
