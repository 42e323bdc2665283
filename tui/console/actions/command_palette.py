"""The command palette's entries: what can be done now, on what is chosen now."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING

from textual.command import DiscoveryHit, Hit, Hits, Provider

from tui.console.data.pollers import RUNS
from tui.console.data.run_feed import MERGED
from tui.console.screens.base import MainScreen
from tui.console.screens.pod import PodScreen
from tui.console.screens.resources import ResourcesScreen
from tui.console.screens.run import RunScreen
from tui.pod.slice_commands import explain_impossible

if TYPE_CHECKING:
    from tui.console.base_app import BaseApp
    from tui.operator import RunDirectory
    from tui.pod.slice import Slice

Entry = tuple[str, str, Callable[[], object]]
MAX_RUNS = 30
CHANGE_EFFECTS = {
    "start": "asks first; it costs money from then on",
    "stop": "asks first; keeps its disk, releases its TPU",
    "delete": "asks for its name",
}
DARK, LIGHT = "textual-dark", "textual-light"


def list_entries(screen: MainScreen) -> Iterator[Entry]:
    """Yield (name, help, action) of what can be done in the console's present state."""
    app, actions = screen.app, screen.actions
    slice_, run = screen.chosen_slice(), screen.chosen_run()
    if slice_ is not None:
        yield from _slice_entries(screen, slice_)
    if not app.read_only:
        yield "New slice", "asks for type, zone and options", partial(actions.creating.ask_new_slice, slice_)
    for path in app.ongoing.creations:
        yield f"Creation of {path}", "its progress and startup scripts", partial(actions.creating.show, path)
    if run is not None:
        yield from _run_entries(screen, run)
    if isinstance(screen, RunScreen):
        yield "Merged log", "", partial(screen.show_log, MERGED)
        for worker in screen.feed.workers:
            yield f"Log of worker {worker}", "", partial(screen.show_log, str(worker))
    for status in (app.store.get(RUNS).value or ())[:MAX_RUNS]:
        if run is None or status.run.id != run.id:
            yield f"Open {status.run.id}", str(status.state), partial(_open_run, app, status.run.id)
    yield "Refresh slices", "", app.pollers.refresh
    if isinstance(screen, PodScreen):
        yield "Resources", "what costs money, and who uses it", screen.action_resources
    if isinstance(screen, ResourcesScreen) and (chosen := screen.chosen_resource()) is not None and not app.read_only:
        yield f"Delete {chosen.ref}", "asks for its name", partial(actions.resources.delete, chosen)
    yield "Equivalent commands", "what the keys do, as commands to copy", screen.action_equivalents
    is_light = app.theme == LIGHT
    yield (
        f"{'Dark' if is_light else 'Light'} colours",
        f"set TEXTUAL_THEME={LIGHT} to start with light colours",
        partial(setattr, app, "theme", DARK if is_light else LIGHT),
    )
    yield "Keys", "list all keys", screen.action_show_help
    ends = "ends the demo pod" if app.demo else "runs continue"
    yield "Quit", ends, actions.ask_quit


def _slice_entries(screen: MainScreen, slice_: Slice) -> Iterator[Entry]:
    name, actions = slice_.name, screen.actions
    yield f"Check {name}", "SSH, workers and ports", partial(actions.slices.check, slice_)
    if screen.app.read_only:
        return
    yield f"New run on {name}", "shows a preview first", partial(actions.launching.ask_new_run, slice_)
    shell = partial(actions.remote_shell.open_shell, slice_, screen.chosen_worker())
    yield f"Shell on {name}", "opens SSH in this terminal", shell
    ask_command = partial(actions.remote_shell.ask_command, slice_)
    yield f"Exec on {name}", "run a command on every worker; equal outputs are grouped", ask_command
    for action, text in CHANGE_EFFECTS.items():
        if not explain_impossible(slice_, action):
            yield f"{action.capitalize()} {name}", text, partial(actions.slices.change, slice_, action)


def _run_entries(screen: MainScreen, run: RunDirectory) -> Iterator[Entry]:
    app, actions = screen.app, screen.actions
    if not isinstance(screen, RunScreen):
        yield f"Open {run.id}", "cores, charts, logs", partial(app.open_run, run)
    if not app.read_only and not app.operator.runs.status_of(run).state.is_over:
        yield f"Stop {run.id}", "asks first; every worker confirms", partial(actions.runs.stop, run)
    if not app.read_only and isinstance(screen, RunScreen):
        yield f"New run like {run.id}", "shows a preview first", partial(actions.launching.ask_repeat, run)
    report = "writes HTML, Markdown, text and JSON into its directory"
    yield f"Report of {run.id}", report, partial(actions.runs.report, run)


def _open_run(app: BaseApp, run_id: str) -> None:
    app.open_run(app.open_directory(run_id))


class ConsoleCommands(Provider):
    """Hands the entries to Textual's palette."""

    def _entries(self) -> list[Entry]:
        return list(list_entries(self.screen)) if isinstance(self.screen, MainScreen) else []

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
