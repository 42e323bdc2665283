"""The console: screens over an operator. What keys do is in `flows`, what is read in `sources`."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from textual import events
from textual.app import App
from textual.binding import Binding, BindingType
from textual.widgets import Input, TextArea

from tui.console.actions.command_palette import ConsoleCommands
from tui.console.actions.flows import Flows
from tui.console.actions.remote_shell import OnWorkers
from tui.console.actions.ssh_prompts import DialogPrompter
from tui.console.data.pollers import RUNS, Sources
from tui.console.data.run_end_notifier import Endings
from tui.console.data.store import Store
from tui.console.data.tasks import Tasks
from tui.console.screens.base import MainScreen
from tui.console.screens.dialog import LiveDialog
from tui.console.screens.help import help_text
from tui.console.screens.pod import ActingPodScreen, PodScreen
from tui.console.screens.run import RunScreen
from tui.console.widgets.tables.table_columns import Cell
from tui.errors import TpuTuiError
from tui.settings.home import loose_home

if TYPE_CHECKING:
    from textual.notifications import SeverityLevel
    from textual.screen import Screen
    from textual.widget import Widget

    from tui.logs.saved_log import SavedLog
    from tui.operator import Operator
    from tui.runs.record.run_directory import RunDirectory

TICKS_PER_SECOND = 15
SCREEN_IS_THERE = 5.0
"""Seconds that a key waits at most for the screen it is meant for."""
COVERED_EVERY = TICKS_PER_SECOND
"""Ticks from one paint of a screen beneath a dialog to the next: each repaints the dialog, too."""
AT_THE_LATEST = 0.5
"""Seconds after which the sources are asked, painted or not."""
WRITES_AHEAD = 12
"""Writes that may wait for the terminal, some frames; Textual stops everything at 30."""
LEAVING = ("escape", "tab", "shift+tab")
"""Keys of a dialog after which the next ones are meant for another screen or field."""
PASSING = 4.0
"""Seconds up to which what is told answers a key: the next such answer takes its place."""
FRAMED = 12
"""Columns of the screen that a dialog leaves to its frame and to what is behind it."""
log = logging.getLogger(__name__)


class ConsoleApp(App[None]):
    """See, check, launch, watch and stop; opens on the pod, on one run, or on a saved log."""

    CSS_PATH = [  # noqa: RUF012 - Textual declares it so
        "app.tcss",
        *(f"screens/{name}.tcss" for name in ("pod", "run", "dialog", "launch")),
    ]
    TITLE = "tpu-tui"
    COMMANDS: ClassVar[set[Any]] = {ConsoleCommands}
    ENABLE_COMMAND_PALETTE = True
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
        super().__init__()
        self.operator = operator
        self.demo = demo
        self.default_command = tuple(default_command)
        self.read_only: bool = operator.settings.read_only
        self.store = Store()
        self.tasks = Tasks()
        self.sources = Sources(operator, self.store, self.tasks)
        self.flows = Flows(self)
        self.on_workers = OnWorkers(self)
        self._endings, self._runs_seen = Endings(), 0
        self._ticks = 0
        self._owes_paint = False
        """Whether something is not on the terminal that should be."""
        self._open_run = open_run
        self._replay = replay

    def get_default_screen(self) -> Screen[Any]:
        """The pod, with whatever was asked for above it; a saved log has no pod."""
        if self._replay is not None:
            from tui.console.data.saved_log_feed import SavedFeed

            return RunScreen(SavedFeed(self._replay))
        return PodScreen() if self.read_only else ActingPodScreen()

    def on_mount(self) -> None:
        """Paint first; then ask the sources."""
        self.operator.prompter = DialogPrompter(self)
        self.app_resume_signal.subscribe(self, lambda _: self.refresh(layout=True))  # Textual does not after ctrl-z
        if loose := loose_home(self.operator.settings.home):
            self.notify(loose, severity="warning", markup=False, timeout=30)
        if self._open_run is not None:
            self.flows.open_run(self._open_run)
        self.set_interval(1 / TICKS_PER_SECOND, self._tick)
        if self._replay is None:
            self.call_after_refresh(self.sources.start)
            self.set_timer(AT_THE_LATEST, self.sources.start)  # a screen left before its first paint calls nothing

    async def on_unmount(self) -> None:
        """Give up what is under way; runs are not ours to end."""
        await self.tasks.close()
        await self.operator.close()

    async def on_event(self, event: events.Event) -> None:
        """Keys act in the order they are typed in, each on the screen that the one before it brought up."""
        if isinstance(event, (events.Key, events.Paste)) and not event.is_forwarded:
            if not self.screen.is_mounted:
                with contextlib.suppress(asyncio.TimeoutError):
                    await asyncio.wait_for(self.screen._mounted_event.wait(), SCREEN_IS_THERE)
            if isinstance(event, events.Key) and await self._acted_on(event):
                return
        await super().on_event(event)

    async def _acted_on(self, event: events.Key) -> bool:
        """Whether a key that changes screens did something: at once, not when it has come through a pane's own queue.

        What is typed right after `n`, or after the `esc` that leaves a dialog, would else act on the screen before.
        """
        field = self.focused
        if isinstance(field, (Input, TextArea)):
            if event.is_printable:
                return False
            await self._typed_into(field)
        elif event.key not in LEAVING and not isinstance(self.screen, MainScreen):
            return False
        return await self._check_bindings(event.key, priority=True) or await self._check_bindings(event.key)

    def notify(
        self,
        message: str,
        *,
        title: str = "",
        severity: SeverityLevel = "information",
        timeout: float | None = None,
        markup: bool = True,
    ) -> None:
        """As any app tells something; the same again, or a further answer to a key, replaces what stands there."""
        passes = timeout is not None and timeout <= PASSING
        for told in list(self._notifications):
            if told.message == message or (passes and told.timeout <= PASSING):
                self._unnotify(told, refresh=False)
        super().notify(message, title=title, severity=severity, timeout=timeout, markup=markup)

    async def _typed_into(self, field: Widget) -> None:
        """Wait until a field has taken what was typed: a key that edits or leaves it comes after that."""
        taken = asyncio.Event()
        if field.call_later(taken.set):
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(taken.wait(), SCREEN_IS_THERE)

    def _is_choked(self) -> bool:
        """Whether the terminal reads nothing, so that one more paint or two would stop the loop."""
        writer = getattr(self._driver, "_writer_thread", None)
        return writer is not None and writer._queue.qsize() > WRITES_AHEAD

    def _display(self, screen: Screen[Any], renderable: Any) -> None:
        """Paint where the terminal reads; else all of it as soon as it does."""
        if self._is_choked():
            self._owes_paint = True
        else:
            super()._display(screen, renderable)

    def _tick(self) -> None:
        """Repaint the main screen on top, and a dialog above it that shows progress."""
        if self._owes_paint and not self._is_choked():
            self._owes_paint = False
            self.refresh()
        runs = self.store.get(RUNS)
        if runs.revision != self._runs_seen:
            self._runs_seen = runs.revision
            self.flows.look_after(runs.value or ())
            for status in self._endings.among(runs.value or ()):
                self.flows.tell_end(status)
        self._ticks += 1
        for screen in reversed(self.screen_stack):
            is_main = isinstance(screen, MainScreen)
            is_due = screen is self.screen or not is_main or self._ticks % COVERED_EVERY == 0
            if isinstance(screen, (MainScreen, LiveDialog)) and screen.ready and is_due:
                screen.tick()
            if is_main:
                return

    def headline(self) -> list[list[Cell]]:
        """The pod screen's first line: where one looks, and in which mode."""
        cells = [Cell("tpu-tui", "accent"), Cell(self.operator.slices.where)]
        if self.demo:
            cells.append(Cell("demo: this pod is on this machine", "busy"))
        if self.read_only:
            cells.append(Cell("read-only", "warn"))
        if self.flows.stops:
            cells.append(Cell(f"stopping {', '.join(self.flows.stops)}", "warn"))
        if self.flows.deletions:
            cells.append(Cell(f"deleting {', '.join(self.flows.deletions)}", "warn"))
        return [cells]

    def open_directory(self, run_id: str) -> RunDirectory | None:
        """The run's directory; an error is shown and None returned."""
        try:
            return self.operator.runs.open(run_id)
        except TpuTuiError as error:
            self.flows.say(error)
            return None

    def action_ask_quit(self) -> None:
        """Say what goes on, then go."""
        self.flows.ask_quit()

    def action_show_help(self) -> None:
        """Every key of the screen one is on."""
        screen = self.screen
        panes = {type(widget): widget for widget in screen.focus_chain if widget._bindings.key_to_bindings}
        self.flows.describe("keys", help_text(screen, panes.values(), self.size.width - FRAMED))
