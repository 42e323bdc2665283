"""Fetch the logs of attempts that were made before this machine knew of a run, in order, from its workers."""

from __future__ import annotations

import asyncio
from functools import partial

from tui.aio.fan_out import cancel_all
from tui.pod.run import RunState
from tui.runs.failure_rules import WorkerOutcome, exit_fields
from tui.runs.follow.follower import Follower
from tui.runs.follow.sync_from_workers import query_workers
from tui.runs.health.reachability import Reachability
from tui.runs.keeper_timeouts import KeeperTimeouts
from tui.runs.record.event_log import EARLIER_ATTEMPTS
from tui.runs.record.log_mirror import archive_attempt_logs, record, retry_while_full
from tui.runs.record.run_directory import RunDirectory
from tui.runs.record.run_status import status_of
from tui.runs.worker.queries import parse_attempt
from tui.ssh.fleet import Fleet
from tui.text.numbers import parse_integer
from tui.text.ranks import format_workers

_POLL_INTERVAL_S = 1.0
_UNREACHABLE_TIMEOUT_S = 20.0
"""Seconds to wait for an unreachable worker once the logs of the others are complete for an attempt."""
_QUERY_TIMEOUT_S = 5.0
"""Seconds for the workers to report which attempt they are at, before the known attempts are followed."""


async def record_later_attempt(directory: RunDirectory, fleet: Fleet) -> None:
    """Note if the run went on to a later attempt while it was not followed from here.

    Otherwise a follower of the last attempt known here would take its end for the end of the run.
    """
    if not directory.run.job.restarts:
        return
    answers = await query_workers(directory.run, fleet, timeout_s=_QUERY_TIMEOUT_S)
    latest = max((parse_attempt(answer, directory.run) for answer in answers.values() if answer), default=0)
    if latest > max(status_of(directory).mirrored, _earlier_attempts(directory)):
        text = f"it was restarted without a keeper here: attempt {latest}; the earlier logs come first"
        await record(directory, "note", text=text, **{EARLIER_ATTEMPTS: latest})


def _earlier_attempts(directory: RunDirectory) -> int:
    """Return how many attempts precede the present one, by the events and by the archived logs."""
    noted = (event.get(EARLIER_ATTEMPTS) or 0 for event in directory.events()[0])
    numbers = (parse_integer(path.name) for path in directory.attempt_path(0).parent.glob("*"))
    archived = (number + 1 for number in numbers if number is not None)
    return min(max((*noted, *archived), default=0), directory.run.job.restarts)


async def fetch_previous_logs(directory: RunDirectory, fleet: Fleet) -> None:
    """Mirror the logs of earlier attempts from byte 0; an interrupted call can be repeated."""
    present = _earlier_attempts(directory)
    for attempt in range(status_of(directory).mirrored, present):
        await _archive_before(directory, attempt)
        if not directory.attempt_path(attempt).exists():  # it exists if only the events about it were lost
            await _fetch(directory, fleet, attempt)
        state, cause = str(RunState.PREPARING), f"restart {attempt + 1} of {directory.run.job.restarts}"
        await record(directory, "state", state=state, attempt=attempt + 1, cause=cause)
    if present:
        await _archive_before(directory, min(status_of(directory).mirrored, present))


async def _archive_before(directory: RunDirectory, attempt: int) -> None:
    """Archive the mirrors of the attempt before this one, if there is one."""
    if attempt:
        await retry_while_full(partial(archive_attempt_logs, directory, attempt))


async def _fetch(directory: RunDirectory, fleet: Fleet, attempt: int) -> None:
    reachability = Reachability(KeeperTimeouts())
    indices = [worker.index for worker in directory.run.workers]
    followers = (Follower(directory, fleet, index, attempt=attempt, reachability=reachability) for index in indices)
    tasks = {follower.worker: asyncio.ensure_future(follower.run()) for follower in followers}
    try:
        while remaining := [index for index, task in tasks.items() if not task.done()]:
            if all(reachability.seconds_unreachable(index) > _UNREACHABLE_TIMEOUT_S for index in remaining):
                text = (
                    f"attempt {attempt}: the logs of {format_workers(remaining)} could not be fetched: out of reach"
                )
                await record(directory, "note", text=text)
                break
            await asyncio.wait([tasks[index] for index in remaining], timeout=_POLL_INTERVAL_S)
    finally:
        ended = await cancel_all(tasks.values())
    for index, outcome in zip(indices, ended, strict=True):
        if isinstance(outcome, WorkerOutcome) and outcome.unreachable is None:
            await record_exit(directory, index, outcome)


async def record_exit(directory: RunDirectory, worker: int, outcome: WorkerOutcome) -> None:
    """Record how a worker's part ended."""
    await record(directory, "exit", worker=worker, size=outcome.size, **exit_fields(outcome))
