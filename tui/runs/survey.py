"""What became of a run on each worker, asked there: for a keeper that takes over, and for another machine."""

from __future__ import annotations

import asyncio
import enum
import json
from typing import TYPE_CHECKING

from tui.errors import TpuTuiError, WorkerError
from tui.pod.run import Run, make_run_id
from tui.runs.remote import call
from tui.ssh.answers import Answer, answers, no_answer
from tui.ssh.retry import backoff

if TYPE_CHECKING:
    from tui.ssh.fleet import Fleet

ASK_TIMEOUT = 60.0


class Found(str, enum.Enum):
    """What a worker has of a run."""

    NOTHING = "nothing"
    UNDECIDED = "undecided"
    """Prepared or started, and not confirmed yet: decides itself within its lease."""
    RUNNING = "running"
    ABORTED = "aborted"
    ENDED = "ended"
    LOST = "lost"


_CONDITIONS = {
    "never": Found.NOTHING,
    "armed": Found.UNDECIDED,
    "started": Found.UNDECIDED,
    "running": Found.RUNNING,
    "aborted": Found.ABORTED,
    "lost": Found.LOST,
}


async def survey(run: Run, fleet: Fleet, attempt: int = 0) -> dict[int, Found]:
    """Ask every worker until it has answered and is decided; workers out of reach are asked again and again.

    What a worker has of an earlier attempt only is nothing.
    """
    indices = [worker.index for worker in run.workers]
    found = await asyncio.gather(*(_decided(run, fleet, index, attempt) for index in indices))
    if any(what is not Found.NOTHING for what in found):
        # One that had nothing may have been asked before a launch got there that another worker then confirmed.
        found = await asyncio.gather(*(_decided(run, fleet, index, attempt) for index in indices))
    return dict(zip(indices, found, strict=True))


async def _decided(run: Run, fleet: Fleet, index: int, attempt: int) -> Found:
    waits = backoff()
    while True:
        try:
            found = await condition(run, fleet, index, attempt)
            if found is not Found.UNDECIDED:
                return found
        except TpuTuiError:
            pass
        await asyncio.sleep(next(waits))


async def condition(run: Run, fleet: Fleet, index: int, attempt: int = 0) -> Found:
    """What one worker has of the run's attempt now. Raises WorkerError when it does not answer."""
    answer = await ask_status(run, fleet, index)
    if answer is None or (answer.number("attempt") or 0) < attempt:
        return Found.NOTHING
    return found_in(answer)


async def ask_status(run: Run, fleet: Fleet, index: int) -> Answer | None:
    """One worker's answer about the run, None where it knows no such run. Raises WorkerError."""
    made = call("status", run.id, index, run_root=run.run_root)
    done = await fleet.run(index, made.command, input=made.input, timeout=ASK_TIMEOUT)
    for answer in answers(made.nonce, done.stdout):
        if answer.word in ("norun", "status"):
            return answer if answer.word == "status" else None
    raise no_answer(index, "no answer about the run", done.stderr, done.exit_code)


def found_in(answer: Answer) -> Found:
    """What a worker's answer about a run (`status`, `run`) says that it has of it."""
    word = answer.text.split(" ")[2] if answer.text.count(" ") >= 2 else ""
    if word == "ended":
        unconfirmed = answer.fields.get("aborted") == "1" or answer.fields.get("confirmed") != "1"
        return Found.ABORTED if unconfirmed else Found.ENDED
    return _CONDITIONS.get(word, Found.LOST)


async def runs_on(fleet: Fleet, index: int, run_root: str) -> dict[str, Found]:
    """The runs that one worker knows of, by id. Raises WorkerError."""
    return {run: found_in(answer) for run, answer in (await answers_on(fleet, index, run_root)).items()}


async def answers_on(fleet: Fleet, index: int, run_root: str) -> dict[str, Answer]:
    """What one worker says of each run that it knows; how another machine finds them. Raises WorkerError."""
    made = call("list", make_run_id("list"), index, run_root=run_root)
    done = await fleet.run(index, made.command, input=made.input, timeout=ASK_TIMEOUT)
    heard = answers(made.nonce, done.stdout)
    if not any(answer.word == "listed" for answer in heard):
        raise no_answer(index, "cannot list the runs there", done.stderr, done.exit_code)
    rows = [answer for answer in heard if answer.word == "run" and answer.text.split(" ")[1] == str(index)]
    return {answer.text.split(" ")[0]: answer for answer in rows}


async def read_record(fleet: Fleet, index: int, run_id: str, run_root: str) -> Run:
    """The run.json that a worker holds of a run. Raises WorkerError when it holds none."""
    made = call("show", run_id, index, run_root=run_root)
    done = await fleet.run(index, made.command, input=made.input, timeout=ASK_TIMEOUT)
    mark = f"@{made.nonce} json ".encode()
    _, found, rest = done.stdout.partition(mark)
    size, _, body = rest.partition(b"\n")
    try:
        run = Run.from_json(json.loads(body[: int(size)]))
    except ValueError as error:
        why = str(error) if found else "it knows no such run"
        raise WorkerError(f"cannot read the record of {run_id}", worker=index, why=why) from error
    if run.id != run_id:
        raise WorkerError(f"cannot read the record of {run_id}", worker=index, why=f"it is that of {run.id!r}")
    return run
