"""`buckets`: create a bucket in a slice's region, or delete one with everything in it."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from tui.commands.parser.argument_types import DRY_RUN, SLICE, string
from tui.commands.parser.commands import Commands
from tui.commands.terminal import stdio
from tui.commands.terminal.output import Output
from tui.commands.terminal.prompts import confirm_by_name, has_terminal
from tui.errors import UsageError
from tui.text.durations import format_duration
from tui.text.printable import format_count

if TYPE_CHECKING:
    from tui.operator import Operator


def add_command(commands: Commands) -> None:
    """Add the command's parser."""
    buckets = commands.add("buckets", help="create a bucket in a slice's region, or delete one")
    actions = commands.actions_of(buckets)
    create = actions.add("create", help="create a bucket in the region of a slice")
    create.add_argument("bucket", metavar="gs://BUCKET", type=string, help="its name, unique in all of Cloud Storage")
    create.add_argument("--for", dest="slice", metavar="SLICE", required=True, help=SLICE)
    create.set_defaults(run=create_bucket)
    delete = actions.add("delete", help="permanently delete a bucket and all its objects; asks for its name")
    delete.add_argument("bucket", metavar="gs://BUCKET", type=string, help="the bucket")
    delete.add_argument("--yes", action="store_true", help="do not ask for the name of a bucket that tpu-tui created")
    delete.set_defaults(run=delete_bucket)
    for parser in buckets.commands.values():
        parser.add_argument("--dry-run", action="store_true", help=DRY_RUN)
        parser.set_defaults(changes=True)


async def create_bucket(args: argparse.Namespace, operator: Operator, out: Output) -> int:
    """Create the bucket and print where it is."""
    from tui.operator.files import bucket_url

    name = str(bucket_url(args.bucket))
    slice_ = await operator.slices.get(args.slice)
    location = operator.files.region_for(slice_)
    if args.dry_run:
        out.note(f"Would create {name} in {location}, the region of {slice_.name}. Nothing was changed.")
    else:
        location = await operator.files.create_bucket(name, slice_)
        out.note(f"Created {name} in {location}, the region of {slice_.name}.")
    if out.as_json:
        out.document({"bucket": name, "location": location, "slice": slice_.name, "dry_run": args.dry_run})
    return 0


async def delete_bucket(args: argparse.Namespace, operator: Operator, out: Output) -> int:
    """Delete the bucket, with a line of progress at a terminal."""
    from tui.operator.files import bucket_url

    name = str(bucket_url(args.bucket))
    facts = await operator.files.bucket_facts(name)
    if args.dry_run:
        out.note(f"Would delete {name} with all its objects. Nothing was changed.")
        objects = None
    else:
        if not (args.yes and facts.is_own):
            await _confirm(name, is_own=facts.is_own)
        objects = await _delete(name, operator)
        out.note(f"Deleted {name} and {format_count(objects, 'object')}.")
        if objects and facts.retention_s:
            duration = format_duration(facts.retention_s)
            out.note(f"Cloud Storage keeps deleted objects of this bucket for {duration}, and charges for them.")
    if out.as_json:
        out.document({"bucket": name, "objects": objects, "dry_run": args.dry_run})
    return 0


async def _delete(name: str, operator: Operator) -> int:
    shows = stdio.understands_controls(sys.stderr)

    def show(deleted: int) -> None:
        if shows:
            print(f"\r\x1b[K{format_count(deleted, 'object')} deleted", end="", file=sys.stderr, flush=True)

    try:
        return await operator.files.delete_bucket(name, show)
    finally:
        if shows:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)


async def _confirm(name: str, *, is_own: bool) -> None:
    """Ask for the bucket's name, which --yes does not replace for a bucket that tpu-tui did not create."""
    if not (is_own or has_terminal()):
        raise UsageError(
            f"refusing to delete {name} without its name typed at a terminal",
            why="tpu-tui did not create it",
            remedy=f"run this at a terminal, or gcloud storage rm --recursive {name}",
        )
    origin = "" if is_own else ", which tpu-tui did not create"
    effect = f"This permanently deletes {name}{origin}, and all its objects"
    await confirm_by_name(f"delete {name}", effect, name, f"{name} was not deleted")
