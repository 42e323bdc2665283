"""Actions on runs: stop, report, announce their ends, and make sure that each live run has a keeper."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tui.console.data.ongoing_work import StopProgress
from tui.console.data.tasks import to_problem
from tui.console.render.comparison import format_comparison
from tui.console.render.freshness import is_unattended
from tui.console.screens.dialog import TextDialog
from tui.console.screens.stop import StopDialog
from tui.operator.run_watcher import CATCH_UP_INTERVAL_S, MirrorCatchUp
from tui.pod.run import RunState
from tui.settings.command_line import command_line

if TYPE_CHECKING:
    from textual.notifications import SeverityLevel

    from tui.console.base_app import BaseApp
    from tui.logs.saved_log import SavedLog
    from tui.operator import RunDirectory, RunStatus

MIN_KEEPER_PAUSE_S, MAX_KEEPER_PAUSE_S = 20.0, 600.0
"""The pause after the first attempt to start a run's keeper, doubled after each: a keeper that cannot reach the
workers ends at once."""
KEEPER_TASK = "start keeper: "
REPORT_FORMATS = ("html", "md", "txt", "json")
NO_RUN = "No run selected"


class RunActions:
    """Stop and report runs; start keepers that are missing; announce the ends of runs."""

    def __init__(self, app: BaseApp) -> None:
        self._app = app
        self._keeper_pauses: dict[str, tuple[float, float]] = {}
        """By run ID: when a keeper may be started again (the store's clock), and the pause after that."""
        self._live_ids: frozenset[str] = frozenset()
        """The listed runs that had not ended at the last look."""
        self.marked: dict[str, RunDirectory] = {}
        """The runs to compare by their IDs, in the order in which they were marked."""

    def take(self, statuses: Sequence[RunStatus], shown: str) -> None:
        """Take the listed runs: start missing keepers, and announce each run that has ended since the last call.

        `shown` is the ID of the run on the screen, if there is one.
        """
        self.restart_missing_keepers(statuses)
        ended = [status for status in statuses if status.state.is_over and status.run.id in self._live_ids]
        self._live_ids = frozenset(status.run.id for status in statuses if not status.state.is_over)
        for status in ended:
            if status.state is not RunState.STOPPED:
                self._announce_end(status, shown)

    def _announce_end(self, status: RunStatus, shown: str) -> None:
        """Ring the bell for a run that has ended; show how it ended if its screen is not open."""
        self._app.bell()
        if shown == status.run.id:
            return
        text = ": ".join(filter(None, (f"{status.run.id} {status.state}", status.short_cause)))
        severity: SeverityLevel = "information" if status.state is RunState.SUCCEEDED else "error"
        self._app.notify(text, severity=severity, timeout=30)

    # --- keepers --------------------------------------------------------------------------------------------------

    def restart_missing_keepers(self, statuses: Sequence[RunStatus]) -> None:
        """Start keepers for listed runs that lost theirs, one after the other."""
        now = time.time()
        if self._app.read_only or not any(is_unattended(status, now) for status in statuses):
            return
        for status in statuses:
            if self._app.tasks.running(KEEPER_TASK):
                return
            if is_unattended(status, now) and self._may_start_keeper(status.run.id):
                directory = self._app.open_directory(status.run.id)
                if directory is None or directory.foreign is not None:
                    self._pause_keeper_starts(status.run.id)
                else:
                    self.ensure_keeper(directory)

    def _may_start_keeper(self, run_id: str) -> bool:
        now = self._app.store.clock()
        is_due = now >= self._keeper_pauses.get(run_id, (now, 0.0))[0]
        return is_due and not self._app.tasks.is_running(KEEPER_TASK + run_id)

    def _pause_keeper_starts(self, run_id: str) -> None:
        """Start no keeper for a run until a pause is over, twice as long as the one before."""
        pause = self._keeper_pauses.get(run_id, (0.0, MIN_KEEPER_PAUSE_S))[1]
        self._keeper_pauses[run_id] = self._app.store.clock() + pause, min(2 * pause, MAX_KEEPER_PAUSE_S)

    def ensure_keeper(self, directory: RunDirectory) -> None:
        """Start a keeper for a run that has none, and not again before some time has passed.

        A read-only console copies the logs itself instead, until `stop_catch_up`; a run that is only read stays as
        it is.
        """
        app = self._app
        if directory.foreign is not None:
            return
        if app.read_only:
            name = f"catch up {directory.id}"
            if not app.tasks.is_running(name):
                app.tasks.start(name, self._catch_up(directory), app.show_error)
        elif self._may_start_keeper(directory.id):
            self._pause_keeper_starts(directory.id)
            app.tasks.start(KEEPER_TASK + directory.id, self._start_keeper(directory), app.show_error)

    async def _start_keeper(self, directory: RunDirectory) -> None:
        if await self._app.operator.runs.ensure_keeper(directory):
            self._app.notify(f"{directory.id} had no keeper; one was started", timeout=4)

    async def _catch_up(self, directory: RunDirectory) -> None:
        """Copy a run's new log bytes now and then while it has no keeper and more may come."""
        runs, errors = self._app.operator.runs, self._app.ongoing.catch_up_errors
        async with MirrorCatchUp(runs, directory) as catch_up:
            while not ((status := runs.status_of(directory)).is_whole or catch_up.is_complete):
                if await catch_up.poll(status):
                    errors[directory.id] = catch_up.problem
                elif status.attended.alive:
                    errors.pop(directory.id, None)
                await asyncio.sleep(CATCH_UP_INTERVAL_S)

    def stop_catch_up(self, directory: RunDirectory) -> None:
        """Stop copying logs of a run whose screen was left."""
        self._app.tasks.cancel(f"catch up {directory.id}")
        self._app.ongoing.catch_up_errors.pop(directory.id, None)

    # --- stop and report ------------------------------------------------------------------------------------------

    def stop(self, directory: RunDirectory | None) -> None:
        """Ask, then stop a run; show a stop that is already in progress."""
        app = self._app
        if directory is None:
            app.notify(NO_RUN, timeout=3)
            return
        progress = app.ongoing.stops.get(directory.id)
        state = app.operator.runs.status_of(directory).state
        if progress is None and state.is_over and state is not RunState.LOST:
            app.notify(f"{directory.id} has already ended", timeout=4)
            return
        app.push_screen(StopDialog(directory.run, lambda: self._start_stop(directory), progress))

    def _start_stop(self, directory: RunDirectory) -> StopProgress:
        app = self._app
        progress = StopProgress(directory.run, app.store.clock())
        app.ongoing.stops[directory.id] = progress
        app.tasks.start(f"stop {directory.id}", self._stop(directory, progress))
        return progress

    async def _stop(self, directory: RunDirectory, progress: StopProgress) -> None:
        try:
            async for answer in self._app.operator.runs.stop(directory, grace=directory.run.job.grace):
                progress.answers[answer.worker] = answer
        except Exception as error:
            progress.problem = to_problem(error, f"stop {directory.id}")
        finally:
            progress.done = True
            self._app.ongoing.stops.pop(directory.id, None)
        self._app.notify(f"{directory.id}: {progress.summary}", timeout=6)

    def mark(self, directory: RunDirectory | None) -> None:
        """Mark a run as one to compare, or take the mark away."""
        if directory is None:
            self._app.notify(NO_RUN, timeout=3)
        elif self.marked.pop(directory.id, None) is None:
            self.marked[directory.id] = directory

    def compare(self, chosen: RunDirectory | None) -> None:
        """Show the marked runs side by side, the first one being the baseline; with one mark, also the chosen run."""
        directories = {run_id: marked for run_id, marked in self.marked.items() if marked.path.exists()}
        if len(directories) < 2 and chosen is not None:
            directories[chosen.id] = chosen
        if len(directories) < 2:
            self._app.notify("To compare runs, mark two or more with the space bar first", timeout=4)
            return
        self._app.notify("Reading the logs…", timeout=2)
        self._app.tasks.start("compare", self._compare([*directories.values()]), self._app.show_error)

    async def _compare(self, directories: Sequence[RunDirectory]) -> None:
        operator = self._app.operator
        text = format_comparison(await operator.reports.compare(directories))
        command = command_line(operator.settings, "compare", *(directory.id for directory in directories))
        self._app.push_screen(TextDialog("comparison", text, command))

    def report(self, source: RunDirectory | SavedLog | None) -> None:
        """Write a report: a run's into its own directory, a saved log's into the current one."""
        if source is None:
            self._app.notify(NO_RUN, timeout=3)
            return
        self._app.notify("Writing the report…", timeout=2)
        self._app.tasks.start("report", self._report(source), self._app.show_error)

    async def _report(self, source: RunDirectory | SavedLog) -> None:
        files = await self._app.operator.reports.write(source, REPORT_FORMATS)
        names = ", ".join(path.name for path in files)
        directory = files[0].parent.absolute() if files else ""
        self._app.notify(f"{names} in {directory}", timeout=6)
