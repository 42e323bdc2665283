"""`keys add`: the person's public SSH key into a slice's metadata, so that its workers let them in."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from tui.commands.parser.argument_types import SLICE
from tui.commands.parser.commands import Commands
from tui.commands.terminal.output import Output
from tui.commands.terminal.prompts import agrees
from tui.errors import OutOfReachError, TpuTuiError, UsageError

if TYPE_CHECKING:
    from tui.operator import LoginResult, Operator
    from tui.operator.keys import KeyPlan


def add_command(commands: Commands) -> None:
    """Add the command's parser."""
    keys = commands.add(
        "keys",
        help="add: your public SSH key to a slice's metadata, as gcloud's ssh does",
        description="Adds your public SSH key to a slice's metadata, as gcloud's first ssh does, "
        "and waits until its workers let you in.",
    )
    keys.add_argument("action", metavar="add", choices=("add",))
    keys.add_argument("slice", metavar="SLICE", help=SLICE)
    keys.add_argument("--yes", action="store_true", help="do not ask")
    keys.add_argument("--dry-run", action="store_true", help="say what would be done, and do nothing")
    keys.set_defaults(run=add_key, changes=True)


async def add_key(args: argparse.Namespace, operator: Operator, out: Output) -> int:
    """Add the key where it is not yet, after asking, and wait until every worker lets it in."""
    slice_ = await operator.slices.get(args.slice)
    plan = await operator.keys.plan(slice_)
    if not plan.project_known:
        out.note("Whether the project's metadata holds the key could not be read: only the slice's own is looked at.")
    makes = not plan.key.exists
    if plan.found is not None:
        out.note(f"{plan.key.path}.pub is in the {plan.found}'s metadata already, for {plan.user}.")
    elif args.dry_run:
        out.note(f"Would {_intent(plan)}. Nothing was done.")
    else:
        if not args.yes:
            await _ask(plan)
        plan = await operator.keys.make(plan)
        if makes:
            out.note(f"Made {plan.key.path} without a passphrase; ssh-keygen -p -f {plan.key.path} gives it one.")
        async for step in operator.keys.add(slice_, plan):
            out.note(step)
        out.note(f"{plan.key.path}.pub is in the slice's metadata now, for {plan.user}: {plan.key.fingerprint}")
        out.note("Waiting for the workers to take it, for up to a minute …")
    reached = [] if args.dry_run else await operator.keys.wait_until_accepted(slice_)
    _print_result(args, plan, reached, makes and not args.dry_run, out)
    return OutOfReachError.exit_code if any(one.error for one in reached) else 0


def _print_result(
    args: argparse.Namespace, plan: KeyPlan, reached: list[LoginResult], makes: bool, out: Output
) -> None:
    out.problems([_after_all(one.error, plan) for one in reached if one.error])
    if not out.as_json:
        if reached and not any(one.error for one in reached):
            out.text(f"All {len(reached)} workers let {plan.user} in.")
        return
    out.document(
        {
            "slice": plan.slice_name,
            "user": plan.user,
            "key": str(plan.key.path),
            "fingerprint": plan.key.fingerprint,
            "made": makes,
            "added": plan.found is None and not args.dry_run,
            "found": plan.found,
            "dry_run": args.dry_run,
            "workers": [
                {"worker": one.worker, "accepted": one.ok, "error": one.error.sentence if one.error else None}
                for one in reached
            ],
        }
    )


def _after_all(error: TpuTuiError, plan: KeyPlan) -> TpuTuiError:
    """Why a worker keeps its door shut although the metadata holds the key: adding it again is no remedy."""
    from tui.operator import Reason, SshError

    if isinstance(error, SshError) and error.reason is Reason.DENIED:
        error.remedy = (
            f"the metadata holds the key for {plan.user}: a slow guest agent takes it in a minute or two "
            f"(tpu-tui workers {plan.slice_name} looks again); else --user may be another there"
        )
    return error


def _intent(plan: KeyPlan) -> str:
    key = f"{plan.key.path}.pub" if plan.key.exists else f"make the key {plan.key.path} and"
    let = f"let {key}" if plan.key.exists else f"{key} let it"
    workers = f"the {plan.workers} workers" if plan.workers > 1 else "the one worker"
    return f"{let} log in as {plan.user} on {workers} of {plan.slice_name}, through its metadata"


async def _ask(plan: KeyPlan) -> None:
    if not sys.stdin.isatty():
        raise UsageError(
            f"no key is added to {plan.slice_name} without asking",
            why=f"this would {_intent(plan)}",
            remedy="add --yes where nobody can answer",
        )
    if not await agrees(f"This will {_intent(plan)}. Go on?"):
        raise UsageError("no key was added")
