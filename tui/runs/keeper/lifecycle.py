"""A keeper's life: attempt after attempt until the run has ended, a person stops it, or its local pod is gone."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from tui.errors import TpuTuiError
from tui.pod.run import LOCAL_PROFILE, Run, RunState
from tui.runs.follow.previous_attempts import fetch_earlier, learn_of_attempts
from tui.runs.health.slice_recovery import upload_code, wait_for_slice
from tui.runs.keeper import packet_batching
from tui.runs.keeper.attempt import Attempt
from tui.runs.keeper.attempt_start import AttemptResult
from tui.runs.keeper.leadership import Leadership
from tui.runs.keeper.on_end_claim import IDENTITY, identity_of
from tui.runs.keeper.stop_requests import record_remote_stop, wait_for_stop_request
from tui.runs.keeper_timeouts import KeeperTimeouts
from tui.runs.launch.launch_spec import LaunchSpec
from tui.runs.record.directory_lock import Claim
from tui.runs.record.keeper_file import HEARTBEAT
from tui.runs.record.log_mirror import patiently, record, set_logs_aside
from tui.runs.record.run_directory import RunDirectory
from tui.runs.record.run_status import BY_POLICY, status_of
from tui.ssh.config.access import Access
from tui.ssh.fleet import Fleet
from tui.text.durations import format_duration

if TYPE_CHECKING:
    from tui.runs.health.local_pod_watch import LocalPodWatch


def keep_in_loop(directory: RunDirectory, claim: Claim, document: Mapping[str, Any]) -> None:
    """Keep the run until it is over and its mirror complete.

    Until SIGTERM, too, or until the run's directory is gone: that leaves the run alone.
    """
    packet_batching.run(_until_told(directory, claim, document))


async def _until_told(directory: RunDirectory, claim: Claim, document: Mapping[str, Any]) -> None:
    loop = asyncio.get_running_loop()
    keeping = asyncio.ensure_future(_while_tied(directory, document))
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        loop.add_signal_handler(number, keeping.cancel)
    beating = asyncio.ensure_future(_beat(claim))
    beating.add_done_callback(lambda _: keeping.cancel())
    try:
        with suppress(asyncio.CancelledError):
            await keeping
    finally:
        beating.cancel()


async def _beat(claim: Claim) -> None:
    """Show signs of life for as long as somebody can see them."""
    while claim.stands():
        claim.beat()
        await asyncio.sleep(HEARTBEAT)


async def _while_tied(directory: RunDirectory, document: Mapping[str, Any]) -> None:
    """Keep the run; a local pod's only for as long as the pod lives."""
    tether = _tether(directory)
    life = asyncio.ensure_future(_keep(directory, document, tether))
    if tether is None:
        await life
        return
    broken = asyncio.ensure_future(tether.wait_gone())
    try:
        await asyncio.wait({life, broken}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        broken.cancel()
        life.cancel()
        await asyncio.wait({life})
    if not life.cancelled():
        life.result()
    elif not status_of(directory).state.is_over:
        from tui.runs.health.local_pod_watch import POD_GONE

        await record(directory, "state", state=str(RunState.LOST), cause=POD_GONE)


def _tether(directory: RunDirectory) -> LocalPodWatch | None:
    """What ties a local pod's run to that pod; nothing ties any other run."""
    if directory.run.profile != LOCAL_PROFILE:
        return None
    from tui.runs.health.local_pod_watch import LocalPodWatch

    return LocalPodWatch.for_run(directory)


async def _keep(directory: RunDirectory, document: Mapping[str, Any], tether: LocalPodWatch | None) -> None:
    spec = LaunchSpec.from_json(document["spec"]) if "spec" in document else None
    access = spec.access if spec else _access(directory, document)
    timeouts = spec.keeper_timeouts if spec else KeeperTimeouts(**document.get("patience", {}))
    with suppress(OSError):
        directory.hold_room()
    if spec is not None:
        pod = tether.pod if tether else None
        told: dict[str, Any] = {"pod": pod, IDENTITY: identity_of(directory)}
        await record(directory, "state", state=str(RunState.PREPARING), cause=None, **told)
    await RunLifecycle(directory, access, timeouts, spec).run()
    directory.spend_room()


def _access(directory: RunDirectory, document: Mapping[str, Any]) -> Access:
    if "access" in document:
        return Access.from_json(document["access"])
    from tui.settings import load
    from tui.ssh.config.access import access_from

    return access_from(load({"profile": directory.run.profile} if directory.run.profile else {}))


class RunLifecycle:
    """A run's attempts one after the other, launched (`spec`) or followed by this keeper, and what comes after."""

    def __init__(
        self, directory: RunDirectory, access: Access, timeouts: KeeperTimeouts, spec: LaunchSpec | None
    ) -> None:
        self.directory = directory
        self.access = access
        self.timeouts = timeouts
        self.spec = spec
        self.attempt = 0
        self.fleet = Fleet(directory.run.workers, access)
        self.leadership = Leadership(directory.run, self.fleet)

    async def run(self) -> None:
        """Until nothing is left to do. Cancelled: the run is left as it is."""
        try:
            if self.spec is None:
                await learn_of_attempts(self.directory, self.fleet)
                await fetch_earlier(self.directory, self.fleet)
            self.attempt = status_of(self.directory).attempt
            ended = await self._last_attempt()
            if ended is not None:
                told = {"cause": ended.cause, "remedy": ended.remedy}
                await record(self.directory, "state", worker=ended.worker, state=str(ended.state), **told)
            if self.directory.run.on_end:
                from tui.runs.keeper.on_end import run_pending_actions

                await run_pending_actions(self.directory, self.fleet)
        finally:
            await self.fleet.close()

    async def _last_attempt(self) -> AttemptResult | None:
        """Make as many attempts as the run may have; how the last one ended, None when that was on record before."""
        launching: bool | AttemptResult = self.spec is not None
        if self.spec is None and (known := _waiting_for_slice(self.directory)) is not None:
            launching = await self._renewed_slice(known)
        while True:
            if isinstance(launching, AttemptResult):
                return launching
            ended = await self._keeping(launching).run()
            if ended is None or not may_restart(self.directory, ended):
                return ended
            self.attempt += 1
            gone = status_of(self.directory).slice_is_gone
            launching = await (self._on_renewed_slice(ended) if gone else self._on_same_slice(ended))

    def _keeping(self, launching: bool) -> Attempt:
        return Attempt(
            self.directory,
            self.fleet,
            self.timeouts,
            spec=self.spec,
            attempt=self.attempt,
            launching=launching,
            leadership=self.leadership,
        )

    async def _on_same_slice(self, ended: AttemptResult) -> bool | AttemptResult:
        """Get ready for the next attempt: whether it is ours to launch, or how the run ended instead."""
        pause = self.timeouts.pause_before(self.attempt)
        ours = await self.leadership.is_leader(self.attempt - 1)
        if not ours:
            begun = await self.leadership.wait_for_other(self.attempt, pause + self.timeouts.newer_acts)
            if begun is False:
                await record_remote_stop(self.directory)
                return _stopped(ended)
            ours = begun is None
            if ours:
                text = f"a newer keeper did not begin restart {self.attempt}: this one does"
                await record(self.directory, "note", text=text)
                await self.leadership.reclaim()
        stopped = await _before(self.directory, self.attempt, ended, pause if ours else 0)
        return ours if stopped is None else stopped

    async def _on_renewed_slice(self, ended: AttemptResult) -> bool | AttemptResult:
        """Get ready for the next attempt on a slice that was taken away."""
        stopped = await _before(self.directory, self.attempt, ended, 0)
        return stopped if stopped is not None else await self._renewed_slice(ended)

    async def _renewed_slice(self, ended: AttemptResult) -> bool | AttemptResult:
        """Wait for the slice; True once it is there, code and all, or how the run ended."""
        while_ = format_duration(self.timeouts.lost_after)
        text = f"waiting for slice {self.directory.run.slice} to be READY again, for up to {while_}"
        told = f"{text}. {ended.remedy or ''}".strip()
        await record(self.directory, "note", text=told, waits_on_slice=True)
        waiting = asyncio.ensure_future(wait_for_slice(self.directory, self.timeouts))
        wish = asyncio.ensure_future(wait_for_stop_request(self.directory))
        try:
            await asyncio.wait({waiting, wish}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            wish.cancel()
            waiting.cancel()
            await asyncio.gather(waiting, wish, return_exceptions=True)
        if waiting.cancelled():
            return _stopped(ended)
        renewed = waiting.result()
        if renewed is None:
            return replace(ended, cause=f"{ended.cause}; it was not READY again within {while_}")
        return await self._take(renewed)

    async def _take(self, renewed: Run) -> bool | AttemptResult:
        """Turn to the slice's present workers."""
        await record(
            self.directory, "note", text=f"slice {renewed.slice} is READY again", slice="ready", waits_on_slice=False
        )
        await patiently(partial(self.directory.amend, renewed))
        await self.fleet.close()
        self.fleet = Fleet(renewed.workers, self.access)
        self.leadership = Leadership(renewed, self.fleet)
        if self.spec is not None and self.spec.sync is not None:
            try:
                await upload_code(renewed, self.fleet, self.spec.sync)
            except TpuTuiError as error:
                return AttemptResult(RunState.FAILED, error.sentence, remedy=error.remedy or None)
        return True


def _waiting_for_slice(directory: RunDirectory) -> AttemptResult | None:
    """What an earlier keeper was waiting out when it was killed: the end of the attempt before; None: nothing."""
    status = status_of(directory)
    told = [event.get("waits_on_slice") for event in directory.events()[0] if event.kind == "note"]
    waits = next((value for value in reversed(told) if value is not None), False)
    if not waits or status.state is not RunState.PREPARING:
        return None
    return AttemptResult(RunState.LOST, status.cause, remedy=status.remedy)


def _stopped(ended: AttemptResult) -> AttemptResult:
    return replace(ended, state=RunState.STOPPED, cause=None, worker=None, remedy=None)


def may_restart(directory: RunDirectory, ended: AttemptResult) -> bool:
    """Whether a failed attempt is to be followed by another one.

    The first launch must succeed: what cannot start at all is told at once. After that a launch that fails counts as
    an attempt. A run on workers that are out of reach is not launched again: it may run on there, unless the Cloud
    TPU API says that they are gone.
    """
    status = status_of(directory)
    started = status.started is not None
    over = status.slice_is_gone or all(worker.ended for worker in status.workers)
    unrecorded = ended.state is RunState.LOST and over
    return (
        started
        and (ended.state is RunState.FAILED or unrecorded)
        and status.stop_requested in (None, BY_POLICY)
        and status.attempt < directory.run.restarts
    )


async def _before(directory: RunDirectory, attempt: int, ended: AttemptResult, pause: float) -> AttemptResult | None:
    """Set the last attempt's logs aside and wait; how the run ended where a person stopped it meanwhile."""
    cause = f"restart {attempt} of {directory.run.restarts}: {ended.cause}"
    await record(directory, "state", state=str(RunState.PREPARING), attempt=attempt, cause=cause)
    if pause:
        # Reports tell it too, when all of it is past.
        await record(directory, "note", text=f"a pause of {format_duration(pause)} before restart {attempt}")
    await patiently(partial(set_logs_aside, directory, attempt))
    with suppress(asyncio.TimeoutError):
        await asyncio.wait_for(wait_for_stop_request(directory), pause)
        return _stopped(ended)
    return None
