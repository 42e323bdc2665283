"""`slices`: list, create, delete, start or stop slices."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

from tui.commands.parser.argument_types import SLICE, given
from tui.commands.parser.commands import Commands
from tui.commands.parser.shell_completion import remember_slices
from tui.commands.terminal.output import Output
from tui.commands.terminal.prompts import agrees, ask, has_terminal
from tui.errors import UsageError
from tui.pod.slice_commands import can_stop

if TYPE_CHECKING:
    from tui.operator import Operator
    from tui.pod.slice import Slice

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
    create = actions.add("create", help="create a slice and wait until it is ready")
    create.add_argument("slice", metavar="NAME", help="NAME, or ZONE/NAME if several zones are configured")
    create.add_argument(
        "--type",
        metavar="TYPE",
        dest="accelerator_type",
        required=True,
        type=given,
        help="accelerator type, e.g. v3-32",
    )
    create.add_argument(
        "--version",
        metavar="RUNTIME",
        dest="runtime_version",
        required=True,
        type=given,
        help="runtime version, e.g. tpu-ubuntu2204-base",
    )
    create.add_argument("--spot", action="store_true", help="cheaper, but can be preempted at any time")
    for action, text in (
        ("delete", "permanently delete a slice; asks for its name"),
        ("start", "start a stopped slice (one worker only)"),
        ("stop", "stop a slice (one worker only): keeps its disk, releases its TPU"),
    ):
        parser = actions.add(action, help=text)
        parser.add_argument("slice", metavar="SLICE", help=SLICE)
        parser.add_argument("--yes", action="store_true", help=_YES[action])
    for parser in slices.commands.values():
        parser.add_argument("--dry-run", action="store_true", help="show what would be done, without doing it")
        parser.set_defaults(run=change_slice, changes=True)


async def list_slices(_args: argparse.Namespace, operator: Operator, out: Output) -> int:
    """Print every slice; unreachable zones are reported after the others."""
    listing = await operator.slices.list_all()
    if not listing.problems:
        remember_slices(operator.settings, listing.slices)
    if out.as_json:
        out.document([slice_.to_json() for slice_ in listing.slices])
    elif listing.slices:
        out.table(
            ("name", "zone", "type", "state", "health", "workers", "cores", "runtime", "spot", "created"),
            [
                (
                    s.name,
                    s.zone,
                    s.accelerator_type,
                    s.state,
                    s.health,
                    len(s.workers),
                    s.cores,
                    s.runtime_version,
                    s.spot,
                    s.created,
                )
                for s in listing.slices
            ],
            right=("workers", "cores"),
        )
    elif not listing.problems:
        out.note(f"No slices in {operator.slices.where}.")
    for problem in listing.problems:
        out.problem(problem)
    return max((problem.exit_code for problem in listing.problems), default=0)


async def change_slice(args: argparse.Namespace, operator: Operator, out: Output) -> int:
    """Create, delete, start or stop a slice and wait, printing progress."""
    if args.action == "create":
        steps = operator.slices.create(
            args.slice, args.accelerator_type, args.runtime_version, spot=args.spot, dry_run=args.dry_run
        )
    else:
        slice_ = await operator.slices.get(args.slice)
        steps = operator.slices.change(slice_, args.action, dry_run=args.dry_run)
        if not (args.yes or args.dry_run):
            await _ask_before(args.action, slice_)
    printed = await _print_steps(steps, out)
    if args.dry_run:
        out.note("Nothing was changed.")
    if out.as_json:
        out.document({"slice": args.slice, "action": args.action, "dry_run": args.dry_run, "steps": printed})
    return 0


async def _print_steps(steps: AsyncIterator[str], out: Output) -> list[str]:
    printed: list[str] = []
    try:
        async for step in steps:
            printed.append(step)
            out.note(step)
    except asyncio.CancelledError:
        if printed:
            out.note("Interrupted. The request continues in the cloud; check it with tpu-tui slices.")
        raise
    return printed


async def _ask_before(action: str, slice_: Slice) -> None:
    """Ask before a slice is deleted or, at a terminal, stopped. Raises UsageError for a no.

    A script may stop a slice without --yes: unlike deletion, that loses no data.
    """
    if action == "delete":
        await _ask_for_name(slice_.name)
    elif action == "stop" and can_stop(slice_) and has_terminal():
        effect = f"This stops {slice_.path}, releases its TPU and ends everything running there"
        if not await agrees(f"{effect}. Continue?"):
            raise UsageError(f"{slice_.name} was not stopped")


async def _ask_for_name(name: str) -> None:
    if not sys.stdin.isatty():
        raise UsageError(f"refusing to delete {name} without confirmation", remedy="add --yes")
    typed = await ask(f"This permanently deletes {name} and the disks of its workers. Type its name to continue: ")
    if typed.strip() != name:
        raise UsageError(f"{name} was not deleted", why="the typed name does not match")
