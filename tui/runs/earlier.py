"""Attempts made before this machine knew of a run: their logs are still on the workers, and are fetched in order."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING

from tui.pod.run import RunState
from tui.runs.contact import Contact
from tui.runs.directory import RunDirectory
from tui.runs.follow import Follower
from tui.runs.mirror import patiently, record, set_logs_aside
from tui.runs.policies import Patience, names_of
from tui.runs.remote import Outcome
from tui.runs.status import status_of

if TYPE_CHECKING:
    from tui.ssh.fleet import Fleet

EARLIER = "earlier_attempts"
"""Field of the event that says how many attempts were made before a run was found."""
_LOOK = 1.0
_OUT_OF_REACH = 20.0
"""Seconds that a worker out of reach is waited for, once the others have given all they have of an attempt."""


async def fetch_earlier(directory: RunDirectory, fleet: Fleet) -> None:
    """Mirror what came before the present attempt, from byte 0; can be cut off and gone on with at any moment."""
    wanted = max((int(event.get(EARLIER) or 0) for event in directory.events()[0]), default=0)
    for attempt in range(status_of(directory).mirrored, wanted):
        await _set_aside(directory, attempt)
        await _fetch(directory, fleet, attempt)
        state, cause = str(RunState.PREPARING), f"restart {attempt + 1} of {directory.run.restarts}"
        await record(directory, "state", state=state, attempt=attempt + 1, cause=cause)
    if wanted:
        await _set_aside(directory, min(status_of(directory).mirrored, wanted))


async def _set_aside(directory: RunDirectory, attempt: int) -> None:
    if attempt:
        await patiently(partial(set_logs_aside, directory, attempt))


async def _fetch(directory: RunDirectory, fleet: Fleet, attempt: int) -> None:
    """One attempt's logs, from every worker that can be reached."""
    contact = Contact(Patience())
    indices = [worker.index for worker in directory.run.workers]
    followers = {index: Follower(directory, fleet, index, attempt=attempt, contact=contact) for index in indices}
    tasks = {index: asyncio.ensure_future(follower.run()) for index, follower in followers.items()}
    try:
        while left := [index for index, task in tasks.items() if not task.done()]:
            if all(contact.out_for(index) > _OUT_OF_REACH for index in left):
                text = f"attempt {attempt}: the logs of {names_of(left)} could not be fetched: out of reach"
                await record(directory, "note", text=text)
                break
            await asyncio.wait([tasks[index] for index in left], timeout=_LOOK)
    finally:
        for task in tasks.values():
            task.cancel()
        ended = await asyncio.gather(*tasks.values(), return_exceptions=True)
    for index, outcome in zip(indices, ended, strict=True):
        if isinstance(outcome, Outcome) and outcome.unreachable is None:
            await record_exit(directory, index, outcome)


async def record_exit(directory: RunDirectory, worker: int, outcome: Outcome) -> None:
    """Write down how a worker's part ended."""
    await record(
        directory,
        "exit",
        worker=worker,
        exit_code=outcome.exit_code,
        signal=outcome.signal,
        size=outcome.size,
        cause=outcome.cause,
        ended=outcome.time,
        recorded=outcome.recorded,
    )
