"""`keys add`: add the user's public SSH key to metadata or a profile, so that the workers of a slice accept it."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from tui.commands.parser.argument_types import DRY_RUN, SLICE
from tui.commands.parser.commands import Commands
from tui.commands.terminal.output import Output
from tui.commands.terminal.prompts import confirm
from tui.errors import OutOfReachError, TpuTuiError

if TYPE_CHECKING:
    from tui.operator import LoginResult, Operator
    from tui.operator.keys import KeyPlan


def add_command(commands: Commands) -> None:
    """Add the command's parser."""
    keys = commands.add("keys", help="add your public SSH key to a slice, as gcloud's ssh does")
    add = commands.actions_of(keys).add(
        "add",
        help="add your public SSH key to a slice's metadata",
        description="Add your public SSH key to a slice's metadata (an instance group: the project's), or to your "
        "OS Login profile if it uses OS Login, as gcloud's first ssh does, and wait until its workers accept it.",
    )
    add.add_argument("slice", metavar="SLICE", help=SLICE)
    add.add_argument("--yes", action="store_true", help="do not ask for confirmation")
    add.add_argument("--dry-run", action="store_true", help=DRY_RUN)
    add.set_defaults(run=add_key, changes=True)


async def add_key(args: argparse.Namespace, operator: Operator, out: Output) -> int:
    """Add the key where it is missing, after asking, and wait until every worker accepts it."""
    slice_ = await operator.slices.get(args.slice)
    plan = await operator.keys.plan(slice_)
    if not plan.project_known:
        out.note("Could not read the project's metadata; only the slice's own is checked for the key.")
    is_new = not plan.key.exists
    if plan.found is not None:
        out.note(f"{plan.key.path}.pub is already in {plan.place}, for {plan.user}.")
    elif args.dry_run:
        out.note(f"Would {_intent(plan)}. Nothing was changed.")
    else:
        if not args.yes:
            action, intent = f"add a key to {plan.slice_name}", _intent(plan)
            await confirm(action, f"This will {intent}", "no key was added", why=f"this would {intent}")
        plan = await operator.keys.make(plan)
        if is_new:
            out.note(f"Created {plan.key.path} without a passphrase; set one with ssh-keygen -p -f {plan.key.path}.")
        async for step in operator.keys.add(slice_, plan):
            out.note(step)
        plan = operator.keys.with_user_name(plan)
        out.note(f"Added {plan.key.path}.pub to {plan.place} for {plan.user}: {plan.key.fingerprint}")
        out.note("Waiting up to a minute for the workers to accept it …")
    logins = [] if args.dry_run else await operator.keys.wait_until_accepted(slice_)
    _print_result(args, plan, logins, is_new and not args.dry_run, out)
    return OutOfReachError.exit_code if any(login.error for login in logins) else 0


def _print_result(
    args: argparse.Namespace, plan: KeyPlan, logins: list[LoginResult], made: bool, out: Output
) -> None:
    out.problems([_with_fitting_remedy(login.error, plan) for login in logins if login.error])
    if not out.as_json:
        if logins and not any(login.error for login in logins):
            out.text(
                f"All {len(logins)} workers accept {plan.user}."
                if len(logins) > 1
                else f"The worker accepts {plan.user}."
            )
        return
    out.document(
        {
            "slice": plan.slice_name,
            "user": plan.user,
            "key": str(plan.key.path),
            "fingerprint": plan.key.fingerprint,
            "made": made,
            "added": plan.found is None and not args.dry_run,
            "found": plan.found,
            "dry_run": args.dry_run,
            "workers": [
                {"worker": login.worker, "accepted": login.ok, "error": login.error.sentence if login.error else None}
                for login in logins
            ],
        }
    )


def _with_fitting_remedy(error: TpuTuiError, plan: KeyPlan) -> TpuTuiError:
    """Return the error with a remedy that fits a key which the metadata holds already."""
    from tui.operator import Reason, SshError

    if isinstance(error, SshError) and error.reason is Reason.DENIED and plan.account is None:
        error.remedy = (
            f"the metadata holds the key for {plan.user}; a slow guest agent needs a minute or two to read it "
            f"(check with tpu-tui workers {plan.slice_name}). If that does not help, try another --user"
        )
    return error


def _intent(plan: KeyPlan) -> str:
    from tui.operator.keys import IN_PROJECT

    let = f"let {plan.key.path}.pub" if plan.key.exists else f"create the key {plan.key.path} and let it"
    workers = f"the {plan.workers} workers" if plan.workers > 1 else "the worker"
    through = f"{plan.place}, which all its VMs use" if plan.target == IN_PROJECT else plan.place
    return f"{let} log in as {plan.user} on {workers} of {plan.slice_name}, through {through}"
