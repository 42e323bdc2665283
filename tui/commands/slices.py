"""`slices`: list, create, describe, delete, start or stop slices and queued resources, and what zones offer."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from tui.commands.parser.argument_types import DRY_RUN, SLICE
from tui.commands.parser.commands import Commands
from tui.commands.parser.shell_completion import remember_offers, remember_slices
from tui.commands.slices_create import add_create
from tui.commands.terminal.output import Output, to_json_text
from tui.commands.terminal.prompts import confirm, confirm_by_name, has_terminal
from tui.commands.terminal.steps import print_steps
from tui.errors import UsageError
from tui.pod.slice import INSTANCE_GROUP
from tui.pod.slice_commands import can_stop
from tui.text.durations import format_elapsed

if TYPE_CHECKING:
    from tui.operator import Operator
    from tui.pod.creation.queued_request import QueuedRequest
    from tui.pod.slice import Slice

_FIELDS = {"type": "accelerator_type", "runtime": "runtime_version"}
"""The fields of the columns with shorter names."""
_QUEUED_REQUEST = "a queued resource: NAME, or ZONE/NAME if several zones are configured"
_YES = {
    "delete": "do not ask for the slice's name",
    "start": "accepted for consistency; start never asks",
    "stop": "do not ask for confirmation",
}
"""Help of --yes for each action."""


def add_command(commands: Commands) -> None:
    """Add the command's parser."""
    slices = commands.add("slices", help="list, create, delete, start or stop slices")
    slices.set_defaults(run=list_slices)
    actions = commands.actions_of(slices, required=False)
    add_create(actions)
    for action, text in (
        ("delete", "permanently delete a slice; asks for its name"),
        ("start", "start a stopped slice (one worker only)"),
        ("stop", "stop a slice (one worker only): keeps its disk, releases its TPU"),
    ):
        parser = actions.add(action, help=text)
        parser.add_argument("slice", metavar="SLICE", help=SLICE)
        parser.add_argument("--yes", action="store_true", help=_YES[action])
        parser.add_argument("--dry-run", action="store_true", help=DRY_RUN)
        parser.set_defaults(run=change_slice, changes=True)
    delete = slices.commands["delete"]
    delete.add_argument("--queued", action="store_true", help="SLICE is the name of a queued resource: delete that")
    delete.add_argument("--force", action="store_true", help="with --queued: delete its slices too")
    _add_queue_actions(actions)
    types = actions.add("types", help="list the accelerator types, runtime versions and TPU machine types of zones")
    types.set_defaults(run=list_types)
    describe = actions.add("describe", help="show everything that the API reports of a slice")
    describe.add_argument("slice", metavar="SLICE", help=SLICE)
    describe.set_defaults(run=describe_slice)


def _add_queue_actions(actions: Commands) -> None:
    """Add the parsers of the actions on queued resources."""
    queued = actions.add("queued", help="list queued resources, with state, reason and age")
    queued.set_defaults(run=list_queued)
    reset = actions.add("reset", help="put a queued resource back into the queue; asks for its name")
    reset.add_argument("request", metavar="NAME", help=_QUEUED_REQUEST)
    reset.add_argument("--yes", action="store_true", help="do not ask for the name")
    reset.add_argument("--dry-run", action="store_true", help=DRY_RUN)
    reset.set_defaults(run=reset_queued, changes=True)


async def list_slices(_args: argparse.Namespace, operator: Operator, out: Output) -> int:
    """Print every slice; unreachable zones are reported after the others."""
    listing = await operator.slices.list_all()
    if not listing.problems:
        remember_slices(operator.settings, listing.slices)
    rows = [slice_.to_json() for slice_ in listing.slices]
    if out.as_json:
        out.document(rows)
    elif rows:
        columns = ("name", "zone", "type", "state", "health", "workers", "cores", "runtime", "spot", "created")
        cells = [[row[_FIELDS.get(name, name)] for name in columns] for row in rows]
        out.table(columns, cells, right=("workers", "cores"))
    elif not listing.problems:
        out.note(f"No slices in {operator.slices.where}.")
    code = out.problems(listing.problems)
    if not out.as_json:
        for note in listing.notes:
            out.note(f"note: {note}")
    return code


async def change_slice(args: argparse.Namespace, operator: Operator, out: Output) -> int:
    """Delete, start or stop a slice and wait, printing progress."""
    if args.action == "delete":
        if args.queued:
            return await _delete_queued(args, operator, out)
        if args.force:
            raise UsageError("--force is for queued resources", remedy="add --queued, or omit it")
    slice_ = await operator.slices.get(args.slice)
    steps = operator.slices.change(slice_, args.action, dry_run=args.dry_run)
    if not (args.yes or args.dry_run):
        await _ask_before(args.action, slice_)
    return await print_steps(steps, args.slice, args.action, out, dry_run=args.dry_run)


async def list_types(_args: argparse.Namespace, operator: Operator, out: Output) -> int:
    """Print what every zone offers; zones that failed are reported after the others."""
    listing = await operator.slices.offers_with_machines()
    remember_offers(operator.settings, listing.offers)
    rows = [row for offer in listing.offers for row in offer.to_json()]
    if out.as_json:
        out.document(rows)
    elif rows:
        cells = [
            (row["zone"], row["type"], ", ".join(row["topologies"]) or None, len(row["versions"]) or None)
            for row in rows
        ]
        out.table(("zone", "type", "topologies", "versions"), cells, right=("versions",))
        out.text()
        versions = [(offer.zone, ", ".join(offer.versions)) for offer in listing.offers if offer.versions]
        out.table(("zone", "versions"), versions)
    return out.problems(listing.problems)


async def describe_slice(args: argparse.Namespace, operator: Operator, out: Output) -> int:
    """Print a slice's row and, as `resource`, the API's own document of it."""
    slice_ = await operator.slices.get(args.slice)
    resource = await operator.slices.describe(slice_)
    if out.as_json:
        out.document({**slice_.to_json(), "resource": resource})
        return 0
    facts = [(name, value) for name, value in slice_.to_json().items() if value not in (None, [], {}, "")]
    out.facts([(name, to_json_text(value) if isinstance(value, dict | list) else value) for name, value in facts])
    out.text(to_json_text(resource, indent=2))
    return 0


async def _ask_before(action: str, slice_: Slice) -> None:
    """Ask before a slice is deleted or, at a terminal, stopped. Raises UsageError for a no.

    A script may stop a slice without --yes: unlike deletion, that loses no data.
    """
    if action == "delete":
        addition = " and what tpu-tui made for it" if slice_.source == INSTANCE_GROUP else ""
        effect = f"This permanently deletes {slice_.name}{addition} and the disks of its workers"
        await confirm_by_name(f"delete {slice_.name}", effect, slice_.name, f"{slice_.name} was not deleted")
    elif action == "stop" and can_stop(slice_) and slice_.source != INSTANCE_GROUP and has_terminal():
        effect = f"This stops {slice_.path}, releases its TPU and ends everything running there"
        await confirm(f"stop {slice_.path}", effect, f"{slice_.name} was not stopped")


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


async def _delete_queued(args: argparse.Namespace, operator: Operator, out: Output) -> int:
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
