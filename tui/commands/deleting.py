"""`runs delete`: ended runs removed from this machine and from their workers, never a live one."""

from __future__ import annotations

import argparse
import asyncio
import os
from time import monotonic
from typing import TYPE_CHECKING, Any

from tui.commands.arguments import ago
from tui.commands.output import Output
from tui.commands.refusals import by_read_only
from tui.errors import OutOfReachError, TpuTuiError, UsageError
from tui.pod.naming import LAST

if TYPE_CHECKING:
    from tui.operator import Operator
    from tui.runs.directory import RunDirectory
    from tui.runs.unreadable import NoRecordError

TIDIES_UP_WITHIN = 30.0
"""Seconds in which the keeper of a run that has just ended must have gone: `stop` has answered before it goes."""
_HERE_ONLY = "here only: its record, which names its workers, could not be read"


async def delete_runs(args: argparse.Namespace, operator: Operator, out: Output) -> int:
    """Delete the runs named, or all that ended long enough ago; tells what is left and why."""
    from tui.runs.unreadable import NoRecordError

    if operator.settings.read_only:
        raise by_read_only("runs delete", operator.settings)
    refs = args.words[1:]
    if bool(refs) == bool(args.older_than):
        which = "which runs?" if not refs else "either runs by name or those of an age, not both"
        raise UsageError(which, remedy="tpu-tui runs delete RUN …, or tpu-tui runs delete --older-than 7d")
    named = [await _meant(ref, operator) for ref in refs] or await _older(operator, args.older_than)
    chosen = {one.path: one for one in named}.values()
    rows: list[dict[str, Any]] = []
    code = 0
    for one in chosen:
        whole = not isinstance(one, NoRecordError)
        problem = await _problem_of_deleting(one, args.on or "both", operator)
        detail = problem.sentence if problem else None if whole else _HERE_ONLY
        rows.append({"run": one.id, "deleted": problem is None, "detail": detail})
        if problem is not None:
            out.problem(problem)
            code = max(code, problem.exit_code)
        elif not out.as_json:
            out.text(f"{one.id} deleted" if whole else f"{one.id} deleted {_HERE_ONLY}")
    if out.as_json:
        out.document(rows)
    elif not rows:
        out.note(f"No run here ended more than {args.older_than} ago: none is deleted.")
    return code


async def _meant(ref: str, operator: Operator) -> RunDirectory | NoRecordError:
    """The run that is to be deleted: a part of its id has to be whole words of it, as a slip of the finger is not."""
    from tui.runs.unreadable import NoRecordError

    found: RunDirectory | NoRecordError
    try:
        found = await operator.find_run(ref)
    except NoRecordError as damaged:
        found = damaged
    if ref != LAST and os.sep not in ref and ref in found.id and f"-{ref}-" not in f"-{found.id}-":
        raise UsageError(
            f"{ref!r} is too little of {found.id} to delete that",
            remedy=f"tpu-tui runs delete {found.id} deletes it",
        )
    return found


async def _problem_of_deleting(
    one: RunDirectory | NoRecordError, where: str, operator: Operator
) -> TpuTuiError | None:
    """Delete one run; what hindered it, if anything did."""
    from tui.runs.unreadable import NoRecordError

    try:
        if isinstance(one, NoRecordError):
            _delete_unreadable(one, where, operator)
        else:
            await _delete(one, where, operator)
    except TpuTuiError as error:
        return error
    return None


def _delete_unreadable(damaged: NoRecordError, where: str, operator: Operator) -> None:
    if where == "workers":
        remedy = f"tpu-tui runs delete {damaged.id} removes it here; tpu-tui runs then finds it on its workers again"
        raise UsageError(f"{damaged.id} cannot be deleted on its workers", why=damaged.sentence, remedy=remedy)
    operator.delete_unreadable(damaged, anyway=where == "here")


async def _delete(directory: RunDirectory, where: str, operator: Operator) -> None:
    """Workers first, so that what could not be removed there is still known here."""
    if await _is_live(directory, operator):
        raise UsageError(f"{directory.id} is live", remedy=f"tpu-tui stop {directory.id} ends it first")
    await _let_keeper_go(directory)
    if where != "here":
        kept = [answer async for answer in operator.delete_on_workers(directory) if not answer.deleted]
        if kept:
            why = "; ".join(f"worker {answer.worker}: {answer.detail}" for answer in kept)
            remedy = "try again, or --on here forgets it on this machine only"
            raise OutOfReachError(
                f"{directory.id} is not deleted on {len(kept)} of its workers", why=why, remedy=remedy
            )
    if where != "workers":
        operator.delete_here(directory)


async def _let_keeper_go(directory: RunDirectory) -> None:
    """Wait for the keeper of an ended run before anything of it is removed. Raises UsageError where it stays."""
    from tui.runs.discover import still_kept

    end = monotonic() + TIDIES_UP_WITHIN
    while directory.attended().alive:
        if monotonic() > end:
            raise still_kept(directory)
        await asyncio.sleep(0.1)


async def _is_live(directory: RunDirectory, operator: Operator) -> bool:
    """Whether a run goes on as far as is known here; of one that nobody keeps here, its workers are asked."""
    status = operator.status_of(directory)
    if not status.state.is_over and not status.attended.alive:
        await operator.ask_workers(directory)
        status = operator.status_of(directory)
    return not (status.state.is_over or directory.is_gone)


async def _older(operator: Operator, age: str) -> list[RunDirectory]:
    moment = ago(age)
    if moment is None:
        raise UsageError(f"no age: {age!r}", remedy="write it as 7d, 12h or 30m")
    before = moment.isoformat()
    old = [operator.directory_of(status) for status in operator.runs() if status.run.created < before]
    live = {directory.path for directory in old if await _is_live(directory, operator)}
    ended = {directory.path: operator.status_of(directory).ended for directory in old}
    return [one for one in old if one.path not in live and (ended[one.path] or one.run.created) < before]
