"""What the workers say of a run that nobody keeps here, put on record: its state is theirs, not its last keeper's."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING

from tui.errors import TpuTuiError
from tui.pod.run import Run, RunState
from tui.runs.claim import Claim
from tui.runs.directory import RunDirectory
from tui.runs.remote import Answer, Outcome, outcome_of
from tui.runs.status import RunStatus, status_of
from tui.runs.survey import Found, ask_status, found_in

if TYPE_CHECKING:
    from tui.ssh.fleet import Fleet

Answers = Mapping[int, "Answer | None"]
"""What each worker that was asked says of a run; None where it knows no such run."""
_NOT_BEGUN = (Found.NOTHING, Found.UNDECIDED, Found.ABORTED)
_ALIVE = (Found.RUNNING, Found.UNDECIDED)
_HAD_ITS_TIME = (Found.ENDED, Found.LOST)


async def answers_about(run: Run, fleet: Fleet) -> Answers:
    """What each worker that can be reached says of the run."""
    indices = [worker.index for worker in run.workers]
    heard = await asyncio.gather(*(ask_status(run, fleet, index) for index in indices), return_exceptions=True)
    for one in heard:
        if isinstance(one, BaseException) and not isinstance(one, TpuTuiError):
            raise one
    told = zip(indices, heard, strict=True)
    return {index: one for index, one in told if not isinstance(one, BaseException)}


def note_told(directory: RunDirectory, answers: Answers) -> None:
    """Put on record that the run began, which of its parts ended and how, and that a person stopped it.

    Only where every worker speaks of the attempt that is known here, and has begun it or nothing of it is left alive:
    what else there may be (a launch cut off, a restart elsewhere) is a keeper's to sort out. Nothing is noted while
    one lives. The ends carry no size: the mirror need not be whole, and a keeper that comes later follows every log
    to its end.
    """
    status = status_of(directory)
    workers = [part.worker for part in status.workers]
    if status.attended.alive or status.state.is_over or not set(workers) <= set(answers):
        return
    answers = {index: answers[index] for index in workers}
    if any(answer and (answer.number("attempt") or 0) != status.attempt for answer in answers.values()):
        return
    found = {index: found_in(answer) if answer else Found.NOTHING for index, answer in answers.items()}
    begun = not any(one in _NOT_BEGUN for one in found.values())
    # A further attempt of which nothing is there yet may still be made, by a keeper that takes over.
    was_there = not status.attempt or any(one in _HAD_ITS_TIME for one in found.values())
    over = was_there and not any(one in _ALIVE for one in found.values())
    if not (begun or over):
        return
    claim = Claim.take(directory)
    if claim is None:
        return
    try:
        _note(directory, status, answers, found)
    finally:
        claim.release(beat=False)


def _note(directory: RunDirectory, status: RunStatus, answers: Answers, found: Mapping[int, Found]) -> None:
    if status.state is RunState.PREPARING and any(one in (*_HAD_ITS_TIME, *_ALIVE) for one in found.values()):
        for index in sorted(index for index, one in found.items() if one is not Found.NOTHING):
            directory.append_event("phase", worker=index, phase="confirm", status="done", detail="found")
        directory.append_event("state", state=str(RunState.RUNNING), cause=None, since=directory.run.created or None)
    stopped = any(answer and answer.fields.get("stopped") == "1" for answer in answers.values())
    if stopped and not status.stop_requested and Found.RUNNING not in found.values():
        directory.append_event("stop_requested", by="user on another machine", grace=directory.run.grace)
    for part in status.workers:
        if found[part.worker] is not Found.RUNNING and not part.ended:
            answer = None if found[part.worker] is Found.NOTHING else answers[part.worker]
            _note_end(directory, part.worker, answer)


def _note_end(directory: RunDirectory, worker: int, answer: Answer | None) -> None:
    outcome = outcome_of(answer) if answer else Outcome(None, recorded=False, absent=True)
    directory.append_event(
        "exit",
        worker=worker,
        exit_code=outcome.exit_code,
        signal=outcome.signal,
        size=None,
        cause=outcome.cause,
        ended=outcome.time,
        recorded=outcome.recorded,
        told=True,
    )
