"""Queries of workers about runs, for a keeper that takes over and for another machine."""

from __future__ import annotations

import asyncio
import enum

from tui.aio.backoff import backoff
from tui.errors import TpuTuiError, WorkerError
from tui.pod.run import Run, is_run_id, make_run_id
from tui.runs.record.run_index import stamp_of
from tui.runs.worker.calls import build_call
from tui.ssh.exec.script_protocol import Answer, no_answer_error, parse_answers
from tui.ssh.fleet import Fleet
from tui.text.bounded_json import parse_json
from tui.text.numbers import parse_integer

QUERY_TIMEOUT_S = 60.0
MOST_RUNS = 10_000
"""Limit on the runs in one worker's listing."""
_ID_SHOWN = 200


class RemoteState(str, enum.Enum):
    """The state of a run on a worker."""

    NOTHING = "nothing"
    UNDECIDED = "undecided"
    """Prepared or started, but not confirmed yet: decided within the lease."""
    RUNNING = "running"
    ABORTED = "aborted"
    ENDED = "ended"
    LOST = "lost"

    @property
    def may_run(self) -> bool:
        """Return whether a process of the run may be alive on the worker."""
        return self in (RemoteState.RUNNING, RemoteState.UNDECIDED)


_STATES = {
    "never": RemoteState.NOTHING,
    "armed": RemoteState.UNDECIDED,
    "started": RemoteState.UNDECIDED,
    "running": RemoteState.RUNNING,
    "aborted": RemoteState.ABORTED,
    "lost": RemoteState.LOST,
}


async def query_states(run: Run, fleet: Fleet, attempt: int) -> dict[int, RemoteState]:
    """Query every worker for its state of an attempt until that is decided; unreachable workers are retried forever.

    A worker that has only an earlier attempt has nothing.
    """
    indices = [worker.index for worker in run.workers]
    states = await asyncio.gather(*(_await_decision(run, fleet, index, attempt) for index in indices))
    if any(state is not RemoteState.NOTHING for state in states):
        # A worker may have been queried before the launch reached it, and the others after it was confirmed.
        states = await asyncio.gather(*(_await_decision(run, fleet, index, attempt) for index in indices))
    return dict(zip(indices, states, strict=True))


async def _await_decision(run: Run, fleet: Fleet, index: int, attempt: int) -> RemoteState:
    waits = backoff()
    while True:
        try:
            answer = await query_status(run, fleet, index)
            if answer is None or parse_attempt(answer, run) < attempt:
                return RemoteState.NOTHING
            if (state := parse_state(answer)) is not RemoteState.UNDECIDED:
                return state
        except TpuTuiError:
            pass
        await asyncio.sleep(next(waits))


async def query_status(run: Run, fleet: Fleet, index: int) -> Answer | None:
    """Return one worker's answer about the run, None where it does not know the run. Raises WorkerError."""
    call = build_call("status", run.id, index, run_root=run.run_root)
    result = await fleet.run(index, call.command, input=call.input, timeout=QUERY_TIMEOUT_S)
    for answer in parse_answers(call.nonce, result.stdout):
        if answer.word in ("norun", "status"):
            return answer if answer.word == "status" else None
    raise no_answer_error(index, "no answer about the run", result.stderr, result.exit_code)


def parse_state(answer: Answer) -> RemoteState:
    """Parse the state of a run from a worker's answer (`status`, `run`)."""
    name = answer.word_at(2)
    if name == "ended":
        unconfirmed = answer.has("aborted") or not answer.has("confirmed")
        return RemoteState.ABORTED if unconfirmed else RemoteState.ENDED
    return _STATES.get(name, RemoteState.LOST)


async def list_run_answers(fleet: Fleet, index: int, run_root: str) -> dict[str, Answer]:
    """Return one worker's answer about each run that it knows, by id. Raises WorkerError."""
    call = build_call("list", make_run_id("list"), index, run_root=run_root)
    result = await fleet.run(index, call.command, input=call.input, timeout=QUERY_TIMEOUT_S)
    answers = parse_listing(call.nonce, index, result.stdout)
    if answers is None:
        raise no_answer_error(index, "cannot list the runs there", result.stderr, result.exit_code)
    return answers


def parse_listing(nonce: str, index: int, output: bytes) -> dict[str, Answer] | None:
    """Parse a worker's listing of its newest runs, by id; return None if it is incomplete."""
    replies = parse_answers(nonce, output)
    if not any(answer.word == "listed" for answer in replies):
        return None
    rows = [answer for answer in replies if answer.word == "run" and answer.number_at(1) == index]
    by_id = {answer.word_at(0): answer for answer in rows if is_run_id(answer.word_at(0))}
    newest = sorted(by_id, key=stamp_of, reverse=True)[:MOST_RUNS]
    return {run_id: by_id[run_id] for run_id in newest}


async def read_record(fleet: Fleet, index: int, run_id: str, run_root: str) -> Run:
    """Read the run.json of a run from a worker. Raises WorkerError when it has none."""
    call = build_call("show", run_id, index, run_root=run_root)
    result = await fleet.run(index, call.command, input=call.input, timeout=QUERY_TIMEOUT_S)
    try:
        return parse_record(call.nonce, run_id, result.stdout)
    except ValueError as error:
        raise WorkerError(f"cannot read the record of {run_id}", worker=index, why=str(error)) from error


def parse_record(nonce: str, run_id: str, output: bytes) -> Run:
    """Parse the run with an id from an output of the worker script. Raises ValueError where there is none."""
    _, marker, rest = output.partition(f"@{nonce} json ".encode())
    if not marker:
        raise ValueError("it knows no such run")
    digits, _, body = rest.partition(b"\n")
    size = parse_integer(digits.strip())
    if size is None:
        raise ValueError("it does not state how long the record is")
    run = Run.from_json(parse_json(body[:size]))
    if run.id != run_id:
        raise ValueError(f"it is the record of {run.id[:_ID_SHOWN]!r}")
    return run


def parse_attempt(answer: Answer, run: Run) -> int:
    """Parse the number of a worker's attempt, from 0; a number that the run cannot have counts as 0."""
    return answer.number("attempt", run.job.restarts) or 0
