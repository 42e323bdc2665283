"""Stops that somebody asked for, carried through: a worker out of reach is asked again until it confirms."""

from __future__ import annotations

import asyncio
from collections.abc import Container
from typing import TYPE_CHECKING

from tui.aio.backoff import backoff
from tui.runs.record.log_mirror import record
from tui.runs.record.run_directory import RunDirectory
from tui.runs.record.run_status import BY_POLICY, STOP_REQUESTED, RunStatus, status_of
from tui.runs.worker.stop import STOP_TIMEOUT_S, parts_of, record_answer, stop_worker

if TYPE_CHECKING:
    from tui.ssh.fleet import Fleet

STOP_POLL_INTERVAL_S = 0.5
"""Seconds between two looks for somebody's wish to stop."""
GIVE_UP_AFTER_S = 600.0
"""Seconds for which workers that cannot be reached are tried, when a launch has to be undone or a run is over."""


async def wait_for_stop_request(directory: RunDirectory) -> RunStatus:
    """Wait until somebody wants the present attempt stopped; the status that says so."""
    read = 0
    while True:
        # A launch on many workers makes thousands of events, which a status would read one by one at each look.
        wanted, read = directory.has_event(STOP_REQUESTED, read)
        if wanted and (status := status_of(directory)).stop_requested is not None:
            return status
        await asyncio.sleep(STOP_POLL_INTERVAL_S)


async def record_remote_stop(directory: RunDirectory) -> None:
    """Put on record, once, that a person stopped the run from another machine, which its workers tell."""
    if status_of(directory).stop_requested in (None, BY_POLICY):
        await record(directory, STOP_REQUESTED, by="user on another machine", grace=directory.run.job.grace)


async def complete_requested_stop(directory: RunDirectory, fleet: Fleet, done: Container[int]) -> None:
    """See to it that a stop that is asked for, by a person or by policy, gets done on every worker but those `done`.

    A person's stop asks the workers itself; what it could not reach is finished here when it comes back.
    """
    status = await wait_for_stop_request(directory)
    by_person = status.stop_requested != BY_POLICY
    if by_person:
        await asyncio.sleep(status.stop_grace + STOP_TIMEOUT_S / 3)

    async def insist(index: int) -> None:
        waits = backoff()
        while index not in done:
            part = parts_of(directory).get(index)
            grace = status.stop_grace
            answer = await stop_worker(directory.run, fleet, index, grace=grace, for_good=by_person, part=part)
            if answer.confirmed:
                await record_answer(directory, answer)
                return
            await asyncio.sleep(next(waits))

    await asyncio.gather(*(insist(worker.index) for worker in directory.run.workers))


async def stop_everywhere(directory: RunDirectory, fleet: Fleet, grace: float) -> list[int]:
    """Stop every worker, retrying for `GIVE_UP_AFTER_S`; return the workers that did not confirm."""
    left = [worker.index for worker in directory.run.workers]
    deadline = asyncio.get_running_loop().time() + GIVE_UP_AFTER_S
    waits = backoff()
    while True:
        parts = parts_of(directory)
        stops = (stop_worker(directory.run, fleet, index, grace=grace, part=parts.get(index)) for index in left)
        answers = await asyncio.gather(*stops)
        for answer in answers:
            await record_answer(directory, answer)
        left = [answer.worker for answer in answers if not answer.confirmed]
        if not left or asyncio.get_running_loop().time() > deadline:
            return left
        await asyncio.sleep(next(waits))
