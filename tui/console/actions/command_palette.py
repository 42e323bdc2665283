"""The command palette's entries: what can be done now, on what is chosen now."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, cast

from textual.command import DiscoveryHit, Hit, Hits, Provider

from tui.console.data.pollers import RUNS
from tui.console.data.run_feed import MERGED
from tui.console.screens.base import MainScreen
from tui.console.screens.run import RunScreen

if TYPE_CHECKING:
    from tui.console.app import ConsoleApp

Entry = tuple[str, str, Callable[[], object]]
MOST_RUNS = 30
DARK, LIGHT = "textual-dark", "textual-light"


def entries(app: ConsoleApp, screen: MainScreen) -> Iterator[Entry]:
    """(name, help, what it does) for the state the console is in."""
    flows = app.flows
    slice_, run = screen.chosen_slice(), screen.chosen_run()
    if slice_ is not None:
        yield f"Check {slice_.name}", "SSH, workers and ports, probed from the workers", lambda: flows.check(slice_)
        if not app.read_only:
            yield f"New run on {slice_.name}", "asks first, shows what will run", lambda: flows.new_run(slice_)
            yield (
                f"Shell on {slice_.name}",
                "leaves the screen to ssh",
                lambda: app.on_workers.shell(slice_, screen.chosen_worker()),
            )
            yield (
                f"Exec on {slice_.name}",
                "a command on every worker, outputs grouped",
                lambda: app.on_workers.execute(slice_),
            )
            yield f"Delete {slice_.name}", "asks for its name", lambda: flows.delete_slice(slice_)
    if run is not None:
        if not isinstance(screen, RunScreen):
            yield f"Open {run.id}", "cores, charts, logs", lambda: flows.open_run(run)
        if not app.read_only and not app.operator.runs.status_of(run).state.is_over:
            yield f"Stop {run.id}", "asks first, every worker answers", lambda: flows.stop_run(run)
        yield f"Report of {run.id}", "HTML, Markdown, text and JSON into its directory", lambda: flows.export(run)
    if isinstance(screen, RunScreen):
        yield _log_entry(screen, MERGED, "Merged log")
        for worker in screen.feed.workers:
            yield _log_entry(screen, str(worker), f"Log of worker {worker}")
    for status in (app.store.get(RUNS).value or ())[:MOST_RUNS]:
        if run is None or status.run.id != run.id:
            yield _open_entry(app, status.run.id, str(status.state))
    yield "List the slices now", "", app.sources.refresh
    light = app.theme == LIGHT
    yield (
        f"{'Dark' if light else 'Light'} colours",
        f"from the start: TEXTUAL_THEME={LIGHT}",
        lambda: setattr(app, "theme", DARK if light else LIGHT),
    )
    yield "Keys", "what every key does", app.action_show_help
    yield "Quit", "runs go on" if not app.demo else "the demo's pod ends", flows.ask_quit


def _log_entry(screen: RunScreen, which: str, name: str) -> Entry:
    return name, "", lambda: screen.show_log(which)


def _open_entry(app: ConsoleApp, run_id: str, state: str) -> Entry:
    return f"Open {run_id}", state, lambda: app.flows.open_run(app.open_directory(run_id))


class ConsoleCommands(Provider):
    """Hands the entries to Textual's palette."""

    def _entries(self) -> list[Entry]:
        app = cast("ConsoleApp", self.app)
        return list(entries(app, self.screen)) if isinstance(self.screen, MainScreen) else []

    async def discover(self) -> Hits:
        """What is there before anything is typed."""
        for name, told, action in self._entries():
            yield DiscoveryHit(name, action, help=told)

    async def search(self, query: str) -> Hits:
        """What fits what was typed."""
        matcher = self.matcher(query)
        for name, told, action in self._entries():
            score = matcher.match(name)
            if score > 0:
                yield Hit(score, matcher.highlight(name), action, help=told)
