"""The command palette's entries: what can be done now, on what is chosen now."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING

from textual.command import DiscoveryHit, Hit, Hits, Provider

from tui.console import intents
from tui.console.context import get_context
from tui.console.data.pollers import RUNS
from tui.console.data.run_feed import MERGED
from tui.console.screens.base import MainScreen
from tui.console.screens.pod import PodScreen
from tui.console.screens.resources import ResourcesScreen
from tui.console.screens.run import RunScreen
from tui.pod.slice_commands import explain_impossible

if TYPE_CHECKING:
    from tui.console.context import ConsoleContext
    from tui.operator import RunDirectory
    from tui.pod.slice import Slice

Entry = tuple[str, str, Callable[[], object]]
MAX_RUNS = 30
SLICE_CHANGES = {
    "start": "asks first; it costs money from then on",
    "stop": "asks first; keeps its disk, releases its TPU",
    "delete": "asks for its name",
}
DARK, LIGHT = "textual-dark", "textual-light"


def list_entries(console: ConsoleContext, screen: MainScreen) -> Iterator[Entry]:
    """Yield (name, help, action) of what can be done in the console's present state."""
    slice_, run = screen.chosen_slice(), screen.chosen_run()
    if slice_ is not None:
        yield from _slice_entries(console, screen, slice_)
    if not console.read_only:
        new = partial(console.perform, intents.NewSliceRequested(slice_))
        yield "New slice", "asks for type, zone and options", new
    for path in console.ongoing.creations:
        show = partial(console.perform, intents.CreationRequested(path))
        yield f"Creation of {path}", "its progress and startup scripts", show
    if run is not None:
        yield from _run_entries(console, screen, run)
    if isinstance(screen, RunScreen):
        yield "Merged log", "", partial(screen.show_log, MERGED)
        for worker in screen.feed.workers:
            yield f"Log of worker {worker}", "", partial(screen.show_log, str(worker))
    for status in (console.store.get(RUNS).value or ())[:MAX_RUNS]:
        if run is None or status.run.id != run.id:
            yield f"Open {status.run.id}", str(status.state), partial(_open_run, console, status.run.id)
    yield "Refresh slices", "", console.pollers.refresh
    if isinstance(screen, PodScreen):
        yield "Resources", "what costs money, and who uses it", partial(console.perform, intents.ResourcesRequested())
    if (
        isinstance(screen, ResourcesScreen)
        and (chosen := screen.chosen_resource()) is not None
        and not console.read_only
    ):
        delete = partial(console.perform, intents.ResourceDeletionRequested(chosen))
        yield f"Delete {chosen.ref}", "asks for its name", delete
    yield "Equivalent commands", "what the keys do, as commands to copy", screen.action_equivalents
    is_light = console.theme == LIGHT
    yield (
        f"{'Dark' if is_light else 'Light'} colours",
        f"set TEXTUAL_THEME={LIGHT} to start with light colours",
        partial(setattr, console, "theme", DARK if is_light else LIGHT),
    )
    yield "Keys", "list all keys", console.action_show_help
    ends = "ends the demo pod" if console.demo else "runs continue"
    yield "Quit", ends, partial(console.perform, intents.QuitRequested())


def _slice_entries(console: ConsoleContext, screen: MainScreen, slice_: Slice) -> Iterator[Entry]:
    name, perform = slice_.name, console.perform
    yield f"Check {name}", "SSH, workers and ports", partial(perform, intents.CheckRequested(slice_))
    if console.read_only:
        return
    yield f"New run on {name}", "shows a preview first", partial(perform, intents.NewRunRequested(slice_))
    shell = intents.ShellRequested(slice_, screen.chosen_worker())
    yield f"Shell on {name}", "opens SSH in this terminal", partial(perform, shell)
    exec_ = intents.ExecRequested(slice_)
    yield f"Exec on {name}", "run a command on every worker; equal outputs are grouped", partial(perform, exec_)
    for action, text in SLICE_CHANGES.items():
        if not explain_impossible(slice_, action):
            intent = intents.SliceChangeRequested(slice_, action)
            yield f"{action.capitalize()} {name}", text, partial(perform, intent)


def _run_entries(console: ConsoleContext, screen: MainScreen, run: RunDirectory) -> Iterator[Entry]:
    perform = console.perform
    if not isinstance(screen, RunScreen):
        yield f"Open {run.id}", "cores, charts, logs", partial(perform, intents.OpenRunRequested(run))
    if not console.read_only and not console.operator.runs.status_of(run).state.is_over:
        yield f"Stop {run.id}", "asks first; every worker confirms", partial(perform, intents.StopRunRequested(run))
    if not console.read_only and isinstance(screen, RunScreen):
        yield f"New run like {run.id}", "shows a preview first", partial(perform, intents.RepeatRunRequested(run))
    report = "writes HTML, Markdown, text and JSON into its directory"
    yield f"Report of {run.id}", report, partial(perform, intents.ReportRequested(run))


def _open_run(console: ConsoleContext, run_id: str) -> None:
    console.perform(intents.OpenRunRequested(console.open_directory(run_id)))


class ConsoleCommands(Provider):
    """Hands the entries to Textual's palette."""

    def _entries(self) -> list[Entry]:
        console = get_context(self.app)
        return list(list_entries(console, self.screen)) if isinstance(self.screen, MainScreen) else []

    async def discover(self) -> Hits:
        """Yield all entries, before anything is typed."""
        for name, help_text, action in self._entries():
            yield DiscoveryHit(name, action, help=help_text)

    async def search(self, query: str) -> Hits:
        """Yield the entries that match the query."""
        matcher = self.matcher(query)
        for name, help_text, action in self._entries():
            score = matcher.match(name)
            if score > 0:
                yield Hit(score, matcher.highlight(name), action, help=help_text)
