"""`exec`: run one command on many workers; print its output live and, at the end, grouped."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import sys
import time
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tui.commands.parser.argument_types import positive_seconds
from tui.commands.parser.commands import Commands
from tui.commands.terminal.output import ANSWER_IS_NO, Output
from tui.commands.terminal.waiting_notice import notice_of_missing_workers
from tui.errors import OutOfReachError, TpuTuiError, UsageError
from tui.text.printable import format_count
from tui.text.ranks import name_ranks, parse_ranks

if TYPE_CHECKING:
    from tui.operator import CommandResult, Operator, RunningCommand

LIVE_AFTER_S = 1.0
"""Running time after which output is also shown live at a terminal; quicker commands show groups only."""
MOST_NAMED = 8
"""Most workers whose omitted bytes are listed one by one."""
MOST_PENDING_BYTES = 64 * 1024
"""Most bytes of an unfinished line that are held back."""


class LiveOutput:
    """The commands that are running, and their output by line with the worker's number.

    With `live` every line goes to stdout at once. Otherwise lines of a longer command go to stderr, at a terminal.
    """

    def __init__(self, out: Output, *, live: bool) -> None:
        self.running: dict[int, RunningCommand] = {}
        self._out = out
        self._live = live
        self._watched = live or (sys.stderr.isatty() and not out.as_json)
        self._began = time.monotonic()
        self._waiting = asyncio.current_task()
        self.unread = False
        """Whether the reader of stdout has closed it, as `head` does."""
        self._pending: dict[tuple[int, bool], bytes] = {}

    def __call__(self, running: RunningCommand, on_stderr: bool, data: bytes) -> None:
        """Take what a worker just wrote."""
        self.running[running.worker] = running
        if not self._watched:
            return
        key = (running.worker, on_stderr)
        *lines, rest = (self._pending.get(key, b"") + data).split(b"\n")
        if len(rest) > MOST_PENDING_BYTES:
            lines, rest = [*lines, rest], b""
        self._pending[key] = rest
        if self._live or time.monotonic() - self._began > LIVE_AFTER_S:
            for line in lines:
                self._print_line(running.worker, on_stderr, line)

    def ended(self, worker: int) -> None:
        """Print the worker's last line if no newline ended it, and forget the worker: its answer has its output."""
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
            # Raised here, within a connection, it would look like an error of the worker.
            self.unread = True
            self._waiting.cancel()


def add_command(commands: Commands) -> None:
    """Add the command's parser."""
    execute = commands.add(
        "exec",
        help="run a command on every worker; identical outputs are grouped",
        description="Run a command on every worker; identical outputs are grouped. "
        "A command that is one word with blanks, e.g. -- 'ls | head', is run by sh.",
    )
    execute.add_argument("slice", metavar="SLICE -- COMMAND …", help="the slice, and the command for its workers")
    execute.add_argument("--worker", default="all", metavar="N", help="workers to use, e.g. 0-3,7 (default: all)")
    execute.add_argument(
        "--timeout", type=positive_seconds, metavar="S", help="seconds per worker for login and command together"
    )
    execute.add_argument("--live", action="store_true", help="print each line at once with its worker, ungrouped")
    execute.set_defaults(run=execute_command, takes_job=True, changes=True)


async def execute_command(args: argparse.Namespace, operator: Operator, out: Output) -> int:
    """Run one command on the chosen workers; print identical outputs once, with their workers."""
    if not args.argv:
        raise UsageError("no command to run", remedy="tpu-tui exec SLICE -- COMMAND …")
    slice_ = await operator.slices.get(args.slice)
    ranks = parse_ranks(args.worker, len(slice_.workers))
    progress = LiveOutput(out, live=args.live and not out.as_json)
    answers: dict[int, CommandResult] = {}
    problems: dict[int, TpuTuiError] = {}
    argv = _as_gcloud_runs_it(args.argv)
    answering = operator.slices.execute(slice_, argv, ranks, args.timeout, progress)

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
        _print_results(args, out, ranks, {**answers, **cut}, problems, interrupted=cut)
        raise
    _print_results(args, out, ranks, answers, problems)
    if problems:
        return OutOfReachError.exit_code
    return 0 if all(answer.ok for answer in answers.values()) else ANSWER_IS_NO


def _as_gcloud_runs_it(argv: Sequence[str]) -> Sequence[str]:
    """Return the command to run: a single word with blanks, such as `'ls | head'`, is a line for sh."""
    is_line = len(argv) == 1 and any(letter.isspace() for letter in argv[0].strip())
    return ("sh", "-c", argv[0]) if is_line else argv


def _print_results(
    args: argparse.Namespace,
    out: Output,
    ranks: Sequence[int],
    results: Mapping[int, CommandResult],
    problems: Mapping[int, TpuTuiError],
    interrupted: Collection[int] = (),
) -> None:
    """Print the results; those of `interrupted` workers are partial."""
    if out.as_json:
        out.rows(_row(rank, results.get(rank), problems.get(rank)) for rank in ranks)
    else:
        _print_grouped(results, interrupted, out, endings_only=args.live)
    out.problems([problems[rank] for rank in sorted(problems)])
    unanswered = [rank for rank in ranks if rank not in problems and (rank in interrupted or rank not in results)]
    if unanswered:
        out.note(f"Interrupted: no answer yet from {name_ranks('worker', unanswered)}.")


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
    results: Mapping[int, CommandResult], interrupted: Collection[int], out: Output, *, endings_only: bool
) -> None:
    """Print one block for each distinct outcome, headed by its workers as a range (as `clush -b` does).

    If there is only one, its heading goes to stderr, so that stdout holds nothing but the workers' output.
    """
    from tui.operator.output_groups import SharedOutput, describe_ending, format_heading, group_outputs

    def outcome_of(rank: int, result: CommandResult) -> SharedOutput:
        ending = "interrupted" if rank in interrupted else describe_ending(result)
        return SharedOutput(b"", b"", ending) if endings_only else SharedOutput(result.stdout, result.stderr, ending)

    groups = group_outputs((rank, outcome_of(rank, result)) for rank, result in results.items())
    for outcome, ranks in groups:
        text = f"── {format_heading(outcome, ranks)}"
        out.text(text) if len(groups) > 1 else out.note(text)
        if outcome.stdout:
            out.remote_text([outcome.stdout])
        if outcome.stderr:
            out.remote_text([outcome.stderr], on_stderr=True)
    left_out = {rank: result.omitted for rank, result in results.items() if result.omitted}
    if left_out and not endings_only:
        from tui.operator.slices import EXEC_OUTPUT_BYTES

        text = ", ".join(f"worker {rank} {format_count(left_out[rank], 'byte')}" for rank in sorted(left_out))
        if len(left_out) > MOST_NAMED:
            text = f"{name_ranks('worker', left_out)} {sum(left_out.values()):,} bytes"
        out.note(f"Output omitted, because exec keeps {EXEC_OUTPUT_BYTES >> 20} MiB in total: {text}.")
