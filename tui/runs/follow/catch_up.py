"""Bring a run's mirror up to date once, if it has no keeper that does so."""

from __future__ import annotations

import asyncio
from contextlib import closing

from tui.aio.fan_out import cancel_all
from tui.aio.timeouts import within
from tui.errors import TpuTuiError, WorkerError
from tui.runs.follow.follower import Follower
from tui.runs.follow.previous_attempts import fetch_previous_logs
from tui.runs.follow.sync_from_workers import query_workers, record_worker_answers
from tui.runs.record.directory_lock import DirectoryLock
from tui.runs.record.log_mirror import record_missing_arrivals
from tui.runs.record.run_directory import RunDirectory
from tui.runs.record.run_status import status_of
from tui.ssh.fleet import Fleet
from tui.text.printable import format_count


async def catch_up(directory: RunDirectory, fleet: Fleet, *, timeout: float) -> None:
    """Bring every mirror to the present end of its log, earlier attempts first; do nothing if the run has a keeper.

    Each of the steps takes at most `timeout` seconds. Raises the first WorkerError once the other workers' mirrors
    are up to date, and TpuTuiError where nothing can be written here.
    """
    try:
        lock = DirectoryLock.take(directory)
    except OSError as refused:
        raise TpuTuiError(
            "the run's mirror cannot be brought up to date",
            why=f"{directory.path}: {refused.strerror or refused}",
            remedy="set TPU_TUI_HOME to a directory that you may write to",
        ) from refused
    if lock is None:
        return
    with closing(lock):
        record_missing_arrivals(directory)
        errors = await _bring_up_to_date(directory, fleet, timeout)
        answers = {} if errors else await query_workers(directory.run, fleet, timeout_s=timeout)
    record_worker_answers(directory, answers)
    for error in errors:
        raise error


async def _bring_up_to_date(directory: RunDirectory, fleet: Fleet, timeout: float) -> list[BaseException]:
    try:
        await within(fetch_previous_logs(directory, fleet), timeout)
    except asyncio.TimeoutError:
        return [WorkerError(f"the logs of earlier attempts did not all come within {timeout:g} s")]
    attempt = status_of(directory).mirrored
    tasks = [
        asyncio.ensure_future(Follower(directory, fleet, worker.index, attempt=attempt).catch_up())
        for worker in directory.run.workers
    ]
    try:
        done, pending = await asyncio.wait(tasks, timeout=timeout)
    finally:
        await cancel_all(tasks)
    errors = [error for task in done if (error := task.exception()) is not None]
    if pending and not errors:
        return [WorkerError(f"{format_count(len(pending), 'worker')} did not answer within {timeout:g} s")]
    return errors
