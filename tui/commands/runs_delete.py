"""`runs delete`: remove ended runs from this machine and from their workers after asking, never a live one."""

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
from tui.commands.parser.commands import Parser
from tui.commands.terminal.os_errors import by_read_only
from tui.commands.terminal.output import ANSWER_IS_NO, Output
from tui.commands.terminal.prompts import agrees, has_terminal
from tui.errors import OutOfReachError, TpuTuiError, UsageError
from tui.pod.log_refs import LAST

if TYPE_CHECKING:
    from tui.operator import NoRecordError, Operator, RunDirectory

    Doomed = RunDirectory | NoRecordError
    """A run that is to be deleted: its directory, or what is known of one whose record cannot be read."""

KEEPER_EXIT_TIMEOUT_S = 30.0
"""Seconds in which the keeper of a run that has just ended must have gone: `stop` has answered before it goes."""
BOTH, HERE, WORKERS = "both", "here", "workers"
_HERE_ONLY = "here only: its record, which names its workers, could not be read"
_NOT_CONFIRMED = "not confirmed"
_PLACES = {BOTH: "here and on their workers", HERE: "here only", WORKERS: "on their workers only"}
_NAMED_AT_MOST = 5
"""Runs that an error message names."""


def add_delete_options(parser: Parser) -> None:
    """Add the options of `runs delete`, which `runs` itself parses."""
    parser.add_argument("--on", choices=(WORKERS, HERE, BOTH), help="delete: where (default: both)")
    parser.add_argument("--older-than", metavar="T", help="delete: all runs that ended before, e.g. 7d or 12h ago")
    parser.add_argument("--yes", action="store_true", help="delete: do not ask; the runs are named then, not `last`")


def delete_parser() -> Parser:
    """Return what prints the help of `runs delete`."""
    parser = Parser(
        prog="tpu-tui runs delete",
        description="Remove ended runs and their logs, here and on their workers. At a terminal the command lists "
        "what goes and asks; elsewhere it needs --yes. A live run is never deleted.",
    )
    add_delete_options(parser)
    parser.add_argument("words", metavar="RUN", nargs="*", help=RUN)
    return parser


async def delete_runs(args: argparse.Namespace, operator: Operator, out: Output) -> int:
    """Delete the runs named, or all that ended long enough ago, once it is confirmed; print what became of each."""
    if operator.settings.read_only:
        raise by_read_only("runs delete", operator.settings)
    refs, where = args.words[1:], args.on or BOTH
    if bool(refs) == bool(args.older_than):
        which = "which runs?" if not refs else "either runs by name or those of an age, not both"
        raise UsageError(which, remedy="tpu-tui runs delete RUN …, or tpu-tui runs delete --older-than 7d")
    named = [await _find_run(ref, operator) for ref in refs] or await _older(operator, args.older_than)
    chosen = list({one.path: one for one in named}.values())
    if LAST in refs:
        _require_a_name(chosen, yes=args.yes)
    refused = {one.path: problem for one in chosen if (problem := await _refusal(one, where, operator))}
    deletable = [one for one in chosen if one.path not in refused]
    confirmed = args.yes or not deletable or await _confirmed(deletable, where, operator, out)
    rows, code = [], 0
    for one in chosen:
        problem = refused.get(one.path) or (await _problem_of_deleting(one, where, operator) if confirmed else None)
        rows.append(_row(one, problem, confirmed=confirmed))
        code = max(code, _print_result(one, problem, out) if problem or confirmed else ANSWER_IS_NO)
    if not confirmed:
        out.note("Nothing was deleted.")
    if out.as_json:
        out.document(rows)
    elif not rows:
        out.note(f"No run here ended more than {args.older_than} ago: none is deleted.")
    return code


def _row(one: Doomed, problem: TpuTuiError | None, *, confirmed: bool) -> dict[str, Any]:
    if problem is not None:
        return {"run": one.id, "deleted": False, "detail": problem.sentence}
    detail = _NOT_CONFIRMED if not confirmed else _HERE_ONLY if _is_damaged(one) else None
    return {"run": one.id, "deleted": confirmed, "detail": detail}


def _print_result(one: Doomed, problem: TpuTuiError | None, out: Output) -> int:
    """Print what became of one run; return its exit code."""
    if problem is not None:
        out.problem(problem)
        return problem.exit_code
    if not out.as_json:
        out.text(f"{one.id} deleted {_HERE_ONLY}" if _is_damaged(one) else f"{one.id} deleted")
    return 0


def _is_damaged(one: Doomed) -> bool:
    from tui.operator import NoRecordError

    return isinstance(one, NoRecordError)


def _require_a_name(chosen: Sequence[Doomed], *, yes: bool) -> None:
    """Refuse `last` where no question shows which run it is. Raises UsageError."""
    if yes or not has_terminal():
        raise UsageError(
            "`last` is no name to delete by without being asked",
            why=f"the newest run here may be another than you think: {_names(chosen)}",
            remedy="name the run: tpu-tui runs delete RUN --yes",
        )


async def _confirmed(chosen: Sequence[Doomed], where: str, operator: Operator, out: Output) -> bool:
    """List on the terminal what would be deleted and ask. Raises UsageError where there is no terminal."""
    runs = "1 run" if len(chosen) == 1 else f"{len(chosen)} runs"
    place = _PLACES[where] if len(chosen) > 1 else _PLACES[where].replace("their", "its")
    if not has_terminal():
        raise UsageError(
            "nothing is deleted without asking",
            why=f"this would delete {_names(chosen)} {place}",
            remedy="add --yes where no one can answer",
        )
    out.note(f"This deletes {runs} {place}; the logs there are lost:")
    for one in chosen:
        out.note(f"  {_described(one, operator)}")
    return await agrees("Delete?")


def _names(chosen: Sequence[Doomed]) -> str:
    more = len(chosen) - _NAMED_AT_MOST
    return ", ".join(one.id for one in chosen[:_NAMED_AT_MOST]) + (f" and {more} more" if more > 0 else "")


def _described(one: Doomed, operator: Operator) -> str:
    """Describe a run before it is deleted: its state, how much of it is here, and which workers it ran on."""
    from tui.operator import NoRecordError
    from tui.text.ranks import format_workers

    size = f"{_bytes_in(one.path) / 1e6:,.1f} MB here"
    if isinstance(one, NoRecordError):
        return f"{one.id} · unreadable · {size} · its workers are not known"
    workers = format_workers(worker.index for worker in one.run.workers) if one.run.workers else "no workers"
    return f"{one.id} · {operator.runs.status_of(one).state} · {size} · {workers} of {one.run.slice}"


def _bytes_in(directory: Path) -> int:
    """Return how many bytes a directory's files hold; what cannot be read counts as nothing."""
    total = 0
    for parent, _, names in os.walk(directory):
        for name in names:
            with contextlib.suppress(OSError):
                total += Path(parent, name).lstat().st_size
    return total


async def _find_run(ref: str, operator: Operator) -> Doomed:
    """Return the run that is to be deleted; a part of its id must be whole words of it, as a typing error is not."""
    from tui.operator import NoRecordError

    found: Doomed
    try:
        found = await operator.runs.find(ref)
    except NoRecordError as damaged:
        found = damaged
    if ref != LAST and os.sep not in ref and ref in found.id and f"-{ref}-" not in f"-{found.id}-":
        raise UsageError(
            f"{ref!r} is too little of {found.id} to delete that",
            remedy=f"tpu-tui runs delete {found.id} deletes it",
        )
    return found


async def _refusal(one: Doomed, where: str, operator: Operator) -> TpuTuiError | None:
    """Return why a run must not be deleted there, None where it may be."""
    from tui.operator import NoRecordError

    try:
        if isinstance(one, NoRecordError):
            _require_here(one, where)
        else:
            await _require_ended(one, operator)
    except TpuTuiError as error:
        return error
    return None


async def _problem_of_deleting(one: Doomed, where: str, operator: Operator) -> TpuTuiError | None:
    """Delete one run; return what prevented it, if anything did."""
    from tui.operator import NoRecordError

    try:
        if isinstance(one, NoRecordError):
            operator.runs.delete_unreadable(one, anyway=where == HERE)
        else:
            await _delete(one, where, operator)
    except TpuTuiError as error:
        return error
    return None


def _require_here(damaged: NoRecordError, where: str) -> None:
    """Refuse to delete a run on its workers where they are not known. Raises UsageError."""
    if where == WORKERS:
        remedy = f"tpu-tui runs delete {damaged.id} removes it here; tpu-tui runs then finds it on its workers again"
        raise UsageError(f"{damaged.id} cannot be deleted on its workers", why=damaged.sentence, remedy=remedy)


async def _require_ended(directory: RunDirectory, operator: Operator) -> None:
    """Refuse a run that is live. Raises UsageError."""
    if await _is_live(directory, operator):
        raise UsageError(f"{directory.id} is live", remedy=f"tpu-tui stop {directory.id} ends it first")


async def _delete(directory: RunDirectory, where: str, operator: Operator) -> None:
    """Delete on the workers first, so that what could not be removed there is still known here."""
    await _let_keeper_go(directory)
    if where != HERE:
        refusing = [answer async for answer in operator.runs.delete_on_workers(directory) if not answer.deleted]
        if refusing:
            why = "; ".join(f"worker {answer.worker}: {answer.detail}" for answer in refusing)
            remedy = "try again, or --on here forgets it on this machine only"
            raise OutOfReachError(
                f"{directory.id} is not deleted on {len(refusing)} of its workers", why=why, remedy=remedy
            )
    if where != WORKERS:
        operator.runs.delete_here(directory)


async def _let_keeper_go(directory: RunDirectory) -> None:
    """Wait for the keeper of an ended run before anything of it is removed. Raises UsageError where it stays."""
    from tui.operator import keeper_busy_error

    end = monotonic() + KEEPER_EXIT_TIMEOUT_S
    while directory.keeper_status().alive:
        if monotonic() > end:
            raise keeper_busy_error(directory)
        await asyncio.sleep(0.1)


async def _is_live(directory: RunDirectory, operator: Operator) -> bool:
    """Return whether a run goes on as far as is known here; the workers of one that is not attended are asked."""
    status = operator.runs.status_of(directory)
    if not status.state.is_over and not status.attended.alive:
        await operator.runs.sync_from_workers(directory)
        status = operator.runs.status_of(directory)
    return not (status.state.is_over or directory.was_deleted)


async def _older(operator: Operator, age: str) -> list[RunDirectory]:
    moment = ago(age)
    if moment is None:
        raise UsageError(f"no age: {age!r}", remedy="write it as 7d, 12h or 30m")
    before = moment.isoformat()
    old = [
        operator.runs.directory_of(status) for status in operator.runs.list_statuses() if status.run.created < before
    ]
    live = {directory.path for directory in old if await _is_live(directory, operator)}
    ended = {directory.path: operator.runs.status_of(directory).ended for directory in old}
    return [one for one in old if one.path not in live and (ended[one.path] or one.run.created) < before]
