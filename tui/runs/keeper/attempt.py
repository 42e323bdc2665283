"""One attempt of a run in its keeper: launch it or take it over, follow it to its last byte, and conclude it."""

from __future__ import annotations

import asyncio
import math
from collections import ChainMap
from collections.abc import Coroutine
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from tui.aio.background_tasks import BackgroundTasks
from tui.aio.fan_out import cancel_all
from tui.aio.timeouts import within
from tui.errors import TpuTuiError
from tui.pod.run import RunState
from tui.runs.failure_rules import WorkerOutcome, final_state, first_failure, has_failed, remedy_of_kill
from tui.runs.follow.follower import Follower
from tui.runs.follow.previous_attempts import record_exit
from tui.runs.health.reachability import Reachability
from tui.runs.health.slice_monitor import SliceMonitor
from tui.runs.health.stall_detector import StallDetector
from tui.runs.keeper.attempt_start import AttemptResult, AttemptStarter
from tui.runs.keeper.failure_handler import FailureHandler
from tui.runs.keeper.leadership import Leadership
from tui.runs.keeper.stop_requests import GIVE_UP_AFTER_S, complete_requested_stop
from tui.runs.keeper_timeouts import KeeperTimeouts
from tui.runs.launch.launch_spec import LaunchSpec
from tui.runs.record.log_mirror import record
from tui.runs.record.run_directory import RunDirectory
from tui.runs.record.run_status import RunStatus, status_of
from tui.runs.record.worker_status import WorkerStatus
from tui.runs.worker.version_query import query_versions
from tui.ssh.fleet import Fleet
from tui.text.ranks import format_workers


@dataclass(eq=False)
class Attempt:
    """One attempt of a run, as a keeper carries it out.

    `launching`: the attempt has yet to be launched. Without `spec`, the workers use what an earlier launch sent them.
    """

    directory: RunDirectory
    fleet: Fleet
    timeouts: KeeperTimeouts
    leadership: Leadership
    spec: LaunchSpec | None
    attempt: int
    launching: bool

    def __post_init__(self) -> None:
        self.outcomes: dict[int, WorkerOutcome] = {}
        self._ending: dict[int, WorkerOutcome] = {}
        self.reachability = Reachability(self.timeouts)
        self.slice_monitor = SliceMonitor(self.directory, self.reachability, self.timeouts)
        self.starter = AttemptStarter(
            self.directory, self.fleet, self.timeouts, self.leadership, self.spec, self.attempt
        )
        self.failure_handler = FailureHandler(
            self.directory,
            ChainMap(self.outcomes, self._ending),
            self.reachability,
            self.slice_monitor,
            self.leadership,
            self.timeouts,
        )
        self._was_over = False
        self._ended = asyncio.Event()
        self._tasks = BackgroundTasks()
        self._watcher: StallDetector | None = None

    async def run(self) -> AttemptResult | None:
        """Run the whole attempt; return its result, None if it is on record. If cancelled, leave the run as it is."""
        self._run_in_background(complete_requested_stop(self.directory, self.fleet, self.outcomes))
        try:
            ended = await (self.starter.launch() if self.launching else self.starter.take_over())
            return ended if ended is not None else await self._follow()
        finally:
            await self._tasks.close()
            await self.slice_monitor.close()

    def _run_in_background(self, work: Coroutine[Any, Any, None]) -> None:
        self._tasks.start(work).add_done_callback(_log_exception)

    def _watch_progress(self) -> None:
        self._watcher = StallDetector(self.directory, self.reachability, self.timeouts)
        self._run_in_background(self._watcher.run())

    async def _follow(self) -> AttemptResult | None:
        """Mirror every worker to its end, acting on a failure; return the result, None if it is on record."""
        before = status_of(self.directory)
        self._was_over = before.state.is_over
        self._run_in_background(self.slice_monitor.run())
        if self.launching and (spec := self.spec) is not None:
            self._run_in_background(
                query_versions(self.directory, spec.run, spec.env, self.fleet, is_synced=spec.sync is not None)
            )
        if self._was_over:
            self.reachability.limit_s = GIVE_UP_AFTER_S
        else:
            self._watch_progress()
        settled = before.state.is_over and before.state is not RunState.LOST
        following = [asyncio.ensure_future(self._follow_one(worker)) for worker in before.workers]
        try:
            await within(asyncio.gather(*following), GIVE_UP_AFTER_S if settled else None)
        except asyncio.TimeoutError:
            await record(self.directory, "note", text="some workers' last bytes could not be fetched: out of reach")
        finally:
            await cancel_all(following)
        return await self._conclude()

    async def _on_reached(self, index: int) -> None:
        """Announce this keeper to a worker that answers. A run that was given up as lost is revived."""
        with suppress(TpuTuiError):
            await self.leadership.announce_to(index)
        if self._was_over and status_of(self.directory).state is RunState.LOST:
            self._was_over = False
            self.reachability.limit_s = math.inf
            self._watch_progress()
            await record(self.directory, "state", state=str(RunState.RUNNING), cause=None, revived=True)

    async def _follow_one(self, before: WorkerStatus) -> None:
        index = before.worker
        outcome = self._recorded_outcome(before)
        if outcome is None:
            outcome = await self._follow_to_end(index)
        self.outcomes[index] = outcome
        self.reachability.mark_ended(index)
        self._act_on(outcome)

    def _on_ending(self, index: int, outcome: WorkerOutcome) -> None:
        """Act on a failure before the worker has cleaned up after its job, which may take long."""
        self._ending[index] = outcome
        self._act_on(outcome)

    def _act_on(self, outcome: WorkerOutcome) -> None:
        if has_failed(outcome) and not self._ended.is_set():
            self._ended.set()
            self._run_in_background(self.failure_handler.handle_failure())

    async def _follow_to_end(self, index: int) -> WorkerOutcome:
        """Follow one worker to its end and record that end, or that the worker was given up."""
        follower = Follower(
            self.directory,
            self.fleet,
            index,
            attempt=self.attempt,
            reachability=self.reachability,
            reached=lambda: self._on_reached(index),
            ending=lambda outcome: self._on_ending(index, outcome),
            launch_session=self.starter.sessions.get(index),
        )
        outcome = await follower.run()
        if outcome.unreachable is not None:
            await record(self.directory, "link", worker=index, status="lost", detail=outcome.unreachable)
            return outcome
        await record_exit(self.directory, index, outcome)
        return outcome

    def _recorded_outcome(self, before: WorkerStatus) -> WorkerOutcome | None:
        """Return the outcome that an earlier keeper recorded, if the mirror has the recorded size."""
        with suppress(OSError):
            if before.size is not None and self.directory.log_path(before.worker).stat().st_size == before.size:
                # Whether a person's stop ended it is no longer known.
                return replace(before.outcome, stopped=status_of(self.directory).is_stopped_by_person)
        return None

    async def _conclude(self) -> AttemptResult | None:
        if self._watcher is not None:
            await self._watcher.conclude()
        await self.failure_handler.detect_remote_stop()
        status = status_of(self.directory)
        if status.state.is_over:
            return None
        by_person = status.is_stopped_by_person and not self._stop_came_late()
        lost = {index: outcome for index, outcome in self.outcomes.items() if outcome.unreachable is not None}
        if lost:
            if len(lost) < len(self.outcomes) and not by_person:
                await self.failure_handler.record_first_failure()
                status = status_of(self.directory)
            return self._lost(status, lost)
        cause = None if by_person else await self.failure_handler.record_first_failure()
        recorded = status_of(self.directory).first_failure
        culprit = recorded if recorded in self.outcomes else first_failure(self.outcomes)
        state = final_state(self.outcomes, stopped_by_person=by_person, first=culprit)
        diagnosis = self.slice_monitor.diagnosis
        if diagnosis is not None and diagnosis.text in (cause or ""):
            return AttemptResult(state, cause, remedy=diagnosis.remedy or None)
        if by_person or culprit is None or recorded not in (None, culprit):
            return AttemptResult(state, cause)
        remedy = remedy_of_kill(self.directory.run, culprit, self.outcomes[culprit])
        return AttemptResult(state, cause, remedy=remedy)

    def _stop_came_late(self) -> bool:
        """Return whether every part ended by itself before the stop reached it, and no restart is left."""
        ended = all(outcome.recorded and not outcome.stopped for outcome in self.outcomes.values())
        restarts = self.directory.run.job.restarts
        again = self.attempt < restarts and any(has_failed(outcome) for outcome in self.outcomes.values())
        return ended and not again

    def _lost(self, status: RunStatus, lost: dict[int, WorkerOutcome]) -> AttemptResult:
        diagnosis = self.slice_monitor.diagnosis
        if diagnosis is not None and diagnosis.is_final:
            cause = f"{diagnosis.text}; with it {format_workers(lost)}"
            if diagnosis.lost and diagnosis.lost.issuperset(lost):
                cause = diagnosis.text
            if diagnosis.text in (status.cause or ""):
                cause = status.cause or ""
            return AttemptResult(RunState.LOST, cause, remedy=diagnosis.remedy)
        first = next(iter(lost.values()))
        prior = f"{status.cause}; " if status.cause else ""
        unconfirmed = "; a stop is not confirmed there" if status.stop_requested else ""
        cause = (
            f"{prior}{format_workers(lost)} {first.unreachable}{unconfirmed}. They were deleted, or the network "
            "of this machine is down: `tpu-tui attach` tries again"
        )
        return AttemptResult(RunState.LOST, cause, remedy=f"tpu-tui attach {self.directory.id} tries again")


def _log_exception(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and task.exception() is not None:
        task.get_loop().call_exception_handler({"message": "a policy failed", "exception": task.exception()})
