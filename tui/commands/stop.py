"""`stop`: stop a run on every worker and print each one's answer."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from tui.commands.parser.argument_types import RUN, seconds
from tui.commands.parser.commands import Commands
from tui.commands.terminal.output import ANSWER_IS_NO, Output
from tui.commands.terminal.waiting_notice import notice_of_missing_workers
from tui.text.ranks import name_ranks

if TYPE_CHECKING:
    from tui.operator import Operator, RunDirectory, StopAnswer


def add_command(commands: Commands) -> None:
    """Add the command's parser."""
    stop = commands.add("stop", help="stop a run on every worker and confirm each one")
    stop.add_argument("ref", metavar="RUN", help=RUN)
    stop.add_argument(
        "--grace", type=seconds, default=30.0, metavar="S", help="seconds between SIGTERM and SIGKILL (default: 30)"
    )
    stop.set_defaults(run=stop_run, changes=True)


async def stop_run(args: argparse.Namespace, operator: Operator, out: Output) -> int:
    """Stop a run; return 1 if any worker has not confirmed that nothing of it is left."""
    directory = await operator.runs.find(args.ref)
    answers: dict[int, StopAnswer] = {}

    def missing() -> list[int]:
        return [worker.index for worker in directory.run.workers if worker.index not in answers]

    try:
        async with notice_of_missing_workers(missing, out):
            async for answer in operator.runs.stop(directory, args.grace):
                answers[answer.worker] = answer
    except asyncio.CancelledError:
        _print_answers(directory, answers, out)
        if ranks := missing():
            status = operator.runs.status_of(directory)
            continues = status.attended.alive and status.stop_requested is not None
            out.note(interrupted_note(directory.id, ranks, continues=continues))
        raise
    stopped = _print_answers(directory, answers, out)
    if not stopped:
        out.note(f"Not confirmed that {directory.id} has stopped. Try again with tpu-tui stop {directory.id}.")
    return 0 if stopped else ANSWER_IS_NO


def interrupted_note(run: str, ranks: Sequence[int], *, continues: bool) -> str:
    """Say which workers have not answered, and whether the stop continues without the command."""
    text = f"Interrupted: no answer yet from {name_ranks('worker', ranks)}."
    if continues:
        return f"{text} The run's keeper continues the stop; tpu-tui status {run} shows its end."
    return f"{text} Try again with tpu-tui stop {run}."


def _print_answers(directory: RunDirectory, answers: dict[int, StopAnswer], out: Output) -> bool:
    """Print the answers so far, equal ones as one; return whether every worker has confirmed."""
    ordered = [answers[index] for index in sorted(answers)]
    stopped = len(ordered) == len(directory.run.workers) and all(answer.confirmed for answer in ordered)
    if out.as_json:
        out.document({"run": directory.id, "stopped": stopped, "workers": [asdict(answer) for answer in ordered]})
        return stopped
    from tui.operator.output_groups import SharedOutput, format_heading, group_outputs

    for outcome, ranks in group_outputs(
        (answer.worker, SharedOutput(b"", b"", _in_words(answer))) for answer in ordered
    ):
        out.text(format_heading(outcome, ranks))
    return stopped


ALREADY_FINISHED = "already finished"
"""The answer of a worker whose part had ended before the stop."""
NOTHING_TO_STOP = "nothing to stop"
"""Beginning of the answer of a worker on which the run never started."""


def _in_words(answer: StopAnswer) -> str:
    if answer.confirmed and answer.detail.startswith(NOTHING_TO_STOP):
        return answer.detail
    code = "" if answer.exit_code is None else f", exit code {answer.exit_code}"
    if answer.confirmed and answer.detail == ALREADY_FINISHED:
        return f"had already ended{code}"
    result = "stopped" if answer.confirmed else "NOT CONFIRMED"
    return f"{result}{code}" + (f" ({answer.detail})" if answer.detail else "")
