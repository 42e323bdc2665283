"""After a failure: who failed first and why, and what the run's policy has done to the others."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace

from tui.pod.run import RunState
from tui.runs.failure_rules import (
    WorkerOutcome,
    explain,
    first_failure,
    has_failed,
    have_only_lost_partners,
    is_unexplained,
    read_last_lines,
)
from tui.runs.health.reachability import Reachability
from tui.runs.health.slice_diagnosis import SliceDiagnosis
from tui.runs.health.slice_monitor import SliceMonitor
from tui.runs.keeper.leadership import Leadership
from tui.runs.keeper.stop_requests import record_remote_stop
from tui.runs.keeper_timeouts import KeeperTimeouts
from tui.runs.record.log_mirror import record
from tui.runs.record.run_directory import RunDirectory
from tui.runs.record.run_status import BY_POLICY, STOP_REQUESTED, status_of
from tui.text.durations import format_duration
from tui.text.ranks import format_workers

_DRAINS = 3
"""Drains to wait for the culprit while all who failed only lost a partner."""


class FailureHandler:
    """One attempt's search for its culprit. `outcomes` fills as workers end."""

    def __init__(
        self,
        directory: RunDirectory,
        outcomes: Mapping[int, WorkerOutcome],
        *,
        reachability: Reachability,
        slice_monitor: SliceMonitor,
        leadership: Leadership,
        timeouts: KeeperTimeouts,
    ) -> None:
        self.directory = directory
        self.outcomes = outcomes
        self.reachability = reachability
        self.slice_monitor = slice_monitor
        self.leadership = leadership
        self.timeouts = timeouts

    async def handle_failure(self) -> None:
        """After a first failure: wait for others that failed before it, name the first, end the rest by policy."""
        for _ in range(_DRAINS):
            if status_of(self.directory).stop_requested:
                return
            await asyncio.sleep(self.timeouts.drain)
            if not have_only_lost_partners(self.outcomes):
                break
        await self.detect_remote_stop()
        if status_of(self.directory).stop_requested:
            return
        if not await self.leadership.is_leader(status_of(self.directory).attempt):
            await record(self.directory, "note", text="a newer keeper on another machine acts on this failure")
            if not await self._is_left_undone():
                return
            await self.leadership.reclaim()
            while_ = format_duration(self.timeouts.newer_acts)
            await record(self.directory, "note", text=f"that keeper did nothing for {while_}: this one acts")
        cause = await self.record_first_failure()
        everybody = len(self.outcomes) == len(self.directory.run.workers)
        if everybody or self.directory.run.job.on_failure != "stop":
            return
        grace = self.directory.run.job.grace
        await record(self.directory, STOP_REQUESTED, by=BY_POLICY, grace=grace, cause=cause)
        await record(self.directory, "state", state=str(RunState.STOPPING), cause=cause)

    async def _is_left_undone(self) -> bool:
        """Whether a newer keeper let a failure be that the run's policy tells to act on."""
        await asyncio.sleep(self.timeouts.newer_acts)
        stops = self.directory.run.job.on_failure == "stop" and not status_of(self.directory).stop_requested
        return stops and len(self.outcomes) < len(self.directory.run.workers)

    async def detect_remote_stop(self) -> None:
        """A stop from another machine is marked on the workers: with it, what ended there did not fail.

        Nor did it succeed, where it obeyed so well that it ended with 0.
        """
        if status_of(self.directory).stop_requested:
            return
        stopped = any(one.stopped for one in self.outcomes.values())
        if not stopped and any(has_failed(one) for one in self.outcomes.values()):
            heard = await self.leadership.query_workers()
            stopped = any(answer.fields.get("stopped") == "1" for answer in heard.values())
        if stopped:
            await record_remote_stop(self.directory)

    async def record_first_failure(self) -> str | None:
        """Put the first failure on record, once; its cause, None where nobody failed."""
        status = status_of(self.directory)
        if status.first_failure is not None:
            return status.cause
        first = first_failure(self.outcomes)
        if first is None:
            return None
        diagnosis = await self._diagnose(first)
        outcome = self.outcomes[first]
        exit_code = outcome.exit_code
        if diagnosis is not None and diagnosis.is_final and outcome.unreachable is not None:
            outcome = replace(outcome, unreachable="is gone")
        cause = explain(first, outcome, read_last_lines(self.directory.log_path(first)))
        left = [index for index, one in self.outcomes.items() if has_failed(one) and one.unreachable is None]
        if (out := self.reachability.all_unreachable) and left and have_only_lost_partners(self.outcomes):
            cause = f"worker {out[0]} cannot be reached; {format_workers(left)} lost it as a partner"
            first, exit_code = out[0], None
        if diagnosis is not None and diagnosis.is_cause and diagnosis.text not in cause:
            cause = f"{diagnosis.text}; {cause}"
        await record(self.directory, "failure", worker=first, exit_code=exit_code, cause=cause)
        return cause

    async def _diagnose(self, first: int) -> SliceDiagnosis | None:
        """What the API says, where the failure could come from the machine rather than from the job."""
        if self.reachability.all_unreachable or is_unexplained(self.outcomes[first]):
            return await self.slice_monitor.query()
        return None
