"""A keeper's life: attempt after attempt until the run has ended, a person stops it, or its local pod is gone."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

from tui.pod.run import RunState
from tui.runs.acting import Acting
from tui.runs.claim import Claim
from tui.runs.directory import HEARTBEAT, RunDirectory
from tui.runs.keeping import GIVE_UP, Ended, Keeping, wish_to_stop
from tui.runs.launch import LaunchSpec
from tui.runs.mirror import record, set_logs_aside, spend_reserve
from tui.runs.policies import Patience, in_time
from tui.runs.status import BY_POLICY, status_of
from tui.runs.tether import POD_GONE, Tether
from tui.ssh.access import Access
from tui.ssh.fleet import Fleet

ELSEWHERE = 5.0
"""Seconds between two looks whether the acting keeper has launched the next attempt."""


def keep_in_loop(directory: RunDirectory, claim: Claim, document: Mapping[str, Any]) -> None:
    """Keep the run until it is over and its mirror complete, or until SIGTERM: that leaves the run alone."""
    asyncio.run(_until_told(directory, claim, document))


async def _until_told(directory: RunDirectory, claim: Claim, document: Mapping[str, Any]) -> None:
    loop = asyncio.get_running_loop()
    keeping = asyncio.ensure_future(_while_tied(directory, document))
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        loop.add_signal_handler(number, keeping.cancel)
    beating = asyncio.ensure_future(_beat(claim))
    try:
        with suppress(asyncio.CancelledError):
            await keeping
    finally:
        beating.cancel()


async def _beat(claim: Claim) -> None:
    while True:
        claim.beat()
        await asyncio.sleep(HEARTBEAT)


async def _while_tied(directory: RunDirectory, document: Mapping[str, Any]) -> None:
    """Keep the run; a local pod's only for as long as the pod lives."""
    tether = Tether.of(directory)
    life = asyncio.ensure_future(_keep(directory, document, tether))
    if tether is None:
        await life
        return
    broken = asyncio.ensure_future(tether.broken())
    try:
        await asyncio.wait({life, broken}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        broken.cancel()
        life.cancel()
        await asyncio.wait({life})
    if not life.cancelled():
        life.result()
    elif not status_of(directory).state.is_over:
        await record(directory, "state", state=str(RunState.LOST), cause=POD_GONE)


async def _keep(directory: RunDirectory, document: Mapping[str, Any], tether: Tether | None) -> None:
    spec = LaunchSpec.from_json(document["spec"]) if "spec" in document else None
    access = spec.access if spec else _access(directory, document)
    patience = spec.patience if spec else Patience(**document.get("patience", {}))
    if spec is not None:
        pod = tether.pod if tether else None
        await record(directory, "state", state=str(RunState.PREPARING), cause=None, pod=pod)
    async with Fleet(directory.run.workers, access) as fleet:
        await keep_run(directory, fleet, patience, spec)
    spend_reserve(directory)


def _access(directory: RunDirectory, document: Mapping[str, Any]) -> Access:
    if "access" in document:
        return Access.from_json(document["access"])
    from tui.settings import load
    from tui.ssh.access import access_from

    return access_from(load({"profile": directory.run.profile} if directory.run.profile else {}))


async def keep_run(directory: RunDirectory, fleet: Fleet, patience: Patience, spec: LaunchSpec | None) -> None:
    """Launch the run (`spec`) or take it over, and make as many attempts as it may have."""
    attempt = status_of(directory).attempt
    launching = spec is not None
    acting = Acting(directory.run, fleet)
    while True:
        keeping = Keeping(directory, fleet, patience, spec=spec, attempt=attempt, launching=launching, acting=acting)
        ended = await keeping.run()
        if ended is None:
            return
        if not may_restart(directory, ended):
            break
        attempt += 1
        pause = patience.pause_before(attempt)
        launching = await acting.is_ours()
        if not launching and not await _begun_elsewhere(acting, attempt, pause + GIVE_UP):
            break
        if (stopped := await _before(directory, attempt, ended, pause if launching else 0)) is not None:
            ended = stopped
            break
    await record(
        directory, "state", worker=ended.worker, state=str(ended.state), cause=ended.cause, remedy=ended.remedy
    )


def may_restart(directory: RunDirectory, ended: Ended) -> bool:
    """Whether a failed attempt is to be followed by another one.

    The first launch must succeed: what cannot start at all is told at once. After that a launch that fails counts as
    an attempt. A run on workers that are out of reach is not launched again: it may run on there.
    """
    status = status_of(directory)
    started = status.started is not None
    unrecorded = ended.state is RunState.LOST and all(worker.ended for worker in status.workers)
    return (
        started
        and (ended.state is RunState.FAILED or unrecorded)
        and status.stop_requested in (None, BY_POLICY)
        and status.attempt < directory.run.restarts
    )


async def _begun_elsewhere(acting: Acting, attempt: int, patience: float) -> bool:
    """Wait for the attempt that the acting keeper, on another machine, is to begin; whether it did."""
    deadline = asyncio.get_running_loop().time() + patience
    while asyncio.get_running_loop().time() < deadline:
        heard = (await acting.answers()).values()
        if any((answer.number("attempt") or 0) >= attempt for answer in heard):
            return True
        if any(answer.fields.get("stopped") == "1" for answer in heard):
            return False
        await asyncio.sleep(ELSEWHERE)
    return False


async def _before(directory: RunDirectory, attempt: int, ended: Ended, pause: float) -> Ended | None:
    """Set the last attempt's logs aside and wait; how the run ended where a person stopped it meanwhile."""
    cause = f"restart {attempt} of {directory.run.restarts}: {ended.cause}"
    await record(directory, "state", state=str(RunState.PREPARING), attempt=attempt, cause=cause)
    if pause:
        await record(directory, "note", text=f"the gang is launched again in {in_time(pause)}")
    await asyncio.get_running_loop().run_in_executor(None, set_logs_aside, directory, attempt)
    with suppress(asyncio.TimeoutError):
        await asyncio.wait_for(wish_to_stop(directory), pause)
        return replace(ended, state=RunState.STOPPED, cause=None, worker=None, remedy=None)
    return None
