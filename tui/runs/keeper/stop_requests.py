"""Carry out requested stops: an unreachable worker is retried until it confirms."""

from __future__ import annotations

import asyncio
from collections.abc import Container, Coroutine
from typing import Any, TypeVar

from tui.aio.backoff import backoff
from tui.aio.fan_out import cancel_all
from tui.runs.record.log_mirror import record
from tui.runs.record.run_directory import RunDirectory
from tui.runs.record.run_status import BY_REMOTE_USER, STOP_REQUESTED, RunStatus, status_of
from tui.runs.worker.stop import STOP_TIMEOUT_S, parts_of, record_answer, stop_worker
from tui.ssh.fleet import Fleet

STOP_POLL_INTERVAL_S = 0.5
"""Seconds between two checks for a request to stop."""
GIVE_UP_AFTER_S = 600.0
"""Seconds for which unreachable workers are retried when a launch has to be undone or a run is over."""
ABORT_GRACE_S = 5.0
"""Grace in seconds for the jobs of a launch that failed after the barrier: they have hardly begun."""
_Result = TypeVar("_Result")


async def wait_for_stop_request(directory: RunDirectory) -> RunStatus:
    """Wait until a stop of the present attempt is requested; return the status that shows it."""
    while True:
        status = status_of(directory)
        if status.stop_requested is not None:
            return status
        await asyncio.sleep(STOP_POLL_INTERVAL_S)


async def unless_stopped(directory: RunDirectory, work: Coroutine[Any, Any, _Result]) -> asyncio.Future[_Result]:
    """Do the work until a stop is requested; return its future, which is cancelled if the request came first."""
    working = asyncio.ensure_future(work)
    stop = asyncio.ensure_future(wait_for_stop_request(directory))
    try:
        await asyncio.wait({working, stop}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        await cancel_all([working, stop])
    if working.cancelled():
        stop.result()  # the request, or why none could be found
    return working


async def record_remote_stop(directory: RunDirectory) -> None:
    """Record, once, that a person stopped the run from another machine, as its workers report."""
    if not status_of(directory).is_stopped_by_person:
        await record(directory, STOP_REQUESTED, by=BY_REMOTE_USER, grace=directory.run.job.grace)


async def complete_requested_stop(directory: RunDirectory, fleet: Fleet, done: Container[int]) -> None:
    """Wait for a requested stop, by a person or by policy, and stop every worker that is not in `done`.

    A person's stop command contacts the workers itself; workers that it could not reach are stopped here later.
    """
    status = await wait_for_stop_request(directory)
    by_person = status.is_stopped_by_person
    if by_person:
        await asyncio.sleep(status.stop_grace + STOP_TIMEOUT_S / 3)

    async def stop_until_confirmed(index: int) -> None:
        waits = backoff()
        while index not in done:
            part = parts_of(directory).get(index)
            grace = status.stop_grace
            answer = await stop_worker(directory.run, fleet, index, grace=grace, for_good=by_person, part=part)
            if answer.confirmed:
                await record_answer(directory, answer)
                return
            await asyncio.sleep(next(waits))

    await asyncio.gather(*(stop_until_confirmed(worker.index) for worker in directory.run.workers))


async def stop_everywhere(directory: RunDirectory, fleet: Fleet) -> list[int]:
    """Stop every worker, retrying for `GIVE_UP_AFTER_S`; return the workers that did not confirm."""
    remaining = [worker.index for worker in directory.run.workers]
    deadline = asyncio.get_running_loop().time() + GIVE_UP_AFTER_S
    waits = backoff()
    while True:
        parts = parts_of(directory)
        stops = (
            stop_worker(directory.run, fleet, index, grace=ABORT_GRACE_S, part=parts.get(index))
            for index in remaining
        )
        answers = await asyncio.gather(*stops)
        for answer in answers:
            await record_answer(directory, answer)
        remaining = [answer.worker for answer in answers if not answer.confirmed]
        if not remaining or asyncio.get_running_loop().time() > deadline:
            return remaining
        await asyncio.sleep(next(waits))
