"""What a keeper does in one attempt, from the launch to the last byte: the run's life, seen from this machine."""

from __future__ import annotations

import asyncio
import math
from collections import ChainMap
from contextlib import suppress
from typing import TYPE_CHECKING, Any

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
from tui.runs.keeper.packet_batching import BATCH_INTERVAL_S, batched_reads
from tui.runs.keeper.stop_requests import GIVE_UP_AFTER_S, complete_requested_stop
from tui.runs.keeper_timeouts import KeeperTimeouts
from tui.runs.launch.launch_spec import LaunchSpec
from tui.runs.record.log_mirror import record
from tui.runs.record.run_directory import RunDirectory
from tui.runs.record.run_status import BY_POLICY, RunStatus, status_of
from tui.runs.record.worker_status import WorkerStatus
from tui.runs.worker.version_query import query_versions
from tui.ssh.fleet import Fleet
from tui.text.ranks import format_workers

if TYPE_CHECKING:
    from collections.abc import Coroutine


class Attempt:
    """One keeper's work on one attempt of a run.

    `launching` says that the attempt has to be launched; without `spec` the workers take what they were sent before.
    """

    def __init__(
        self,
        directory: RunDirectory,
        fleet: Fleet,
        timeouts: KeeperTimeouts,
        *,
        spec: LaunchSpec | None = None,
        attempt: int = 0,
        launching: bool = False,
        leadership: Leadership | None = None,
    ) -> None:
        self.directory = directory
        self.fleet = fleet
        self.timeouts = timeouts
        self.attempt = attempt
        self.launching = launching
        self.spec = spec
        self.leadership = leadership or Leadership(directory.run, fleet)
        self.outcomes: dict[int, WorkerOutcome] = {}
        self._ending: dict[int, WorkerOutcome] = {}
        self.reachability = Reachability(timeouts)
        self.slice_monitor = SliceMonitor(directory, self.reachability, timeouts)
        self.starting = AttemptStarter(directory, fleet, timeouts, self.leadership, spec=spec, attempt=attempt)
        self.failure_handler = FailureHandler(
            directory,
            ChainMap(self.outcomes, self._ending),
            reachability=self.reachability,
            slice_monitor=self.slice_monitor,
            leadership=self.leadership,
            timeouts=timeouts,
        )
        self._was_over = False
        self._ended = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._watcher: StallDetector | None = None

    async def run(self) -> AttemptResult | None:
        """The whole attempt; None when its end was on record before. Cancelled: the run is left as it is."""
        self._beside(complete_requested_stop(self.directory, self.fleet, self.outcomes))
        try:
            ended = await (self.starting.launch() if self.launching else self.starting.take_over())
            return ended if ended is not None else await self._follow()
        finally:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            await self.slice_monitor.close()

    def _beside(self, work: Coroutine[Any, Any, None]) -> None:
        """Do something beside all else, for at most as long as this attempt lasts."""
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(_raise_in_log)

    def _watch_progress(self) -> None:
        self._watcher = StallDetector(self.directory, self.reachability, self.timeouts)
        self._beside(self._watcher.run())

    async def _follow(self) -> AttemptResult | None:
        """Mirror every worker to its end, acting on a failure; return None when the end is on record."""
        before = status_of(self.directory)
        self._was_over = before.state.is_over
        self._beside(self.slice_monitor.run())
        if self.launching and self.spec is not None:
            self._beside(query_versions(self.directory, self.spec, self.fleet))
        if self._was_over:
            self.reachability.limit_s = GIVE_UP_AFTER_S
        else:
            self._watch_progress()
        settled = before.state.is_over and before.state is not RunState.LOST
        following = [asyncio.ensure_future(self._follow_one(worker)) for worker in before.workers]
        try:
            with batched_reads(BATCH_INTERVAL_S):
                await asyncio.wait_for(asyncio.gather(*following), GIVE_UP_AFTER_S if settled else None)
        except asyncio.TimeoutError:
            await record(self.directory, "note", text="some workers' last bytes could not be fetched: out of reach")
        finally:
            for task in following:
                task.cancel()
            await asyncio.gather(*following, return_exceptions=True)
        return await self._conclude()

    async def _reached(self, index: int) -> None:
        """A worker answers: it learns who acts. A run that was given up as lost goes on, or its end can be told."""
        with suppress(TpuTuiError):
            await self.leadership.announce_to(index)
        if self._was_over and status_of(self.directory).state is RunState.LOST:
            self._was_over = False
            self.reachability.limit_s = math.inf
            self._watch_progress()
            await record(self.directory, "state", state=str(RunState.RUNNING), cause=None, revived=True)

    async def _follow_one(self, before: WorkerStatus) -> None:
        index = before.worker
        outcome = self._from_record(before)
        if outcome is None:
            outcome = await self._followed(index)
        self.outcomes[index] = outcome
        self.reachability.mark_ended(index)
        self._act_on(outcome)

    def _is_ending(self, index: int, outcome: WorkerOutcome) -> None:
        """Act on a failure that is known before the worker has cleaned up behind its job, which may take long."""
        self._ending[index] = outcome
        self._act_on(outcome)

    def _act_on(self, outcome: WorkerOutcome) -> None:
        if has_failed(outcome) and not self._ended.is_set():
            self._ended.set()
            self._beside(self.failure_handler.handle_failure())

    async def _followed(self, index: int) -> WorkerOutcome:
        """Follow one worker to its end, which becomes an event; a worker that was given up has not ended."""
        follower = Follower(
            self.directory,
            self.fleet,
            index,
            attempt=self.attempt,
            reachability=self.reachability,
            reached=lambda: self._reached(index),
            ending=lambda outcome: self._is_ending(index, outcome),
            front=self.starting.fronts.get(index),
        )
        outcome = await follower.run()
        if outcome.unreachable is not None:
            await record(self.directory, "link", worker=index, status="lost", detail=outcome.unreachable)
            return outcome
        await record_exit(self.directory, index, outcome)
        return outcome

    def _from_record(self, before: WorkerStatus) -> WorkerOutcome | None:
        """The outcome that an earlier keeper wrote down, where the mirror is as long as it says."""
        with suppress(OSError):
            if before.size is not None and self.directory.log_path(before.worker).stat().st_size == before.size:
                return WorkerOutcome(
                    before.exit_code,
                    before.signal,
                    before.size,
                    time=before.ended_at,
                    recorded=before.recorded,
                    stopped=status_of(self.directory).stop_requested not in (None, BY_POLICY),  # not known any more
                )
        return None

    async def _conclude(self) -> AttemptResult | None:
        if self._watcher is not None:
            await self._watcher.conclude()
        await self.failure_handler.detect_remote_stop()
        status = status_of(self.directory)
        if status.state.is_over:
            return None
        by_person = status.stop_requested not in (None, BY_POLICY) and not self._stop_came_late()
        lost = {index: one for index, one in self.outcomes.items() if one.unreachable is not None}
        if lost:
            if len(lost) < len(self.outcomes) and not by_person:
                await self.failure_handler.record_first_failure()
                status = status_of(self.directory)
            return self._lost(status, lost)
        cause = None if by_person else await self.failure_handler.record_first_failure()
        first = first_failure(self.outcomes)
        named = status_of(self.directory).first_failure
        state = final_state(
            self.outcomes, stopped_by_person=by_person, first=first if named not in self.outcomes else named
        )
        diagnosis = self.slice_monitor.diagnosis
        if diagnosis is not None and diagnosis.text in (cause or ""):
            return AttemptResult(state, cause, remedy=diagnosis.remedy or None)
        culprit = first if named is None else named
        killed = None if by_person or culprit not in self.outcomes else self.outcomes[culprit]
        remedy = remedy_of_kill(self.directory.run, culprit, killed) if culprit is not None and killed else None
        return AttemptResult(state, cause, remedy=remedy)

    def _stop_came_late(self) -> bool:
        """Whether every part had ended by itself before a stop was heard of there, and for good."""
        ended = all(one.recorded and not one.stopped for one in self.outcomes.values())
        restarts = self.directory.run.job.restarts
        again = self.attempt < restarts and any(has_failed(one) for one in self.outcomes.values())
        return ended and not again

    def _lost(self, status: RunStatus, lost: dict[int, WorkerOutcome]) -> AttemptResult:
        """The end of a run some of whose workers were given up, after what was known before."""
        diagnosis = self.slice_monitor.diagnosis
        if diagnosis is not None and diagnosis.is_final:
            cause = (
                status.cause
                if diagnosis.text in (status.cause or "")
                else f"{diagnosis.text}; with it {format_workers(lost)}"
            )
            return AttemptResult(RunState.LOST, cause, remedy=diagnosis.remedy)
        first = next(iter(lost.values()))
        known = f"{status.cause}; " if status.cause else ""
        asked = "; a stop is not confirmed there" if status.stop_requested else ""
        cause = (
            f"{known}{format_workers(lost)} {first.unreachable}{asked}. Deleted, or the network here is gone: "
            "`tpu-tui attach` looks again"
        )
        return AttemptResult(RunState.LOST, cause, remedy=f"tpu-tui attach {self.directory.id} looks again")


def _raise_in_log(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and task.exception() is not None:
        task.get_loop().call_exception_handler({"message": "a policy failed", "exception": task.exception()})
