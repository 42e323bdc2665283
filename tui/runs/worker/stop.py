"""The confirmed stop: a separate command on every worker, and an answer from each by name."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, AsyncIterator
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

from tui.aio.fan_out import as_completed, for_each_worker
from tui.errors import TpuTuiError
from tui.pod.run import Run, RunState
from tui.runs.follow.sync_from_workers import record_worker_answers
from tui.runs.record.log_mirror import record
from tui.runs.record.run_directory import RunDirectory
from tui.runs.record.run_status import STOP_REQUESTED, RunStatus, status_of
from tui.runs.record.worker_status import WorkerStatus
from tui.runs.worker.calls import build_call, parse_outcome
from tui.runs.worker.queries import RemoteState, parse_attempt, parse_state, query_status
from tui.ssh.config.access import Access, Prompter
from tui.ssh.exec.script_protocol import Answer, no_answer_error, parse_answers
from tui.ssh.fleet import Fleet

STOP_TIMEOUT_S = 90.0
"""Seconds beyond the grace for a worker to kill, verify, wait for the log's last bytes and answer."""
_TENTHS = 10
_STARTED_PHASES = ("start", "confirm")
_ALREADY = "already finished"
_NEVER = "nothing to stop: never started"
_NEVER_AGAIN = "nothing to stop: its next attempt never started"
_REMOVED = "its directory was removed there"


@dataclass(frozen=True)
class StopAnswer:
    """One worker's answer. `confirmed`: no process of the run is left on the worker, and its record is written.

    `exit_code` is None where nothing was started or no exit code was recorded; `detail` describes any irregularity.
    """

    worker: int
    confirmed: bool
    exit_code: int | None = None
    detail: str = ""


async def stop_run(
    directory: RunDirectory,
    access: Access,
    *,
    grace: float,
    prompter: Prompter | None = None,
) -> AsyncIterator[StopAnswer]:
    """Stop the run on every worker at once; yield each worker's answer as it comes.

    The worker sends TERM, waits `grace` seconds, sends KILL and verifies that nothing is left. A stop works with and
    without a keeper and can be repeated; for a run that is over, the answers come from its record. A worker that
    cannot be reached is not confirmed. A run that was given up as lost is over once every worker has answered. A run
    without a keeper that ended by itself keeps its state.
    """
    before = status_of(directory)
    may_have_ended = before.state is RunState.LOST or not (before.state.is_over or before.attended.alive)
    is_stopping = not before.state.is_over
    if is_stopping and not may_have_ended:
        _note(directory, STOP_REQUESTED, by="user", grace=grace)
    recorded = _from_record(before)
    for answer in recorded.values():
        yield answer
    confirmed = len(recorded)
    if remaining := [worker.index for worker in directory.run.workers if worker.index not in recorded]:
        async with Fleet(directory.run.workers, access, prompter=prompter) as fleet:
            if may_have_ended:
                is_stopping = await _request_unless_ended(directory, before, fleet, remaining, grace=grace)
            has_ended = may_have_ended and not is_stopping
            answers = _stop_each(directory, fleet, remaining, grace=grace, for_good=not has_ended)
            async with contextlib.aclosing(answers):
                async for answer in answers:
                    confirmed += answer.confirmed
                    yield replace(answer, detail=answer.detail or _ALREADY) if has_ended else answer
    if is_stopping and confirmed == len(directory.run.workers):
        _note_end(directory)


def _stop_each(
    directory: RunDirectory, fleet: Fleet, indices: list[int], *, grace: float, for_good: bool
) -> AsyncGenerator[StopAnswer, None]:
    """Stop the run on these workers at once; record and yield each answer as it comes."""
    parts = parts_of(directory)

    async def stop(index: int) -> StopAnswer:
        answer = await stop_worker(directory.run, fleet, index, grace=grace, for_good=for_good, part=parts.get(index))
        _note(directory, "stop", **asdict(answer))
        return answer

    return as_completed(map(stop, indices))


def _note_end(directory: RunDirectory) -> None:
    """Record that a run is stopped, unless its keeper will; the keeper of a lost run has given it up and will not."""
    status = status_of(directory)
    lost = status.state is RunState.LOST
    if lost or not (status.state.is_over or status.attended.alive):
        _note(directory, "state", state=str(RunState.STOPPED), cause=None, revived=lost)


async def _request_unless_ended(
    directory: RunDirectory, before: RunStatus, fleet: Fleet, indices: list[int], *, grace: float
) -> bool:
    """Record the request to stop a run without a keeper, unless the run ended by itself; return whether it did so.

    The request is also recorded if the query of the workers is cancelled.
    """
    has_ended = False
    try:
        has_ended = await _had_ended(before, directory, fleet, indices)
    finally:
        if not has_ended:
            _note(directory, STOP_REQUESTED, by="user", grace=grace)
    return not has_ended


async def _had_ended(before: RunStatus, directory: RunDirectory, fleet: Fleet, indices: list[int]) -> bool:
    """Return whether a run without a keeper ended by itself and will not be launched again.

    Unless the run was given up as lost, the workers' answers are then recorded.
    """
    if before.is_stopped_by_person:
        return False
    answers: dict[int, Answer | None] = {}
    async with contextlib.aclosing(for_each_worker(indices, partial(query_status, before.run, fleet))) as replies:
        async for index, answer in replies:
            if answer is None or isinstance(answer, TpuTuiError):
                return False
            if parse_state(answer) is not RemoteState.ENDED or _will_restart(answer, before.run):
                return False
            answers[index] = answer
    if before.state is not RunState.LOST:
        record_worker_answers(directory, answers)
    return True


def _will_restart(answer: Answer, run: Run) -> bool:
    return answer.number("exit") != 0 and parse_attempt(answer, run) < run.job.restarts


def _note(directory: RunDirectory, kind: str, *, worker: int | None = None, **fields: Any) -> None:
    """Append an event if possible: a full disk here must not prevent a stop."""
    try:
        directory.append_event(kind, worker=worker, **fields)
    except OSError:
        directory.release_space()
        with contextlib.suppress(OSError):
            directory.append_event(kind, worker=worker, **fields)


def parts_of(directory: RunDirectory) -> dict[int, WorkerStatus]:
    """Return the recorded status of each worker's part."""
    return {part.worker: part for part in status_of(directory).workers}


async def stop_worker(
    run: Run,
    fleet: Fleet,
    index: int,
    *,
    grace: float,
    for_good: bool = False,
    part: WorkerStatus | None = None,
) -> StopAnswer:
    """Stop the run on one worker; a problem with the worker is described in the answer, not raised.

    `for_good`: no further attempt may begin there, whichever keeper would launch it. `part` is the worker's recorded
    status: its tag finds the job if its directory is gone, and it shows whether the job has begun.
    """
    tag = int(part.tag) if part is not None and part.tag else 0
    numbers = (max(0, round(grace * _TENTHS)), int(for_good), tag)
    call = build_call("stop", run.id, index, *numbers, run_root=run.run_root)
    try:
        result = await fleet.run(index, call.command, input=call.input, timeout=grace + STOP_TIMEOUT_S)
    except TpuTuiError as error:
        return StopAnswer(index, confirmed=False, detail=f"not reached: {error.explanation}")
    for answer in parse_answers(call.nonce, result.stdout):
        if answer.word in ("stopped", "unconfirmed"):
            return _answer_of(index, answer, part)
    if result.timed_out:
        return StopAnswer(index, confirmed=False, detail=f"no answer within {grace + STOP_TIMEOUT_S:.0f} s")
    problem = no_answer_error(index, "no answer to the stop", result.stderr, result.exit_code, result.stdout)
    return StopAnswer(index, confirmed=False, detail=problem.explanation)


async def record_answer(directory: RunDirectory, answer: StopAnswer) -> None:
    """Record a worker's answer in the run's events."""
    await record(directory, "stop", **asdict(answer))


def _answer_of(index: int, answer: Answer, part: WorkerStatus | None) -> StopAnswer:
    if answer.word == "unconfirmed":
        return StopAnswer(index, confirmed=False, detail=answer.text)
    if answer.has("never"):
        return _answer_without_run(index, answer, part)
    outcome = parse_outcome(answer)
    removed = answer.has("removed")
    notes = [f"{_REMOVED}, and with it how it ended" if removed else outcome.cause or ""]
    if answer.has("rebooted"):
        notes.append("the machine was rebooted since")
    if answer.fields.get("device") == "unknown":
        notes.append("whether the device is free is unknown: other users' processes cannot be seen")
    return StopAnswer(
        index, confirmed=True, exit_code=outcome.exit_code, detail="; ".join(note for note in notes if note)
    )


def _answer_without_run(index: int, answer: Answer, part: WorkerStatus | None) -> StopAnswer:
    """Return the answer of a worker that has nothing of the run; unconfirmed if the job may have begun there."""
    if not answer.has("gone") or part is None or not part.has_begun:
        return StopAnswer(index, confirmed=True, detail=_NEVER_AGAIN if answer.has("before") else _NEVER)
    if part.tag:
        return StopAnswer(index, confirmed=True, detail=f"{_REMOVED}; no process with the run's mark is left")
    return StopAnswer(index, confirmed=False, detail=f"{_REMOVED}: whether its processes live on cannot be found out")


def _from_record(status: RunStatus) -> dict[int, StopAnswer]:
    """Return the answers that need no query: in a run that is over, of parts that ended on record or never began."""
    answers = map(_recorded, status.workers) if status.state.is_over else ()
    return {answer.worker: answer for answer in answers if answer is not None}


def _recorded(worker: WorkerStatus) -> StopAnswer | None:
    if worker.confirmed or (worker.ended and worker.exit_code is not None):
        return StopAnswer(worker.worker, confirmed=True, exit_code=worker.exit_code, detail=_ALREADY)
    if worker.phase is not None and worker.phase not in _STARTED_PHASES and not worker.ended:
        return StopAnswer(worker.worker, confirmed=True, detail=_NEVER)
    return None
