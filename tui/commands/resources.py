"""`resources`: list what costs money, and delete it in the right order."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING, Any

from tui.commands.parser.argument_types import DRY_RUN, string
from tui.commands.parser.commands import Commands
from tui.commands.terminal.output import Output
from tui.commands.terminal.prompts import ask, require_terminal
from tui.errors import TpuTuiError, UsageError
from tui.pod.resources import (
    CloudResource,
    ResourceListing,
    describe_effect,
    find_resources,
    find_unused,
    holder_of,
    in_order_of_deletion,
)
from tui.text.durations import format_elapsed
from tui.text.printable import format_count

if TYPE_CHECKING:
    from tui.operator import Operator
    from tui.operator.resources.deletion import DeletionStep

_COSTS = {True: "yes", False: "no", None: "unknown"}


def add_command(commands: Commands) -> None:
    """Add the command's parser."""
    resources = commands.add("resources", help="list what costs money and who uses it, or delete it")
    resources.set_defaults(run=list_resources)
    actions = commands.actions_of(resources, required=False)
    delete = actions.add(
        "delete",
        help="permanently delete resources; asks for their names",
        description="Permanently delete resources: queued resources with their slices, and groups with their VMs; "
        "then slices, then templates and policies, then images and disks, then buckets. One that fails does not stop "
        "the others.",
    )
    delete.add_argument(
        "names", metavar="NAME", type=string, nargs="*", help="NAME, ZONE/NAME, KIND/NAME or gs://BUCKET, as listed"
    )
    delete.add_argument(
        "--unused",
        action="store_true",
        help="all that tpu-tui made and nothing uses: no live run, no slice, no stored object",
    )
    delete.add_argument("--yes", action="store_true", help="do not ask for the names")
    delete.add_argument("--dry-run", action="store_true", help=DRY_RUN)
    delete.set_defaults(run=delete_resources, changes=True, many="names")


async def list_resources(_args: argparse.Namespace, operator: Operator, out: Output) -> int:
    """Print every resource, those that cost money first; zones and APIs that failed are reported after the others."""
    listing = await operator.resources.list_all()
    rows = listing.resources
    if out.as_json:
        out.document([row.to_json() for row in rows])
    elif rows:
        columns = ("costs", "kind", "name", "zone", "state", "age", "chips", "size", "used by", "by tpu-tui")
        out.table(columns, map(_cells, rows), right=("age", "chips", "size"))
        if unused := find_unused(rows):
            out.note(f"Made by tpu-tui and unused: {', '.join(resource.ref for resource in unused)}")
            out.note("  → tpu-tui resources delete --unused")
    elif not listing.problems:
        out.note(f"No resources in {operator.slices.where}.")
    return out.problems(listing.problems)


def _cells(row: CloudResource) -> tuple[Any, ...]:
    return (
        _COSTS[row.cost_relevant],
        row.kind,
        row.name,
        row.zone,
        row.state,
        format_elapsed(row.age_s()),
        row.chips,
        None if row.size_gb is None else f"{row.size_gb:,.0f} GB",
        "unknown" if row.used_by is None else ", ".join(row.used_by) or None,
        row.made_by_us,
    )


async def delete_resources(args: argparse.Namespace, operator: Operator, out: Output) -> int:
    """Show the resources to delete, ask for their names, delete them, and list those that are left."""
    if bool(args.names) == args.unused:
        what = "give either names or --unused, not both" if args.names else "no resources given"
        raise UsageError(what, remedy="tpu-tui resources delete NAME …, or tpu-tui resources delete --unused")
    listing = await operator.resources.list_all()
    chosen = _choose_unused(listing, out) if args.unused else find_resources(args.names, listing)
    remaining: dict[str, TpuTuiError] = {}
    acts = bool(chosen) and not args.dry_run
    for line in describe_effect(chosen, listing.resources):
        out.note(f"{'Would delete' if args.dry_run else 'Deleting'} {line}" if args.yes or args.dry_run else line)
    if acts:
        if not args.yes:
            await _ask_for_names(chosen)
        remaining = await print_deletion(chosen, operator.resources.delete(chosen, only_unused=args.unused), out)
    else:
        out.note("Nothing was deleted.")
    if out.as_json:
        out.document(
            [
                deletion_row(resource, remaining.get(holder_of(resource, chosen).ref), is_done=acts)
                for resource in chosen
            ]
        )
    if remaining:
        out.note(f"Left: {', '.join(remaining)}")
    failures = [*remaining.values(), *(listing.problems if args.unused else ())]
    if args.unused:
        out.problems(listing.problems)
    return max((max(1, problem.exit_code) for problem in failures), default=0)


def _choose_unused(listing: ResourceListing, out: Output) -> list[CloudResource]:
    """Return the resources that `--unused` deletes; print those of tpu-tui that are in use."""
    unused = find_unused(listing.resources)
    for resource in listing.resources:
        if resource.made_by_us and resource not in unused:
            users = (
                "unknown users" if resource.used_by is None else ", ".join(resource.used_by) or "what is stored in it"
            )
            out.note(f"Kept: {resource.ref}, used by {users}")
    return unused


async def _ask_for_names(chosen: Sequence[CloudResource]) -> None:
    """Ask for the names of the resources to delete. Raises UsageError for other answers, or without a terminal."""
    names = sorted({resource.name for resource in chosen})
    count = format_count(len(chosen), "resource")
    require_terminal(f"delete {count}")
    noun = "its name" if len(names) == 1 else "their names"
    typed = await ask(f"This permanently deletes {count}. Type {noun} ({' '.join(names)}) to continue: ")
    if {name.removeprefix("gs://") for name in typed.replace(",", " ").split()} != set(names):
        raise UsageError("nothing was deleted", why="the typed names do not match")


async def print_deletion(
    chosen: Sequence[CloudResource], steps: AsyncIterator[DeletionStep], out: Output
) -> dict[str, TpuTuiError]:
    """Print each step of a deletion; return the errors of the resources that are left, by their refs."""
    remaining = {
        resource.ref: TpuTuiError(f"{resource.kind} {resource.name} was not deleted")
        for stage in in_order_of_deletion(chosen)
        for resource in stage
    }
    try:
        async for step in steps:
            if step.is_gone:
                del remaining[step.resource.ref]
            elif step.problem is not None:
                remaining[step.resource.ref] = step.problem
                out.problem(step.problem)
            else:
                out.note(step.text)
    except asyncio.CancelledError:
        out.note("Interrupted. What was requested continues in the cloud; check it with tpu-tui resources.")
        raise
    return remaining


def deletion_row(resource: CloudResource, problem: TpuTuiError | None, *, is_done: bool) -> dict[str, Any]:
    """Return the row of a deletion that --json prints."""
    detail = problem.sentence if problem is not None else None
    is_gone = is_done and problem is None
    row = {"kind": resource.kind, "name": resource.name, "zone": resource.zone}
    return {**row, "deleted": is_gone, "detail": detail}
