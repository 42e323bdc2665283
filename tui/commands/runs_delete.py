"""`runs delete`: delete ended runs here and on their workers, after asking; never a live one."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
from collections.abc import Sequence
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any

from tui.commands.parser.argument_types import RUN, ago
from tui.commands.parser.commands import GLOBAL_OPTIONS, Parser
from tui.commands.terminal.output import ANSWER_IS_NO, Output
from tui.commands.terminal.prompts import agrees, has_terminal, require_terminal
from tui.commands.terminal.refusals import read_only_error
from tui.errors import OutOfReachError, TpuTuiError, UsageError
from tui.pod.log_refs import LAST
from tui.text.printable import format_count

if TYPE_CHECKING:
    from tui.operator import NoRecordError, Operator, RunDirectory

    Target = RunDirectory | NoRecordError
    """A run to delete: its directory, or the error for its unreadable record."""

KEEPER_EXIT_TIMEOUT_S = 30.0
"""How long to wait for the keeper of a run that has just ended: `stop` answers before the keeper exits."""
BOTH, HERE, WORKERS = "both", "here", "workers"
_HERE_ONLY = "here only: its record, which lists its workers, could not be read"
_NOT_CONFIRMED = "not confirmed"
_PLACES = {BOTH: "here and on their workers", HERE: "here only", WORKERS: "on their workers only"}
_NAMED_AT_MOST = 5
"""Most runs that a message names."""


def add_delete_options(parser: Parser, *, shown: bool = True) -> None:
    """Add the options of `runs delete`, which `runs` parses without showing them in its own help."""

    def text(help_: str) -> str:
        return help_ if shown else argparse.SUPPRESS

    parser.add_argument("--on", choices=(WORKERS, HERE, BOTH), help=text("where to delete (default: both)"))
    parser.add_argument("--older-than", metavar="T", help=text("all runs that ended longer ago, e.g. 7d or 12h"))
    parser.add_argument("--yes", action="store_true", help=text("do not ask; runs must be named, not `last`"))


def delete_parser() -> Parser:
    """Return the parser that prints the help of `runs delete`."""
    parser = Parser(
        prog="tpu-tui runs delete",
        description="Delete ended runs and their logs, here and on their workers. At a terminal, the command lists "
        "what it will delete and asks; elsewhere it needs --yes. A live run is never deleted.",
        epilog=GLOBAL_OPTIONS,
    )
    add_delete_options(parser)
    parser.add_argument("words", metavar="RUN", nargs="*", help=RUN)
    return parser


async def delete_runs(args: argparse.Namespace, operator: Operator, out: Output) -> int:
    """Delete the given runs, or all that ended long enough ago, after confirmation; print each result."""
    if operator.settings.read_only:
        raise read_only_error("runs delete", operator.settings)
    refs, location = args.words[1:], args.on or BOTH
    if bool(refs) == bool(args.older_than):
        what = "no runs given" if not refs else "give either runs or --older-than, not both"
        raise UsageError(what, remedy="tpu-tui runs delete RUN …, or tpu-tui runs delete --older-than 7d")
    candidates = [await _find_run(ref, operator) for ref in refs] or await _older(operator, args.older_than)
    chosen = list({target.path: target for target in candidates}.values())
    if LAST in refs:
        _require_a_name(chosen, yes=args.yes)
    refused = {target.path: problem for target in chosen if (problem := await _refusal(target, location, operator))}
    deletable = [target for target in chosen if target.path not in refused]
    confirmed = args.yes or not deletable or await _confirm(deletable, location, operator, out)
    rows, code = [], 0
    for target in chosen:
        problem = refused.get(target.path) or (
            await _problem_of_deleting(target, location, operator) if confirmed else None
        )
        rows.append(_row(target, problem, confirmed=confirmed))
        code = max(code, _print_result(target, problem, out) if problem or confirmed else ANSWER_IS_NO)
    if not confirmed:
        out.note("Nothing was deleted.")
    if out.as_json:
        out.document(rows)
    elif not rows:
        out.note(f"No run here ended more than {args.older_than} ago. Nothing was deleted.")
    return code


def _row(target: Target, problem: TpuTuiError | None, *, confirmed: bool) -> dict[str, Any]:
    if problem is not None:
        return {"run": target.id, "deleted": False, "detail": problem.sentence}
    detail = _NOT_CONFIRMED if not confirmed else _HERE_ONLY if _is_damaged(target) else None
    return {"run": target.id, "deleted": confirmed, "detail": detail}


def _print_result(target: Target, problem: TpuTuiError | None, out: Output) -> int:
    """Print the result for one run; return its exit code."""
    if problem is not None:
        out.problem(problem)
        return problem.exit_code
    if not out.as_json:
        out.text(f"{target.id} deleted {_HERE_ONLY}" if _is_damaged(target) else f"{target.id} deleted")
    return 0


def _is_damaged(target: Target) -> bool:
    from tui.operator import NoRecordError

    return isinstance(target, NoRecordError)


def _require_a_name(chosen: Sequence[Target], *, yes: bool) -> None:
    """Refuse `last` where no question shows which run that is. Raises UsageError."""
    if yes or not has_terminal():
        raise UsageError(
            "refusing to delete `last` without confirmation",
            why=f"the newest run may not be the one you mean: it is {_names(chosen)}",
            remedy="name the run: tpu-tui runs delete RUN --yes",
        )


async def _confirm(chosen: Sequence[Target], location: str, operator: Operator, out: Output) -> bool:
    """List what will be deleted and ask. Raises UsageError without a terminal."""
    runs = format_count(len(chosen), "run")
    place = _PLACES[location] if len(chosen) > 1 else _PLACES[location].replace("their", "its")
    require_terminal("delete", why=f"this would delete {_names(chosen)} {place}")
    out.note(f"This permanently deletes {runs} with all logs {place}:")
    for target in chosen:
        out.note(f"  {_describe(target, operator)}")
    return await agrees("Delete?")


def _names(chosen: Sequence[Target]) -> str:
    more = len(chosen) - _NAMED_AT_MOST
    return ", ".join(target.id for target in chosen[:_NAMED_AT_MOST]) + (f" and {more} more" if more > 0 else "")


def _describe(target: Target, operator: Operator) -> str:
    """Describe a run to delete: its state, its size here, and the workers it ran on."""
    from tui.operator import NoRecordError
    from tui.text.ranks import format_workers

    size = f"{_bytes_in(target.path) / 1e6:,.1f} MB here"
    if isinstance(target, NoRecordError):
        return f"{target.id} · unreadable · {size} · its workers are unknown"
    workers = format_workers(worker.index for worker in target.run.workers) if target.run.workers else "no workers"
    return f"{target.id} · {operator.runs.status_of(target).state} · {size} · {workers} of {target.run.slice}"


def _bytes_in(directory: Path) -> int:
    """Return the total size of a directory's files in bytes; unreadable ones count as 0."""
    total = 0
    for parent, _, names in os.walk(directory):
        for name in names:
            with contextlib.suppress(OSError):
                total += Path(parent, name).lstat().st_size
    return total


async def _find_run(ref: str, operator: Operator) -> Target:
    """Find a run to delete; a part of its ID must consist of whole words, which guards against typing errors."""
    from tui.operator import NoRecordError

    target: Target
    try:
        target = await operator.runs.find(ref)
    except NoRecordError as damaged:
        target = damaged
    if ref != LAST and os.sep not in ref and ref in target.id and f"-{ref}-" not in f"-{target.id}-":
        raise UsageError(
            f"{ref!r} is too short a part of {target.id} to delete that run",
            remedy=f"use the whole ID: tpu-tui runs delete {target.id}",
        )
    return target


async def _refusal(target: Target, location: str, operator: Operator) -> TpuTuiError | None:
    """Return the error that forbids deleting a run there; None where it is allowed."""
    from tui.operator import NoRecordError

    if isinstance(target, NoRecordError):
        if location != WORKERS:
            return None
        remedy = f"delete it here with tpu-tui runs delete {target.id}; tpu-tui runs then finds it on its workers"
        return UsageError(f"{target.id} cannot be deleted on its workers", why=target.sentence, remedy=remedy)
    try:
        is_live = await _is_live(target, operator)
    except TpuTuiError as error:
        return error
    return UsageError(f"{target.id} is live", remedy=f"stop it first: tpu-tui stop {target.id}") if is_live else None


async def _problem_of_deleting(target: Target, location: str, operator: Operator) -> TpuTuiError | None:
    """Delete one run; return what prevented it, if anything did."""
    from tui.operator import NoRecordError

    try:
        if isinstance(target, NoRecordError):
            operator.runs.delete_unreadable(target, anyway=location == HERE)
        else:
            await _delete(target, location, operator)
    except TpuTuiError as error:
        return error
    return None


async def _delete(directory: RunDirectory, location: str, operator: Operator) -> None:
    """Delete a run on its workers first: if that fails, the run is still known here."""
    await _let_keeper_go(directory)
    if location != HERE:
        refusing = [answer async for answer in operator.runs.delete_on_workers(directory) if not answer.deleted]
        if refusing:
            why = "; ".join(f"worker {answer.worker}: {answer.detail}" for answer in refusing)
            remedy = "try again, or use --on here to delete it on this machine only"
            raise OutOfReachError(
                f"{directory.id} was not deleted on {len(refusing)} of its workers", why=why, remedy=remedy
            )
    if location != WORKERS:
        operator.runs.delete_here(directory)


async def _let_keeper_go(directory: RunDirectory) -> None:
    """Wait until the keeper of an ended run has exited. Raises UsageError where it does not."""
    from tui.operator import keeper_busy_error

    end = monotonic() + KEEPER_EXIT_TIMEOUT_S
    while directory.keeper_status().alive:
        if monotonic() > end:
            raise keeper_busy_error(directory)
        await asyncio.sleep(0.1)


async def _is_live(directory: RunDirectory, operator: Operator) -> bool:
    """Return whether a run is live. The workers of a run without a keeper are queried first."""
    status = operator.runs.status_of(directory)
    if not status.state.is_over and not status.attended.alive:
        await operator.runs.sync_from_workers(directory)
        status = operator.runs.status_of(directory)
    return not (status.state.is_over or directory.was_deleted)


async def _older(operator: Operator, age: str) -> list[RunDirectory]:
    """Return the runs here that ended longer ago than `age`. Raises UsageError for text that is no age."""
    moment = ago(age)
    if moment is None:
        raise UsageError(f"{age!r} is not an age", remedy="use e.g. 7d, 12h or 30m")
    before = moment.isoformat()
    older = []
    for listed in operator.runs.list_statuses():
        directory = operator.runs.directory_of(listed)
        if listed.run.created >= before or directory.foreign is not None or await _is_live(directory, operator):
            continue
        if (operator.runs.status_of(directory).ended or directory.run.created) < before:
            older.append(directory)
    return older
