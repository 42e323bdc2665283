"""The console: screens over an operator. `actions` holds what keys do, `data` what is shown."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from textual import events
from textual.binding import Binding, BindingType
from textual.widgets import Input, TextArea

from tui.aio.timeouts import within
from tui.console.actions.app import Actions
from tui.console.actions.command_palette import ConsoleCommands
from tui.console.actions.runs import NO_RUN
from tui.console.actions.ssh_prompts import DialogPrompter
from tui.console.base_app import BaseApp
from tui.console.data.pollers import RUNS
from tui.console.data.run_feed import RunFeed
from tui.console.platform.stderr_redirect import redirect_stderr
from tui.console.screens.base import MainScreen
from tui.console.screens.dialog import LiveDialog
from tui.console.screens.pod import ActingPodScreen, PodScreen
from tui.console.screens.run import ActingRunScreen, RunScreen
from tui.errors import TpuTuiError
from tui.procs.gc_policy import freeze_existing_objects
from tui.settings.home import loose_home

if TYPE_CHECKING:
    from textual.screen import Screen
    from textual.widget import Widget

    from tui.logs.dialects.dialect import Dialect
    from tui.logs.saved_log import SavedLog
    from tui.operator import Operator, RunDirectory

TICKS_PER_SECOND = 15
MOUNT_POLL_S = 0.002
SCREEN_WAIT_S = 5.0
"""Seconds that a key waits at most for the screen it is meant for."""
COVERED_SCREEN_TICKS = TICKS_PER_SECOND
"""Ticks between two paints of a screen beneath a dialog: each one repaints the dialog, too."""
POLLERS_START_DELAY_S = 0.5
"""Seconds after which polling starts, painted or not."""
LEAVE_KEYS = ("escape", "tab", "shift+tab")
"""Keys of a dialog after which the next keys are for another screen or field."""


class ConsoleApp(BaseApp):
    """See, check, launch, watch and stop; opens on the pod, on one run, or on a saved log.

    `open_run` shows that run first, `replay` only a saved log; `demo` says that the pod ends with the console, and
    `default_command` is what the launch dialog begins with.
    """

    CSS_PATH = [  # noqa: RUF012 - Textual declares it so
        "app.tcss",
        *(f"screens/{name}.tcss" for name in ("pod", "run", "dialog", "form", "slices")),
    ]
    TITLE = "tpu-tui"
    COMMANDS: ClassVar[set[Any]] = {ConsoleCommands}
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+q", "ask_quit", "Quit", show=False, priority=True, id="app.quit"),
        Binding("ctrl+c", "ask_quit", "Quit", show=False, id="app.interrupt"),
        Binding("ctrl+z", "suspend_process", "Suspend", show=False, id="app.suspend"),
    ]

    def __init__(
        self,
        operator: Operator,
        *,
        open_run: RunDirectory | None = None,
        replay: SavedLog | None = None,
        demo: bool = False,
        default_command: Sequence[str] = (),
    ) -> None:
        super().__init__(operator, demo=demo, default_command=default_command)
        self.actions: Actions = Actions(self)
        self._runs_revision = 0
        """The reading of the runs that was taken last."""
        self._ticks = 0
        self._open_run = open_run
        self._replay = replay

    def get_default_screen(self) -> Screen[Any]:
        """Return the pod screen, or the run screen for a saved log, which has no pod."""
        if self._replay is not None:
            from tui.console.data.saved_log_feed import SavedLogFeed

            return RunScreen(SavedLogFeed(self._replay))
        return PodScreen() if self.read_only else ActingPodScreen()

    def on_mount(self) -> None:
        """Paint first; then ask the sources."""
        self.operator.prompter = DialogPrompter(self)
        self.app_resume_signal.subscribe(self, lambda _: self.refresh(layout=True))  # Textual does not after ctrl-z
        if loose := loose_home(self.operator.settings.home):
            self.notify(loose, severity="warning", timeout=30)
        if self._open_run is not None:
            self.open_run(self._open_run)
        self.set_interval(1 / TICKS_PER_SECOND, self._tick)
        if self._replay is None:
            self.call_after_refresh(self.pollers.start)
            # A screen that is left before its first paint calls nothing after it.
            self.set_timer(POLLERS_START_DELAY_S, self.pollers.start)

    async def on_unmount(self) -> None:
        """Cancel all tasks and close connections. Runs go on."""
        await self.tasks.close()
        await self.operator.close()

    async def on_event(self, event: events.Event) -> None:
        """Handle keys in the order they are typed, each on the screen that the key before it opened."""
        if isinstance(event, (events.Key, events.Paste)) and not event.is_forwarded:
            if not self.screen.is_mounted:
                await self._wait_until_mounted(self.screen)
            if isinstance(event, events.Key) and await self._handle_key_now(event):
                return
        await super().on_event(event)

    async def _wait_until_mounted(self, screen: Screen[Any]) -> None:
        """Wait until a new screen can take keys, at most `SCREEN_WAIT_S`."""
        end = time.monotonic() + SCREEN_WAIT_S
        while not screen.is_mounted and time.monotonic() < end:  # noqa: ASYNC110 - Textual's event is private
            await asyncio.sleep(MOUNT_POLL_S)

    async def _handle_key_now(self, event: events.Key) -> bool:
        """Run at once the binding of a key that may change the screen; return whether the key is bound.

        A key that goes through the queue of a pane is handled later: the keys typed after `n` or `esc` would still
        act on the previous screen.
        """
        field = self.focused
        if isinstance(field, (Input, TextArea)):
            if event.is_printable:
                return False
            await self._wait_until_typed(field)
        elif event.key not in LEAVE_KEYS and not isinstance(self.screen, MainScreen):
            return False
        return await self.run_binding(event.key)

    async def _wait_until_typed(self, field: Widget) -> None:
        """Wait until a field has handled the keys that were typed before this one."""
        typed = asyncio.Event()
        if field.call_later(typed.set):
            with contextlib.suppress(asyncio.TimeoutError):
                await within(typed.wait(), SCREEN_WAIT_S)

    def _tick(self) -> None:
        """Repaint the main screen on top, and a dialog above it that shows progress; neither while the app closes."""
        if not self.is_running:
            return
        self.repaint_if_pending()
        runs = self.store.get(RUNS)
        if runs.revision != self._runs_revision:
            self._runs_revision = runs.revision
            shown = self.screen.feed.title if isinstance(self.screen, RunScreen) else ""
            self.actions.runs.take(runs.value or (), shown)
        self._ticks += 1
        for screen in reversed(self.screen_stack):
            is_main = isinstance(screen, MainScreen)
            is_due = screen is self.screen or not is_main or self._ticks % COVERED_SCREEN_TICKS == 0
            if isinstance(screen, (MainScreen, LiveDialog)) and screen.ready and is_due:
                screen.tick()
            if is_main:
                return

    def open_run(self, directory: RunDirectory | None, pane: str = "cores", *, replace: bool = False) -> None:
        """Show a run; start a keeper if it has none."""
        if directory is None:
            self.notify(NO_RUN, timeout=3)
            return
        if replace and isinstance(self.screen, RunScreen):
            self.pop_screen()
        screen = RunScreen if self.read_only or directory.foreign else ActingRunScreen
        feed = RunFeed(directory, dialects=self._dialects(), thresholds=self.operator.settings.thresholds)
        self.push_screen(screen(feed, at=pane))
        if directory.foreign is not None:
            self.notify(directory.foreign.sentence, severity="warning", timeout=12)
        self.actions.runs.ensure_keeper(directory)

    def _dialects(self) -> tuple[Dialect, ...]:
        """Return the profile's dialects; none if one of them cannot be read, which is shown."""
        try:
            return self.operator.logs.dialects
        except TpuTuiError as error:
            self.show_error(error)
            return ()

    def choose_slice(self, path: str) -> None:
        """Put the pod screen's cursor on a slice, if that screen is on top."""
        if isinstance(self.screen, PodScreen):
            self.screen.choose_slice(path)

    def action_ask_quit(self) -> None:
        """Ask, then quit."""
        self.actions.ask_quit()


def run_console(operator: Operator, **options: Any) -> int:
    """Open the console with the options of `ConsoleApp`; return its exit code once it and the operator are closed."""
    app = ConsoleApp(operator, **options)
    freeze_existing_objects()
    with redirect_stderr(operator.settings.home):
        app.run()
    return app.return_code or 0
