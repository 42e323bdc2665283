"""`exec`: one command on many workers, text while it runs and grouped at its end."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tui.commands.parser.argument_types import some_seconds
from tui.commands.parser.commands import Commands
from tui.commands.terminal.output import ANSWER_IS_NO, Output
from tui.commands.terminal.waiting_notice import notice_of_missing_workers
from tui.errors import OutOfReachError, TpuTuiError, UsageError
from tui.text.ranks import format_ranks, parse_ranks

if TYPE_CHECKING:
    from tui.operator import CommandResult, Operator, RunningCommand

LIVE_AFTER_S = 1.0
"""Seconds after which a person at a terminal is shown what comes, line by line; a quick command is grouped only."""
MOST_NAMED = 8
"""Workers whose lost bytes are text one by one."""
MOST_PENDING = 64 * 1024
"""Bytes of a line that has not ended yet which are held back."""


class LiveOutput:
    """What came from whom: the commands that run, and their lines as they end, each with its worker's number.

    `live` prints every line at once, to stdout; else lines go to stderr, where somebody watches and it takes longer.
    """

    def __init__(self, out: Output, *, live: bool) -> None:
        self.running: dict[int, RunningCommand] = {}
        self._out = out
        self._live = live
        self._watched = live or (sys.stderr.isatty() and not out.as_json)
        self._began = time.monotonic()
        self._waiting = asyncio.current_task()
        self.unread = False
        """Whether whoever read our output went away, as `head` does."""
        self._pending: dict[tuple[int, bool], bytes] = {}

    def __call__(self, running: RunningCommand, on_stderr: bool, data: bytes) -> None:
        """Note what a worker just wrote."""
        self.running[running.worker] = running
        if not self._watched:
            return
        key = (running.worker, on_stderr)
        *lines, rest = (self._pending.get(key, b"") + data).split(b"\n")
        if len(rest) > MOST_PENDING:
            lines, rest = [*lines, rest], b""
        self._pending[key] = rest
        if self._live or time.monotonic() - self._began > LIVE_AFTER_S:
            for line in lines:
                self._print_line(running.worker, on_stderr, line)

    def ended(self, worker: int) -> None:
        """Tell the last line of a worker's, which no newline ended; its output is the answer's from here on."""
        self.running.pop(worker, None)
        for on_stderr in (False, True):
            if (rest := self._pending.pop((worker, on_stderr), b"")) and self._live:
                self._print_line(worker, on_stderr, rest)

    def _print_line(self, worker: int, on_stderr: bool, line: bytes) -> None:
        text = f"{worker}: {line.decode('utf-8', 'replace')}"
        try:
            if self._live and not on_stderr:
                self._out.text(text)
            else:
                self._out.note(text)
        except BrokenPipeError:
            if self._waiting is None or asyncio.current_task() is self._waiting:
                raise
            # Raised here, within a connection, it would be taken for the worker's.
            self.unread = True
            self._waiting.cancel()


def add_command(commands: Commands) -> None:
    """Add the command's parser."""
    execute = commands.add("exec", help="one command on every worker; identical outputs are grouped")
    execute.add_argument("slice", metavar="SLICE -- COMMAND …", help="the slice, and what to run on its workers")
    execute.add_argument("--worker", default="all", metavar="N", help="which workers, e.g. 0-3,7 (default: all)")
    execute.add_argument(
        "--timeout", type=some_seconds, metavar="S", help="seconds that each worker has for the login and the command"
    )
    execute.add_argument("--live", action="store_true", help="each line at once, with its worker; nothing is grouped")
    execute.set_defaults(run=execute_command, takes_job=True, changes=True)


async def execute_command(args: argparse.Namespace, operator: Operator, out: Output) -> int:
    """Run one command on the workers asked for; identical outputs are printed once with their workers."""
    if not args.argv:
        raise UsageError("no command to run", remedy="tpu-tui exec SLICE -- COMMAND …")
    slice_ = await operator.slices.get(args.slice)
    ranks = parse_ranks(args.worker, len(slice_.workers))
    progress = LiveOutput(out, live=args.live and not out.as_json)
    answers: dict[int, CommandResult] = {}
    problems: dict[int, TpuTuiError] = {}
    answering = operator.slices.execute(slice_, args.argv, ranks, args.timeout, progress)

    def missing() -> list[int]:
        return sorted({*ranks} - {*answers, *problems, *progress.running})

    try:
        async with notice_of_missing_workers(missing, out), contextlib.aclosing(answering):
            async for answer in answering:
                if isinstance(answer, TpuTuiError):
                    problems[int(answer.worker or 0)] = answer
                else:
                    answers[answer.worker] = answer
                    progress.ended(answer.worker)
    except asyncio.CancelledError:
        if progress.unread:
            raise BrokenPipeError from None
        cut = {rank: progress.running[rank].partial_result() for rank in progress.running if rank not in answers}
        _print_results(args, out, ranks, answers, problems, cut)
        raise
    _print_results(args, out, ranks, answers, problems, {})
    if problems:
        return OutOfReachError.exit_code
    return 0 if all(answer.ok for answer in answers.values()) else ANSWER_IS_NO


def _print_results(
    args: argparse.Namespace,
    out: Output,
    ranks: Sequence[int],
    answers: dict[int, CommandResult],
    problems: dict[int, TpuTuiError],
    cut: dict[int, CommandResult],
) -> None:
    """Print what there is; `cut` are commands that still ran when somebody interrupted."""
    if out.as_json:
        out.rows(_row(rank, answers.get(rank) or cut.get(rank), problems.get(rank)) for rank in ranks)
    else:
        _print_grouped(answers, cut, out, endings_only=args.live)
    out.problems([problems[rank] for rank in sorted(problems)])
    unanswered = [rank for rank in ranks if rank not in answers and rank not in problems]
    if unanswered:
        plural = "workers" if len(unanswered) > 1 else "worker"
        out.note(f"Interrupted: no answer yet of {plural} {format_ranks(unanswered)}.")


def _row(rank: int, answer: CommandResult | None, problem: TpuTuiError | None) -> dict[str, Any]:
    return {
        "worker": rank,
        "exit_code": answer.exit_code if answer else None,
        "stdout": answer.stdout.decode("utf-8", "replace") if answer else None,
        "stderr": answer.stderr.decode("utf-8", "replace") if answer else None,
        "timed_out": answer.timed_out if answer else False,
        "signal": answer.signal if answer else None,
        "omitted": answer.omitted if answer else 0,
        "error": problem.sentence if problem else None,
    }


def _print_grouped(
    answers: dict[int, CommandResult], cut: dict[int, CommandResult], out: Output, *, endings_only: bool
) -> None:
    """Print what clush -b would: one block for each different outcome, its workers as a range.

    Where they are one, its heading goes to stderr: stdout then holds what every worker said, and nothing else.
    """
    from tui.operator.output_groups import SharedOutput, describe_ending, format_heading, group_outputs

    ended = [
        *((*one, describe_ending(one[1])) for one in answers.items()),
        *((*one, "interrupted") for one in cut.items()),
    ]
    groups = group_outputs(
        (rank, SharedOutput(b"", b"", how) if endings_only else SharedOutput(answer.stdout, answer.stderr, how))
        for rank, answer, how in ended
    )
    for outcome, ranks in groups:
        text = f"── {format_heading(outcome, ranks)}"
        out.text(text) if len(groups) > 1 else out.note(text)
        if outcome.stdout:
            out.remote_text(outcome.stdout)
        if outcome.stderr:
            out.remote_text(outcome.stderr, on_stderr=True)
    left_out = {rank: answer.omitted for rank, answer in {**answers, **cut}.items() if answer.omitted}
    if left_out and not endings_only:
        from tui.operator.slices import EXEC_OUTPUT_BYTES

        text = ", ".join(f"worker {rank} {left_out[rank]:,} bytes" for rank in sorted(left_out))
        if len(left_out) > MOST_NAMED:
            text = f"workers {format_ranks(left_out)} {sum(left_out.values()):,} bytes"
        out.note(f"Left out, as exec keeps {EXEC_OUTPUT_BYTES >> 20} MiB of all output together: {text}.")
