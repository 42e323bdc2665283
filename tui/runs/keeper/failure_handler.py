"""React to a failure: find out which worker failed first and why, and apply the run's policy to the others."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, replace

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
"""Drain periods to wait for the first failure while every failed worker only lost a partner."""


@dataclass(eq=False)
class FailureHandler:
    """Handles the failures of one attempt. `outcomes` grows as workers end."""

    directory: RunDirectory
    outcomes: Mapping[int, WorkerOutcome]
    reachability: Reachability
    slice_monitor: SliceMonitor
    leadership: Leadership
    timeouts: KeeperTimeouts

    async def handle_failure(self) -> None:
        """Wait for reports of earlier failures, record the first failure, and stop the other workers by policy."""
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
            if not await self._is_ignored_by_leader():
                return
            await self.leadership.reclaim()
            waited = format_duration(self.timeouts.newer_acts)
            await record(self.directory, "note", text=f"that keeper did nothing for {waited}: this one acts")
        cause = await self.record_first_failure()
        have_all_ended = len(self.outcomes) == len(self.directory.run.workers)
        if have_all_ended or self.directory.run.job.on_failure != "stop":
            return
        grace = self.directory.run.job.grace
        await record(self.directory, STOP_REQUESTED, by=BY_POLICY, grace=grace, cause=cause)
        await record(self.directory, "state", state=str(RunState.STOPPING), cause=cause)

    async def _is_ignored_by_leader(self) -> bool:
        """Return whether a newer keeper ignored a failure that the run's policy acts on."""
        await asyncio.sleep(self.timeouts.newer_acts)
        stops = self.directory.run.job.on_failure == "stop" and not status_of(self.directory).stop_requested
        return stops and len(self.outcomes) < len(self.directory.run.workers)

    async def detect_remote_stop(self) -> None:
        """Record a stop from another machine, which is marked on the workers: stopped parts have not failed.

        They have not succeeded either, if a job exits with 0 when it is stopped.
        """
        if status_of(self.directory).stop_requested:
            return
        stopped = any(outcome.stopped for outcome in self.outcomes.values())
        if not stopped and any(has_failed(outcome) for outcome in self.outcomes.values()):
            answers = await self.leadership.query_workers()
            stopped = any(answer.has("stopped") for answer in answers.values())
        if stopped:
            await record_remote_stop(self.directory)

    async def record_first_failure(self) -> str | None:
        """Record the first failure, once; return its cause, None if there is no failure."""
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
        partners = [
            index for index, outcome in self.outcomes.items() if has_failed(outcome) and outcome.unreachable is None
        ]
        out = self.reachability.all_unreachable
        lost = [index for index in out if diagnosis is not None and index in diagnosis.lost]
        if diagnosis is not None and lost and (first in lost or have_only_lost_partners(self.outcomes)):
            cause = diagnosis.text + (f"; {format_workers(partners)} lost it as a partner" if partners else "")
            first, exit_code = lost[0], None
        elif out and partners and have_only_lost_partners(self.outcomes):
            cause = f"worker {out[0]} cannot be reached; {format_workers(partners)} lost it as a partner"
            first, exit_code = out[0], None
        if diagnosis is not None and diagnosis.is_cause and diagnosis.text not in cause:
            cause = f"{diagnosis.text}; {cause}"
        await record(self.directory, "failure", worker=first, exit_code=exit_code, cause=cause)
        return cause

    async def _diagnose(self, first: int) -> SliceDiagnosis | None:
        """Query the API if the machine rather than the job could have caused the failure."""
        if self.reachability.all_unreachable or is_unexplained(self.outcomes[first]):
            return await self.slice_monitor.query()
        return None
