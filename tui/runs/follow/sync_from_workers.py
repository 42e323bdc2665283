"""Record the workers' answers about a run that has no keeper here: they know its state best."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import closing, suppress
from typing import NamedTuple

from tui.aio.timeouts import within
from tui.errors import TpuTuiError
from tui.pod.run import Run, RunState
from tui.runs.failure_rules import WorkerOutcome, exit_fields
from tui.runs.record.directory_lock import DirectoryLock
from tui.runs.record.event_log import EARLIER_ATTEMPTS
from tui.runs.record.run_directory import RunDirectory
from tui.runs.record.run_status import BY_REMOTE_USER, STOP_REQUESTED, WORKER_REPORT, RunStatus, status_of
from tui.runs.worker.calls import parse_outcome
from tui.runs.worker.queries import RemoteState, parse_attempt, parse_state, query_status
from tui.ssh.exec.script_protocol import Answer
from tui.ssh.fleet import Fleet

Answers = Mapping[int, "Answer | None"]
"""The answer of each worker that was queried about a run; None where it does not know the run."""
_NOT_BEGUN = (RemoteState.NOTHING, RemoteState.UNDECIDED, RemoteState.ABORTED)
_HAS_RUN = (RemoteState.ENDED, RemoteState.LOST)


async def query_workers(run: Run, fleet: Fleet, *, timeout_s: float | None = None) -> Answers:
    """Return the answers of the workers that are reachable and answer within `timeout_s` seconds."""
    answers: dict[int, Answer | None] = {}

    async def query(index: int) -> None:
        with suppress(TpuTuiError, asyncio.TimeoutError):
            answers[index] = await within(query_status(run, fleet, index), timeout_s)

    await asyncio.gather(*(query(worker.index) for worker in run.workers))
    return answers


def record_worker_answers(directory: RunDirectory, answers: Answers) -> None:
    """Record that the run began, how its parts ended, and that a person stopped it, where the workers report so.

    This needs an answer from every worker about the same attempt, the one known here or a later one. Either every
    worker has begun the attempt, or none may be running it. Other states, such as an interrupted launch or a restart
    in progress, are left to a keeper; nothing is recorded while there is one. A run that was given up as lost
    continues, or has ended, once workers that were unreachable report so.
    """
    status = status_of(directory)
    if status.attended.alive or (status.state.is_over and not status.was_given_up):
        return
    report = _report_in(answers, directory.run, status)
    if report is None:
        return
    with suppress(OSError):  # the workers are queried again later
        lock = DirectoryLock.take(directory)
        if lock is None:
            return
        with closing(lock):
            if status.state.is_over:
                directory.append_event("state", state=str(RunState.RUNNING), cause=None, revived=True)
                status = status_of(directory)
            _note(directory, status, report)


class _Report(NamedTuple):
    """What all workers report about one attempt."""

    attempt: int
    answers: Answers
    states: Mapping[int, RemoteState]


def _report_in(answers: Answers, run: Run, status: RunStatus) -> _Report | None:
    """Return what the workers report, None while it is incomplete, contradictory or to be decided by a keeper."""
    workers = [part.worker for part in status.workers]
    if not set(workers) <= set(answers):
        return None
    answers = {index: answers[index] for index in workers}
    attempts = {parse_attempt(answer, run) for answer in answers.values() if answer} or {status.attempt}
    attempt = max(attempts)
    if len(attempts) > 1 or attempt < status.attempt:
        return None
    states = {index: parse_state(answer) if answer else RemoteState.NOTHING for index, answer in answers.items()}
    found = set(states.values())
    if status.state.is_over and RemoteState.NOTHING in found:
        return None  # it was given up as lost, and nothing shows that it ran on this worker
    has_begun = found.isdisjoint(_NOT_BEGUN)
    # A restart that has left nothing on any worker may still be launched, by a keeper that takes over.
    was_launched = not attempt or not found.isdisjoint(_HAS_RUN)
    is_over = was_launched and not any(state.may_run for state in found)
    return _Report(attempt, answers, states) if has_begun or is_over else None


def _note(directory: RunDirectory, status: RunStatus, report: _Report) -> None:
    attempt, answers, states = report
    later = attempt > status.attempt
    if not status.is_worker_report and status.state is RunState.PREPARING:
        _note_beginning(directory, later, states)
    stopped = any(answer and answer.has("stopped") for answer in answers.values())
    if stopped and not status.stop_requested and RemoteState.RUNNING not in states.values():
        directory.append_event(STOP_REQUESTED, by=BY_REMOTE_USER, grace=directory.run.job.grace)
    ended = [index for index, state in states.items() if state is not RemoteState.RUNNING]
    if later or not {part.worker for part in status.workers if part.ended} >= set(ended):
        known = {index: None if states[index] is RemoteState.NOTHING else answers[index] for index in ended}
        unknown = WorkerOutcome(None, recorded=False, absent=True)
        outcomes = {index: parse_outcome(answer) if answer else unknown for index, answer in known.items()}
        rows = [{"worker": index, **exit_fields(outcome)} for index, outcome in outcomes.items()]
        before = {EARLIER_ATTEMPTS: attempt} if attempt > status.mirrored else {}
        directory.append_event(WORKER_REPORT, attempt=attempt, ended=rows, **before)


def _note_beginning(directory: RunDirectory, later: bool, states: Mapping[int, RemoteState]) -> None:
    """Note that the attempt known here has begun, which is certain if it was followed by a later one."""
    if later or any(state in _HAS_RUN or state.may_run for state in states.values()):
        started = [index for index, state in states.items() if state is not RemoteState.NOTHING]
        directory.append_phases(sorted(started), phase="confirm", status="done", detail="found")
        directory.append_event("state", state=str(RunState.RUNNING), cause=None, since=directory.run.created or None)
