"""The lifecycle of a run in its keeper: attempt after attempt until the run has ended, then `--on-end`."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

from tui.aio.timeouts import within
from tui.errors import TpuTuiError
from tui.pod.run import Run, RunState
from tui.runs.follow.previous_attempts import fetch_previous_logs, record_later_attempt
from tui.runs.health.slice_recovery import upload_code, wait_for_slice
from tui.runs.keeper.attempt import Attempt
from tui.runs.keeper.attempt_start import AttemptResult
from tui.runs.keeper.leadership import Leadership
from tui.runs.keeper.on_end import IDENTITY, ReportWriter, identity_of, run_pending_actions
from tui.runs.keeper.stop_requests import record_remote_stop, unless_stopped, wait_for_stop_request
from tui.runs.keeper_timeouts import KeeperTimeouts
from tui.runs.launch.launch_spec import LaunchSpec
from tui.runs.record.log_mirror import archive_attempt_logs, record, retry_while_full
from tui.runs.record.run_directory import RunDirectory
from tui.runs.record.run_status import status_of
from tui.settings import load
from tui.ssh.config.access import Access, access_from
from tui.ssh.fleet import Fleet
from tui.text.durations import format_duration


class RunLifecycle:
    """All attempts of a run that this keeper launches or follows, and the actions after the last one.

    `pod` is the id of the local pod on which the run is launched.
    """

    def __init__(
        self, directory: RunDirectory, document: Mapping[str, Any], write_report: ReportWriter, *, pod: str | None
    ) -> None:
        """Set up what `document`, the keeper's input, describes (`tui.runs.keeper.start`)."""
        self.directory = directory
        if "spec" in document:
            self.spec: LaunchSpec | None = LaunchSpec.from_json(document["spec"])
            self.access, self.timeouts = self.spec.access, self.spec.keeper_timeouts
        else:
            self.spec = None
            profile = {"profile": directory.run.profile} if directory.run.profile else {}
            access = document.get("access")
            self.access = Access.from_json(access) if access is not None else access_from(load(profile))
            self.timeouts = KeeperTimeouts(**document.get("patience", {}))
        self.attempt = 0
        self.fleet = Fleet(directory.run.workers, self.access)
        self.leadership = Leadership(directory.run, self.fleet)
        self._write_report = write_report
        self._pod = pod

    async def run(self) -> None:
        """Keep the run until nothing is left to do. If cancelled, leave the run as it is."""
        with suppress(OSError):
            self.directory.reserve_space()
        try:
            if self.spec is None:
                await record_later_attempt(self.directory, self.fleet)
                await fetch_previous_logs(self.directory, self.fleet)
            else:
                fields: dict[str, Any] = {"pod": self._pod, IDENTITY: identity_of(self.directory)}
                await record(self.directory, "state", state=str(RunState.PREPARING), cause=None, **fields)
            self.attempt = status_of(self.directory).attempt
            result = await self._run_attempts()
            if result is not None:
                fields = {"cause": result.cause, "remedy": result.remedy}
                await record(self.directory, "state", worker=result.worker, state=str(result.state), **fields)
            if self.directory.run.job.on_end:
                await run_pending_actions(self.directory, self.fleet, self._write_report)
        finally:
            await self.fleet.close()
        self.directory.release_space()

    async def _run_attempts(self) -> AttemptResult | None:
        """Run as many attempts as the run may have; return the last result, None if it is on record already."""
        launching: bool | AttemptResult = self.spec is not None
        if self.spec is None and (result := _result_before_recovery(self.directory)) is not None:
            launching = await self._wait_for_slice(result)
        while True:
            if isinstance(launching, AttemptResult):
                return launching
            attempt = Attempt(
                self.directory,
                self.fleet,
                self.timeouts,
                self.leadership,
                self.spec,
                self.attempt,
                launching,
            )
            result = await attempt.run()
            if result is None or not _may_restart(self.directory, result):
                return result
            self.attempt += 1
            is_gone = status_of(self.directory).slice_is_gone
            launching = await (self._restart_on_new_slice(result) if is_gone else self._restart(result))

    async def _restart(self, result: AttemptResult) -> bool | AttemptResult:
        """Prepare the next attempt; return whether this keeper launches it, or the result if the run ends instead."""
        pause = self.timeouts.pause_before(self.attempt)
        is_leader = await self.leadership.is_leader(self.attempt - 1)
        if not is_leader:
            has_begun = await self.leadership.wait_for_other(self.attempt, pause + self.timeouts.newer_acts)
            if has_begun is False:
                await record_remote_stop(self.directory)
                return _as_stopped(result)
            is_leader = has_begun is None
            if is_leader:
                text = f"a newer keeper did not begin restart {self.attempt}: this one does"
                await record(self.directory, "note", text=text)
                await self.leadership.reclaim()
        stopped = await _prepare_restart(self.directory, self.attempt, result, pause if is_leader else 0)
        return is_leader if stopped is None else stopped

    async def _restart_on_new_slice(self, result: AttemptResult) -> bool | AttemptResult:
        stopped = await _prepare_restart(self.directory, self.attempt, result, 0)
        return stopped if stopped is not None else await self._wait_for_slice(result)

    async def _wait_for_slice(self, result: AttemptResult) -> bool | AttemptResult:
        """Wait until the slice is READY and has the run's code; return True, or the result if the run ends."""
        limit = format_duration(self.timeouts.lost_after)
        text = f"waiting for slice {self.directory.run.slice} to be READY again, for up to {limit}"
        await record(self.directory, "note", text=f"{text}. {result.remedy or ''}".strip(), waits_on_slice=True)
        waiting = await unless_stopped(self.directory, wait_for_slice(self.directory, self.timeouts))
        if waiting.cancelled():
            return _as_stopped(result)
        renewed = waiting.result()
        if renewed is None:
            return replace(result, cause=f"{result.cause}; it was not READY again within {limit}")
        return await self._use_slice(renewed)

    async def _use_slice(self, renewed: Run) -> bool | AttemptResult:
        await record(
            self.directory, "note", text=f"slice {renewed.slice} is READY again", slice="ready", waits_on_slice=False
        )
        await retry_while_full(partial(self.directory.update_run, renewed))
        await self.fleet.close()
        self.fleet = Fleet(renewed.workers, self.access)
        self.leadership = Leadership(renewed, self.fleet)
        if self.spec is not None and self.spec.sync is not None:
            try:
                await upload_code(renewed, self.fleet, self.spec.sync)
            except TpuTuiError as error:
                return AttemptResult(RunState.FAILED, error.sentence, remedy=error.remedy or None)
        return True


def _result_before_recovery(directory: RunDirectory) -> AttemptResult | None:
    """Return the previous attempt's result if an earlier keeper was killed while it waited for the slice."""
    status = status_of(directory)
    notes = [event.get("waits_on_slice") for event in directory.events()[0] if event.kind == "note"]
    is_waiting = next((value for value in reversed(notes) if value is not None), False)
    if not is_waiting or status.state is not RunState.PREPARING:
        return None
    return AttemptResult(RunState.LOST, status.cause, remedy=status.remedy)


def _as_stopped(result: AttemptResult) -> AttemptResult:
    return replace(result, state=RunState.STOPPED, cause=None, worker=None, remedy=None)


def _may_restart(directory: RunDirectory, result: AttemptResult) -> bool:
    """Return whether a failed attempt is followed by another one.

    The first launch must succeed: if a job cannot start, the run fails at once. After that, a failed launch counts as
    an attempt. A run on unreachable workers is not launched again, because it may still be running there, unless the
    API reports that the machines are gone.
    """
    status = status_of(directory)
    started = status.started is not None
    over = status.slice_is_gone or all(worker.ended for worker in status.workers)
    unrecorded = result.state is RunState.LOST and over
    return (
        started
        and (result.state is RunState.FAILED or unrecorded)
        and not status.is_stopped_by_person
        and status.attempt < directory.run.job.restarts
    )


async def _prepare_restart(
    directory: RunDirectory, attempt: int, result: AttemptResult, pause: float
) -> AttemptResult | None:
    """Archive the last attempt's logs and wait; return the result if a person stops the run first."""
    cause = f"restart {attempt} of {directory.run.job.restarts}: {result.cause}"
    await record(directory, "state", state=str(RunState.PREPARING), attempt=attempt, cause=cause)
    if pause:
        # Worded for a report too, where the pause is in the past.
        await record(directory, "note", text=f"a pause of {format_duration(pause)} before restart {attempt}")
    await retry_while_full(partial(archive_attempt_logs, directory, attempt))
    with suppress(asyncio.TimeoutError):
        await within(wait_for_stop_request(directory), pause)
        return _as_stopped(result)
    return None
