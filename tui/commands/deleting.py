"""`runs delete`: ended runs removed from this machine and from their workers, never a live one."""

from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING, Any

from tui.commands.arguments import ago
from tui.commands.output import Output
from tui.commands.refusals import by_read_only
from tui.errors import OutOfReachError, TpuTuiError, UsageError
from tui.pod.naming import LAST

if TYPE_CHECKING:
    from tui.operator import Operator
    from tui.runs.directory import RunDirectory


async def delete_runs(args: argparse.Namespace, operator: Operator, out: Output) -> int:
    """Delete the runs named, or all that ended long enough ago; tells what is left and why."""
    if operator.settings.read_only:
        raise by_read_only("runs delete", operator.settings)
    refs = args.words[1:]
    if bool(refs) == bool(args.older_than):
        which = "which runs?" if not refs else "either runs by name or those of an age, not both"
        raise UsageError(which, remedy="tpu-tui runs delete RUN …, or tpu-tui runs delete --older-than 7d")
    named = [await _meant(ref, operator) for ref in refs] or await _older(operator, args.older_than)
    chosen = {directory.path: directory for directory in named}.values()
    rows: list[dict[str, Any]] = []
    code = 0
    for directory in chosen:
        problem = await _delete(directory, args.on or "both", operator)
        rows.append({"run": directory.id, "deleted": problem is None, "detail": problem and problem.sentence})
        if problem is None:
            if not out.as_json:
                out.text(f"{directory.id} deleted")
        else:
            out.problem(problem)
            code = max(code, problem.exit_code)
    if out.as_json:
        out.document(rows)
    elif not rows:
        out.note(f"No run here ended more than {args.older_than} ago: none is deleted.")
    return code


async def _meant(ref: str, operator: Operator) -> RunDirectory:
    """The run that is to be deleted: a part of its id has to be whole words of it, as a slip of the finger is not."""
    directory = await operator.find_run(ref)
    if ref != LAST and os.sep not in ref and ref in directory.id and f"-{ref}-" not in f"-{directory.id}-":
        raise UsageError(
            f"{ref!r} is too little of {directory.id} to delete that",
            remedy=f"tpu-tui runs delete {directory.id} deletes it",
        )
    return directory


async def _delete(directory: RunDirectory, where: str, operator: Operator) -> TpuTuiError | None:
    """Workers first, so that what could not be removed there is still known here."""
    try:
        if await _is_live(directory, operator):
            raise UsageError(f"{directory.id} is live", remedy=f"tpu-tui stop {directory.id} ends it first")
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
    except TpuTuiError as error:
        return error
    return None


async def _is_live(directory: RunDirectory, operator: Operator) -> bool:
    """Whether a run goes on as far as is known here; of one that nobody keeps here, its workers are asked."""
    status = operator.status_of(directory)
    if not status.state.is_over and not status.attended.alive:
        await operator.ask_workers(directory)
        status = operator.status_of(directory)
    return not status.state.is_over


async def _older(operator: Operator, age: str) -> list[RunDirectory]:
    moment = ago(age)
    if moment is None:
        raise UsageError(f"no age: {age!r}", remedy="write it as 7d, 12h or 30m")
    before = moment.isoformat()
    old = [operator.open_run(status.run.id) for status in operator.runs() if status.run.created < before]
    live = {directory.id for directory in old if await _is_live(directory, operator)}
    ended = {directory.id: operator.status_of(directory).ended for directory in old}
    return [one for one in old if one.id not in live and (ended[one.id] or one.run.created) < before]
