"""`groups`: list, create, resize and delete managed instance groups."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from tui.commands.groups_create import add_create
from tui.commands.parser.argument_types import integer
from tui.commands.parser.commands import Commands
from tui.commands.resources import deletion_row, print_deletion
from tui.commands.terminal.output import Output
from tui.commands.terminal.prompts import confirm, confirm_by_name
from tui.commands.terminal.steps import print_steps
from tui.pod.resources import IMAGE, POLICY, TEMPLATE, describe_effect
from tui.text.printable import format_count

if TYPE_CHECKING:
    from tui.operator import Operator

_GROUP = "a group: NAME, or ZONE/NAME if several zones are configured"


def add_command(commands: Commands) -> None:
    """Add the command's parser."""
    groups = commands.add("groups", help="list, create, resize or delete managed instance groups")
    groups.set_defaults(run=list_groups)
    actions = commands.actions_of(groups, required=False)
    actions.add("list", help="list every managed instance group").set_defaults(run=list_groups)
    add_create(actions)
    resize = actions.add("resize", help="change the number of a group's VMs; asks before VMs are deleted")
    resize.add_argument("group", metavar="NAME", help=_GROUP)
    resize.add_argument("--size", metavar="N", type=integer, required=True, help="number of VMs; 0 releases all")
    resize.add_argument("--detach", "--async", action="store_true", help="return as soon as the VMs are requested")
    resize.set_defaults(run=resize_group, changes=True)
    delete = actions.add(
        "delete",
        help="permanently delete a group and what tpu-tui made for it; asks for its name",
        description="Permanently delete a group with its VMs, then the template, policy and image that tpu-tui made "
        "for it, unless others use them. Repeated after an interruption, it deletes what is left.",
    )
    delete.add_argument("group", metavar="NAME", help=_GROUP)
    delete.add_argument(
        "--keep", metavar="PART", action="append", choices=(TEMPLATE, POLICY, IMAGE), help="template, policy or image"
    )
    delete.set_defaults(run=delete_group, changes=True)
    for parser in (resize, delete):
        parser.add_argument("--yes", action="store_true", help="do not ask")
        parser.add_argument(
            "--dry-run", action="store_true", help="show what would be done, and the same command of gcloud"
        )


async def list_groups(_args: argparse.Namespace, operator: Operator, out: Output) -> int:
    """Print every group; places that failed are reported after the others."""
    listing = await operator.groups.list_all()
    rows = [group.to_json() for group in listing.groups]
    if out.as_json:
        out.document(rows)
    elif rows:
        columns = ("name", "zone", "size", "template", "policy", "tpu node", "slice")
        out.table(columns, [tuple(row.values()) for row in rows], right=("size",))
    elif not listing.problems:
        out.note(f"No instance groups in {operator.slices.where}.")
    return out.problems(listing.problems)


async def resize_group(args: argparse.Namespace, operator: Operator, out: Output) -> int:
    """Resize a group and wait, printing progress."""
    zone, name = operator.slices.place_of(args.group)
    present = await operator.groups.size_of(args.group)
    if args.size < present and not (args.yes or args.dry_run):
        vms = format_count(present - args.size, "VM")
        effect = f"This deletes {vms} of {name} and their disks"
        await confirm(f"delete {vms} of {name}", effect, f"{name} was not resized")
    steps = operator.groups.resize(args.group, args.size, dry_run=args.dry_run, waits=not args.detach)
    code = await print_steps(steps, args.group, "resize", out, dry_run=args.dry_run, noun="group")
    if args.dry_run:
        from tui.pod.groups.group_gcloud import resize_group_command

        out.note(resize_group_command(name, zone, operator.settings.project or "PROJECT", args.size))
    return code


async def delete_group(args: argparse.Namespace, operator: Operator, out: Output) -> int:
    """Show what is deleted and what stays, ask for the group's name, and delete it."""
    name = operator.slices.place_of(args.group)[1]
    plan = await operator.groups.plan_deletion(args.group, args.keep or ())
    would = "Would delete" if args.dry_run else "Deleting"
    for line in describe_effect(plan.chosen, plan.chosen):
        out.note(f"{would} {line}" if args.yes or args.dry_run else line)
    for line in plan.stays:
        out.note(line)
    if args.dry_run:
        from tui.pod.groups.group_gcloud import delete_command_of_gcloud

        commands = [
            delete_command_of_gcloud(resource, operator.settings.project or "PROJECT") for resource in plan.chosen
        ]
        out.note("Nothing was changed.")
        if out.as_json:
            rows = [deletion_row(resource, None, is_done=False) for resource in plan.chosen]
            out.document([{**row, "gcloud": command} for row, command in zip(rows, commands, strict=True)])
        else:
            out.text("\n".join(commands))
        return 0
    if not args.yes:
        effect = f"This permanently deletes {format_count(len(plan.chosen), 'resource')}"
        await confirm_by_name(f"delete {name}", effect, name, f"{name} was not deleted")
    remaining = await print_deletion(plan.chosen, operator.resources.delete(plan.chosen), out)
    if out.as_json:
        out.document([deletion_row(resource, remaining.get(resource.ref), is_done=True) for resource in plan.chosen])
    if remaining:
        out.note(f"Left: {', '.join(remaining)}; the same command deletes it")
    return max((max(1, problem.exit_code) for problem in remaining.values()), default=0)
