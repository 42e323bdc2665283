"""Start an attempt: launch it and undo a launch that fails, or take over what an earlier keeper left."""

from __future__ import annotations

import asyncio
import errno
import os
from dataclasses import dataclass, field
from functools import partial

from tui.aio.timeouts import within
from tui.errors import LaunchError, TpuTuiError
from tui.pod.run import RunState
from tui.runs.keeper.leadership import Leadership
from tui.runs.keeper.stop_requests import ABORT_GRACE_S, record_remote_stop, stop_everywhere, unless_stopped
from tui.runs.keeper_timeouts import KeeperTimeouts
from tui.runs.launch.gang import Gang
from tui.runs.launch.launch_spec import LaunchSpec
from tui.runs.launch.worker_session import AlreadyLaunchedError, RunStoppedError, WorkerSession
from tui.runs.record.log_mirror import (
    archive_attempt_logs,
    is_full,
    record,
    record_missing_arrivals,
    retry_while_full,
)
from tui.runs.record.run_directory import RunDirectory
from tui.runs.record.run_status import BY_POLICY, STOP_REQUESTED, status_of
from tui.runs.worker.queries import RemoteState, query_states
from tui.ssh.fleet import Fleet
from tui.text.durations import format_duration
from tui.text.ranks import format_workers


@dataclass(frozen=True)
class AttemptResult:
    """The end of an attempt; the fields of its last `state` event, unless the run is restarted."""

    state: RunState
    cause: str | None
    worker: int | None = None
    remedy: str | None = None


@dataclass(eq=False)
class AttemptStarter:
    """Starts one attempt. Without `spec`, the workers use what an earlier launch sent them."""

    directory: RunDirectory
    fleet: Fleet
    timeouts: KeeperTimeouts
    leadership: Leadership
    spec: LaunchSpec | None
    attempt: int
    sessions: dict[int, WorkerSession] = field(default_factory=dict, init=False)
    """The sessions of a successful launch; each continues as the follower of its worker's log."""

    @property
    def launch_spec(self) -> LaunchSpec:
        """Return the specification of the launch, without the job's secrets where this keeper does not know them."""
        return self.spec or LaunchSpec(self.directory.run, {}, self.fleet.access, keeper_timeouts=self.timeouts)

    async def launch(self) -> AttemptResult | None:
        """Launch the gang; return the result if the launch failed or was stopped, None if the gang runs."""
        gang = Gang(
            self.directory,
            self.launch_spec,
            self.fleet,
            attempt=self.attempt,
            again=self.spec is None,
            keeper=self.leadership.number,
        )
        launching = await unless_stopped(self.directory, gang.run())
        if launching.cancelled():
            return await self._undo(gang, None)
        try:
            launching.result()
        except AlreadyLaunchedError as error:
            await record(self.directory, "note", text=f"{error.sentence}: it is followed here")
            return await self._continue()
        except TpuTuiError as error:
            return await self._undo(gang, None if await self._is_stopped_by(error) else error)
        except OSError as error:
            if not is_full(error):
                raise
            self.directory.release_space()
            return await self._undo(gang, _disk_full_error(error, self.directory))
        self.sessions = gang.sessions
        if gang.keeper:
            self.leadership.mark_announced(gang.sessions)
        await record(self.directory, "state", state=str(RunState.RUNNING), cause=None)
        return None

    async def _is_stopped_by(self, error: TpuTuiError) -> bool:
        """Return whether a person's stop caused an error; record a stop that reached workers before the keeper."""
        if not self._is_to_stop and isinstance(error, RunStoppedError):
            await record_remote_stop(self.directory)
        return self._is_to_stop

    @property
    def _is_to_stop(self) -> bool:
        return status_of(self.directory).is_stopped_by_person

    async def _undo(self, gang: Gang, error: TpuTuiError | None) -> AttemptResult:
        """Stop what a failed or stopped launch may have started, and record the worker that failed."""
        cause = None if error is None else error.sentence
        if gang.passed_barrier:
            await record(self.directory, "state", state=str(RunState.STOPPING), cause=cause)
            unconfirmed = await stop_everywhere(self.directory, self.fleet)
            if unconfirmed:
                names = ", ".join(str(index) for index in unconfirmed)
                cause = f"{cause or 'stopped'}; not confirmed stopped: worker {names}"
        state = RunState.STOPPED if error is None else RunState.FAILED
        worker = error.worker if error is not None and isinstance(error.worker, int) else None
        if worker is not None:
            await record(self.directory, "failure", worker=worker, exit_code=None, cause=cause)
        return AttemptResult(state, cause, worker, error.remedy if error is not None else None)

    async def take_over(self) -> AttemptResult | None:
        """Take over a run whose keeper is gone; return its result if there is nothing to follow."""
        status = status_of(self.directory)
        if status.state is RunState.PREPARING and self.attempt:
            await retry_while_full(partial(archive_attempt_logs, self.directory, self.attempt))
        await retry_while_full(partial(record_missing_arrivals, self.directory))
        return await self._continue() if status.state is RunState.PREPARING else None

    async def _continue(self) -> AttemptResult | None:
        """Continue with what the workers have of the attempt; return its result if there is nothing to follow."""
        query = query_states(self.directory.run, self.fleet, self.attempt)
        try:
            states = await within(query, self.timeouts.lost_after)
        except asyncio.TimeoutError:
            limit = format_duration(self.timeouts.lost_after)
            return AttemptResult(RunState.LOST, f"the workers could not be queried about its launch for {limit}")
        started = [index for index, state in states.items() if state is not RemoteState.NOTHING]
        if not started and self._is_to_stop:
            return AttemptResult(RunState.STOPPED, None)
        if not started and self.attempt:
            return await self._launch_as_leader()
        if not started:
            error = LaunchError("the launch was interrupted before anything started", remedy="launch it again")
            return AttemptResult(RunState.FAILED, error.sentence, remedy=error.remedy)
        for index in started:
            await record(self.directory, "phase", worker=index, phase="confirm", status="done", detail="found")
        missing = [index for index, state in states.items() if state in (RemoteState.NOTHING, RemoteState.ABORTED)]
        if missing:
            await self._stop_partial_run(missing)
        else:
            await record(self.directory, "state", state=str(RunState.RUNNING), cause=None)
        return None

    async def _launch_as_leader(self) -> AttemptResult | None:
        """Launch an attempt that no worker has, unless a newer keeper does so in time."""
        if not await self.leadership.is_leader(self.attempt):
            has_begun = await self.leadership.wait_for_other(self.attempt, self.timeouts.newer_acts)
            if has_begun is False:
                await record_remote_stop(self.directory)
                return AttemptResult(RunState.STOPPED, None)
            if has_begun:
                return await self._continue()
        await self.leadership.reclaim()
        return await self.launch()

    async def _stop_partial_run(self, missing: list[int]) -> None:
        """Stop a run whose launch was interrupted during its confirmation, so that it runs on some workers only."""
        if self._is_to_stop:
            await stop_everywhere(self.directory, self.fleet)
            return
        cause = f"the launch was interrupted during its confirmation: it does not run on {format_workers(missing)}"
        await record(self.directory, "failure", worker=missing[0], exit_code=None, cause=cause)
        await record(self.directory, "state", state=str(RunState.STOPPING), cause=cause)
        await record(self.directory, STOP_REQUESTED, by=BY_POLICY, grace=ABORT_GRACE_S, cause=cause)
        await stop_everywhere(self.directory, self.fleet)


def _disk_full_error(error: OSError, directory: RunDirectory) -> LaunchError:
    home = directory.path.parent.parent
    why = os.strerror(error.errno or errno.ENOSPC)
    return LaunchError("the disk of this machine is full", why=why, remedy=f"make room in {home}")
