"""`slices queued` and `slices reset`: list queued resources, and put one back into the queue."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from tui.commands.parser.argument_types import DRY_RUN
from tui.commands.parser.commands import Commands
from tui.commands.terminal.output import Output
from tui.commands.terminal.prompts import confirm_by_name
from tui.commands.terminal.steps import print_steps
from tui.text.durations import format_elapsed

if TYPE_CHECKING:
    from tui.operator import Operator
    from tui.pod.creation.queued_request import QueuedRequest

QUEUED_REQUEST = "a queued resource: NAME, or ZONE/NAME if several zones are configured"


def add_queue_actions(actions: Commands) -> None:
    """Add the parsers of the actions on queued resources."""
    queued = actions.add("queued", help="list queued resources, with state, reason and age")
    queued.set_defaults(run=list_queued)
    reset = actions.add("reset", help="put a queued resource back into the queue; asks for its name")
    reset.add_argument("request", metavar="NAME", help=QUEUED_REQUEST)
    reset.add_argument("--yes", action="store_true", help="do not ask for the name")
    reset.add_argument("--dry-run", action="store_true", help=DRY_RUN)
    reset.set_defaults(run=reset_queued, changes=True)


async def list_queued(_args: argparse.Namespace, operator: Operator, out: Output) -> int:
    """Print every queued resource, and what remains to be deleted or reset."""
    listing = await operator.slices.queued()
    rows = listing.requests
    if out.as_json:
        out.document([row.to_json() for row in rows])
    elif rows:
        cells = [
            (
                row.name,
                row.zone,
                row.state,
                format_elapsed(row.age_s),
                row.accelerator_type,
                _slices_in_short(row),
                row.reason,
            )
            for row in rows
        ]
        out.table(("name", "zone", "state", "age", "type", "slices", "reason"), cells, right=("age",))
    elif not listing.problems:
        out.note(f"No queued resources in {operator.slices.where}.")
    if leftovers := [row.path for row in rows if row.is_leftover]:
        out.note(f"Leftovers, which may use quota: {', '.join(leftovers)}")
        out.note(f"  → tpu-tui slices delete --queued {leftovers[0]}, or tpu-tui slices reset {leftovers[0]}")
    return out.problems(listing.problems)


async def reset_queued(args: argparse.Namespace, operator: Operator, out: Output) -> int:
    """Reset a queued resource after asking for its name: its slices lose their disks."""
    name = operator.slices.place_of(args.request)[1]
    if not (args.yes or args.dry_run):
        effect = f"This creates the slices of {name} again: their disks are lost"
        await confirm_by_name(f"reset {name}", effect, name, f"{name} was not reset")
    steps = operator.slices.reset_queued(args.request, dry_run=args.dry_run)
    return await print_steps(steps, args.request, "reset", out, dry_run=args.dry_run)


async def delete_queued(args: argparse.Namespace, operator: Operator, out: Output) -> int:
    """Delete a queued resource after asking for its name, with --force its slices too."""
    name = operator.slices.place_of(args.slice)[1]
    if not (args.yes or args.dry_run):
        also = ", its slices and the disks of their workers" if args.force else ""
        effect = f"This permanently deletes queued resource {name}{also}"
        await confirm_by_name(f"delete {name}", effect, name, f"{name} was not deleted")
    steps = operator.slices.delete_queued(args.slice, force=args.force, dry_run=args.dry_run)
    return await print_steps(steps, args.slice, "delete", out, dry_run=args.dry_run)


def _slices_in_short(request: QueuedRequest) -> str:
    nodes = request.nodes
    return nodes[0] if len(nodes) == 1 else f"{len(nodes)}: {nodes[0]} …" if nodes else "-"
