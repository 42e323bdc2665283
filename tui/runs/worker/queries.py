"""What became of a run on each worker, asked there: for a keeper that takes over, and for another machine."""

from __future__ import annotations

import asyncio
import enum
from typing import TYPE_CHECKING

from tui.aio.backoff import backoff
from tui.errors import TpuTuiError, WorkerError
from tui.pod.run import Run, is_run_id, make_run_id
from tui.runs.worker.calls import build_call
from tui.ssh.exec.script_protocol import Answer, no_answer_error, parse_answers
from tui.text.bounded_json import parse_json
from tui.text.numbers import parse_integer

if TYPE_CHECKING:
    from tui.ssh.fleet import Fleet

QUERY_TIMEOUT_S = 60.0
MOST_RUNS = 10_000
"""Runs that are taken from one worker's listing."""
_ID_SHOWN = 200


class RemoteState(str, enum.Enum):
    """What a worker has of a run."""

    NOTHING = "nothing"
    UNDECIDED = "undecided"
    """Prepared or started, and not confirmed yet: decides itself within its lease."""
    RUNNING = "running"
    ABORTED = "aborted"
    ENDED = "ended"
    LOST = "lost"


_CONDITIONS = {
    "never": RemoteState.NOTHING,
    "armed": RemoteState.UNDECIDED,
    "started": RemoteState.UNDECIDED,
    "running": RemoteState.RUNNING,
    "aborted": RemoteState.ABORTED,
    "lost": RemoteState.LOST,
}


async def query_states(run: Run, fleet: Fleet, attempt: int = 0) -> dict[int, RemoteState]:
    """Ask every worker until it has answered and is decided; workers out of reach are asked again and again.

    What a worker has of an earlier attempt only is nothing.
    """
    indices = [worker.index for worker in run.workers]
    found = await asyncio.gather(*(_decided(run, fleet, index, attempt) for index in indices))
    if any(what is not RemoteState.NOTHING for what in found):
        # One that had nothing may have been asked before a launch got there that another worker then confirmed.
        found = await asyncio.gather(*(_decided(run, fleet, index, attempt) for index in indices))
    return dict(zip(indices, found, strict=True))


async def _decided(run: Run, fleet: Fleet, index: int, attempt: int) -> RemoteState:
    waits = backoff()
    while True:
        try:
            found = await remote_state(run, fleet, index, attempt)
            if found is not RemoteState.UNDECIDED:
                return found
        except TpuTuiError:
            pass
        await asyncio.sleep(next(waits))


async def remote_state(run: Run, fleet: Fleet, index: int, attempt: int = 0) -> RemoteState:
    """What one worker has of the run's attempt now. Raises WorkerError when it does not answer."""
    answer = await query_status(run, fleet, index)
    if answer is None or parse_attempt(answer, run) < attempt:
        return RemoteState.NOTHING
    return parse_state(answer)


async def query_status(run: Run, fleet: Fleet, index: int) -> Answer | None:
    """One worker's answer about the run, None where it knows no such run. Raises WorkerError."""
    made = build_call("status", run.id, index, run_root=run.run_root)
    done = await fleet.run(index, made.command, input=made.input, timeout=QUERY_TIMEOUT_S)
    for answer in parse_answers(made.nonce, done.stdout):
        if answer.word in ("norun", "status"):
            return answer if answer.word == "status" else None
    raise no_answer_error(index, "no answer about the run", done.stderr, done.exit_code)


def parse_state(answer: Answer) -> RemoteState:
    """What a worker's answer about a run (`status`, `run`) says that it has of it."""
    word = answer.word_at(2)
    if word == "ended":
        unconfirmed = answer.fields.get("aborted") == "1" or answer.fields.get("confirmed") != "1"
        return RemoteState.ABORTED if unconfirmed else RemoteState.ENDED
    return _CONDITIONS.get(word, RemoteState.LOST)


async def list_runs(fleet: Fleet, index: int, run_root: str) -> dict[str, RemoteState]:
    """The runs that one worker knows of, by id. Raises WorkerError."""
    return {run: parse_state(answer) for run, answer in (await list_run_answers(fleet, index, run_root)).items()}


async def list_run_answers(fleet: Fleet, index: int, run_root: str) -> dict[str, Answer]:
    """What one worker says of each run that it knows; how another machine finds them. Raises WorkerError."""
    made = build_call("list", make_run_id("list"), index, run_root=run_root)
    done = await fleet.run(index, made.command, input=made.input, timeout=QUERY_TIMEOUT_S)
    listed = parse_listing(made.nonce, index, done.stdout)
    if listed is None:
        raise no_answer_error(index, "cannot list the runs there", done.stderr, done.exit_code)
    return listed


def parse_listing(nonce: str, index: int, output: bytes) -> dict[str, Answer] | None:
    """Return what a worker answers of each of its newest runs, by id; None for an output that is no whole listing."""
    heard = parse_answers(nonce, output)
    if not any(answer.word == "listed" for answer in heard):
        return None
    rows = [answer for answer in heard if answer.word == "run" and answer.number_at(1) == index]
    found = {answer.word_at(0): answer for answer in rows if is_run_id(answer.word_at(0))}
    newest = sorted(found, key=lambda run_id: run_id[-20:], reverse=True)[:MOST_RUNS]
    return {run_id: found[run_id] for run_id in newest}


async def read_record(fleet: Fleet, index: int, run_id: str, run_root: str) -> Run:
    """The run.json that a worker holds of a run. Raises WorkerError when it holds none."""
    made = build_call("show", run_id, index, run_root=run_root)
    done = await fleet.run(index, made.command, input=made.input, timeout=QUERY_TIMEOUT_S)
    try:
        return parse_record(made.nonce, run_id, done.stdout)
    except ValueError as error:
        raise WorkerError(f"cannot read the record of {run_id}", worker=index, why=str(error)) from error


def parse_record(nonce: str, run_id: str, output: bytes) -> Run:
    """Return the run of that id from an output of the worker script. Raises ValueError where it holds none."""
    _, found, rest = output.partition(f"@{nonce} json ".encode())
    if not found:
        raise ValueError("it knows no such run")
    digits, _, body = rest.partition(b"\n")
    size = parse_integer(digits.strip())
    if size is None:
        raise ValueError("it does not state how long the record is")
    run = Run.from_json(parse_json(body[:size]))
    if run.id != run_id:
        raise ValueError(f"it is that of {run.id[:_ID_SHOWN]!r}")
    return run


def parse_attempt(answer: Answer, run: Run) -> int:
    """Return which attempt a worker is at, from 0; one that the run cannot have is none."""
    return answer.number("attempt", run.job.restarts) or 0
