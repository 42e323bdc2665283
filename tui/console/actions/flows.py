"""What keys set going: each flow asks what it must, calls the operator in a task, and shows what came of it."""

from __future__ import annotations

import asyncio
import shlex
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from tui.console.data.pollers import RUNS, SLICES, checks_of
from tui.console.data.run_end_notifier import ending
from tui.console.data.run_feed import RunFeed
from tui.console.render.freshness import left_alone
from tui.console.render.safe_text import harmless_lines
from tui.console.screens.base import is_on_top
from tui.console.screens.delete import DeleteDialog, DeleteProgress
from tui.console.screens.dialog import LossyQuitDialog, QuitDialog, TextDialog, WaitDialog
from tui.console.screens.run import ActingRunScreen, RunScreen
from tui.console.screens.stop import StopDialog, StopProgress
from tui.errors import TpuTuiError
from tui.pod.job_options import JobOptions
from tui.pod.run import RunState

if TYPE_CHECKING:
    from pathlib import Path

    from textual.notifications import SeverityLevel

    from tui.console.app import ConsoleApp
    from tui.console.data.launch_form import Draft
    from tui.logs.dialects.registry import Dialect
    from tui.logs.saved_log import SavedLog
    from tui.pod.slice import Slice
    from tui.runs.record.run_directory import RunDirectory
    from tui.runs.record.run_status import RunStatus

CHECKED_BY_ITSELF = 64
"""Slices of up to this many workers are checked when they are first looked at."""
LOOK_BEFORE_CHECK = 0.5
"""Seconds the cursor has to rest on a slice before that."""
ATTEND_EVERY, ATTEND_AT_LEAST = 20.0, 600.0
"""Seconds from the first to the second try to give a run a keeper, doubled after each up to a longest pause: one that
cannot reach the workers is gone at once."""
REPORT_FORMATS = ("html", "md", "txt", "json")


class Flows:
    """The console's verbs. Holds no data but which stops and deletions are under way."""

    def __init__(self, app: ConsoleApp) -> None:
        self.app = app
        self.stops: dict[str, StopProgress] = {}
        self.deletions: dict[str, DeleteProgress] = {}
        self._attended: dict[str, tuple[float, float]] = {}
        """When a run may be given a keeper again (the store's clock), and the pause after that, by its id."""
        self.copied_from: dict[str, Path] = {}
        """Whose code runs got that were launched here, by their ids: no record of a run tells that."""
        self.kept_up: dict[str, TpuTuiError | None] = {}
        """Runs that a console which may give them no keeper reads itself, and what hinders it, if anything does."""

    def say(self, problem: TpuTuiError) -> None:
        """An error that has no pane of its own."""
        self.app.notify(harmless_lines(str(problem)), severity="error", markup=False, timeout=12)

    # --- slices -----------------------------------------------------------------------------------------------------

    def slice_chosen(self, slice_: Slice | None) -> None:
        """The cursor is on a slice: check it once, when it rests there and the slice is not huge."""
        self.app.tasks.cancel("look")
        if slice_ is None or not slice_.is_ready or not 0 < len(slice_.workers) <= CHECKED_BY_ITSELF:
            return
        if self.app.store.get(checks_of(slice_)).revision == 0:
            self.app.tasks.start("look", self._look(slice_))

    async def _look(self, slice_: Slice) -> None:
        await asyncio.sleep(LOOK_BEFORE_CHECK)
        self.app.sources.check(slice_)

    def check(self, slice_: Slice | None) -> None:
        """Run every check of a slice."""
        if slice_ is None:
            self.app.notify("no slice is chosen", timeout=3)
            return
        self.app.sources.check(slice_)

    def delete_slice(self, slice_: Slice | None) -> None:
        """Ask for the name, then delete; where that is under way, show it."""
        if slice_ is None:
            self.app.notify("no slice is chosen", timeout=3)
            return
        statuses = self.app.store.get(RUNS).value or ()
        live = [s.run.id for s in statuses if s.run.slice == slice_.name and not s.state.is_over]
        going = self.deletions.get(slice_.path)
        self.app.push_screen(DeleteDialog(slice_, live, lambda: self._begin_delete(slice_), going))

    def _begin_delete(self, slice_: Slice) -> DeleteProgress:
        progress = self.deletions[slice_.path] = DeleteProgress(slice_)
        self.app.tasks.start(f"delete {slice_.path}", self._delete(slice_, progress), self.say)
        return progress

    async def _delete(self, slice_: Slice, progress: DeleteProgress) -> None:
        try:
            async for line in self.app.operator.slices.change(slice_, "delete"):
                progress.lines.append(line)
            self.app.notify(f"{slice_.path} is deleted", markup=False, timeout=6)
        except TpuTuiError as error:
            progress.problem = error
            self.say(error)
        finally:
            progress.done = True
            self.deletions.pop(slice_.path, None)
            self.app.sources.refresh()

    # --- runs -------------------------------------------------------------------------------------------------------

    def open_run(self, directory: RunDirectory | None, *, at: str = "cores") -> None:
        """Show a run; one that nobody attends gets a keeper again."""
        if directory is None:
            self.app.notify("no run is chosen", timeout=3)
            return
        screen = RunScreen if self.app.read_only else ActingRunScreen
        feed = RunFeed(directory, dialects=self._dialects(), thresholds=self.app.operator.settings.thresholds)
        self.app.push_screen(screen(feed, at=at))
        self.attend(directory)

    def _dialects(self) -> tuple[Dialect, ...]:
        """The profile's own; where one cannot be read that is said, and the built-in ones have to do."""
        try:
            return self.app.operator.logs.dialects
        except TpuTuiError as error:
            self.say(error)
            return ()

    def look_after(self, statuses: Sequence[RunStatus]) -> None:
        """Give listed runs that were left alone a keeper again, one after the other."""
        now = time.time()
        if self.app.read_only or not any(left_alone(status, now) for status in statuses):
            return
        for status in statuses:
            if self.app.tasks.running("attend "):
                return
            if left_alone(status, now) and self._may_attend(status.run.id):
                directory = self.app.open_directory(status.run.id)
                if directory is not None:
                    self.attend(directory)

    def _may_attend(self, run_id: str) -> bool:
        now = self.app.store.clock()
        return now >= self._attended.get(run_id, (now, 0.0))[0] and not self.app.tasks.is_running(f"attend {run_id}")

    def attend(self, directory: RunDirectory) -> None:
        """Give a run a keeper if it has none: at once, and not again before some time has passed.

        Who may only look has its mirror brought up to date instead, until `let_go`.
        """
        if self.app.read_only:
            name = f"keep up {directory.id}"
            if not self.app.tasks.is_running(name):
                self.app.tasks.start(name, self._keep_up(directory), self.say)
        elif self._may_attend(directory.id):
            pause = self._attended.get(directory.id, (0.0, ATTEND_EVERY))[1]
            self._attended[directory.id] = (self.app.store.clock() + pause, min(2 * pause, ATTEND_AT_LEAST))
            self.app.tasks.start(f"attend {directory.id}", self._attend(directory), self.say)

    async def _attend(self, directory: RunDirectory) -> None:
        if await self.app.operator.runs.ensure_keeper(directory):
            self.app.notify(f"nobody attended {directory.id}; a keeper was started", markup=False, timeout=4)

    async def _keep_up(self, directory: RunDirectory) -> None:
        """Catch up with a run's logs every little while, while nobody else does and there is more to come."""
        from tui.operator.run_events import CATCH_UP_INTERVAL_S, MirrorCatchUp

        operator = self.app.operator
        async with MirrorCatchUp(operator.runs, directory) as catch_up:
            while not ((status := operator.runs.status_of(directory)).is_whole or catch_up.is_complete):
                if await catch_up.poll(status):
                    self.kept_up[directory.id] = catch_up.problem
                elif status.attended.alive:
                    self.kept_up.pop(directory.id, None)
                await asyncio.sleep(CATCH_UP_INTERVAL_S)

    def let_go(self, directory: RunDirectory) -> None:
        """Nobody looks at the run any more."""
        self.app.tasks.cancel(f"keep up {directory.id}")
        self.kept_up.pop(directory.id, None)

    def tell_end(self, status: RunStatus) -> None:
        """Ring the terminal's bell for a run that has ended, and say how where it is not on the screen already."""
        self.app.bell()
        screen = self.app.screen
        if isinstance(screen, RunScreen) and screen.feed.title == status.run.id:
            return
        severity: SeverityLevel = "information" if status.state is RunState.SUCCEEDED else "error"
        self.app.notify(harmless_lines(ending(status)), severity=severity, markup=False, timeout=30)

    def leave_run(self) -> None:
        """Back to the pod screen, or out where the run was all there is."""
        if len(self.app.screen_stack) > 1:
            self.app.pop_screen()
        else:
            self.ask_quit()

    def new_run(self, slice_: Slice | None) -> None:
        """Ask what to launch."""
        if self._list_first(lambda: self.new_run(slice_)):
            return
        reading = self.app.store.get(SLICES)
        slices = reading.value or ()
        if not slices:
            told = [str(problem) for problem in reading.problems] or [
                f"no slices in {self.app.operator.slices.where}"
            ]
            self.app.notify(harmless_lines("\n".join(["nothing to launch on", *told])), markup=False, timeout=6)
            return
        from tui.console.data.launch_form import Draft

        self._launch(
            Draft(
                slices,
                slice_.path if slice_ else slices[0].path,
                JobOptions(tuple(self.app.default_command), runtime=self.app.operator.settings.runtime),
            )
        )

    def _list_first(self, then: Callable[[], None]) -> bool:
        """Whether the slices were not listed yet; `then` is called when they were."""
        reading = self.app.store.get(SLICES)
        if reading.at is not None or reading.problems:
            return False
        waiting = WaitDialog("new run", f"Listing the slices of {self.app.operator.slices.where} …")
        self.app.push_screen(waiting)
        self.app.tasks.start("list first", self._once_listed(waiting, then), self.say)
        return True

    async def _once_listed(self, waiting: WaitDialog, then: Callable[[], None]) -> None:
        await self.app.sources.listed()
        if not is_on_top(waiting):
            waiting.leave_with(None)
            return
        self.app.pop_screen()
        then()
        for event in waiting.typed:
            self.app.post_message(event)

    def run_again(self, directory: RunDirectory | None) -> None:
        """Ask what to launch, filled in from a run."""
        if self._list_first(lambda: self.run_again(directory)):
            return
        slices = self.app.store.get(SLICES).value or ()
        if directory is None or not slices:
            self.new_run(None)
            return
        from tui.console.data.launch_form import Draft

        run = directory.run
        path = f"{run.zone}/{run.slice}" if run.zone else run.slice
        self._launch(
            Draft(
                slices,
                path,
                run.job,
                run.name or "",
                sync=str(self.copied_from.get(run.id, "")),
                had_code=run.code_hash is not None,
                scale_from=run.accelerator_type or "",
            )
        )

    def _launch(self, draft: Draft) -> None:
        from tui.console.screens.launch import LaunchDialog

        statuses = self.app.store.get(RUNS).value or ()
        earlier = tuple(shlex.join(status.run.job.argv) for status in statuses)
        self.app.push_screen(LaunchDialog(replace(draft, earlier=earlier)), self._launched)

    def _launched(self, run_id: str | None) -> None:
        if run_id is None:
            return
        if isinstance(self.app.screen, RunScreen):
            self.app.pop_screen()
        self.open_run(self.app.open_directory(run_id))

    def stop_run(self, directory: RunDirectory | None) -> None:
        """Ask, then stop; where a stop is under way, show that."""
        if directory is None:
            self.app.notify("no run is chosen", timeout=3)
            return
        going = self.stops.get(directory.id)
        state = self.app.operator.runs.status_of(directory).state
        if going is None and state.is_over and state is not RunState.LOST:
            self.app.notify(f"{directory.id} has ended already", timeout=4)
            return
        self.app.push_screen(StopDialog(directory.run, lambda: self._begin_stop(directory), going))

    def _begin_stop(self, directory: RunDirectory) -> StopProgress:
        progress = StopProgress(directory.run, self.app.store.clock())
        self.stops[directory.id] = progress
        self.app.tasks.start(f"stop {directory.id}", self._stop(directory, progress))
        return progress

    async def _stop(self, directory: RunDirectory, progress: StopProgress) -> None:
        try:
            async for answer in self.app.operator.runs.stop(directory, grace=directory.run.job.grace):
                progress.answers[answer.worker] = answer
        except TpuTuiError as error:
            progress.problem = error
        finally:
            progress.done = True
            self.stops.pop(directory.id, None)
        self.app.notify(f"{directory.id}: {progress.summary}", markup=False, timeout=6)

    def export(self, source: RunDirectory | SavedLog | None) -> None:
        """Write a report: a run's into its own directory, a saved log's into the current one."""
        if source is None:
            self.app.notify("no run is chosen", timeout=3)
            return
        self.app.notify("writing the report…", timeout=2)
        self.app.tasks.start("report", self._export(source), self.say)

    async def _export(self, source: RunDirectory | SavedLog) -> None:
        files = await self.app.operator.reports.write(source, REPORT_FORMATS)
        names = ", ".join(path.name for path in files)
        where = files[0].parent.absolute() if files else ""
        self.app.notify(f"{names} in {where}", markup=False, timeout=6)

    # --- reading and leaving ----------------------------------------------------------------------------------------

    def describe(self, title: str, text: str) -> None:
        """Show a document."""
        self.app.push_screen(TextDialog(title, text))

    def ask_quit(self) -> None:
        """Say what goes on, then go."""
        dialog = LossyQuitDialog if self.app.demo or self.stops else QuitDialog
        self.app.push_screen(dialog(self._told_at_quit()), lambda go: self.app.exit() if go else None)

    def _told_at_quit(self) -> str:
        statuses = self.app.store.get(RUNS).value or ()
        live = [status.run.id for status in statuses if not status.state.is_over]
        if self.app.demo:
            told = "This is the demo: its pod and everything on it end with this console."
            return told + (f"\n\nRunning now: {', '.join(live)}" if live else "")
        if self.stops:
            return "A stop is under way and would not be seen to its end:\n\n  " + "\n  ".join(self.stops)
        if not live:
            return "No run is live."
        return (
            "Runs go on without this console:\n\n  "
            + "\n  ".join(live)
            + "\n\ntpu-tui, or tpu-tui attach RUN, shows them again."
        )
