"""`slices workers check exec sync config`: what exists, whether it works, and what goes to every worker."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tui.commands.check import add_check
from tui.commands.exec import execute_command
from tui.commands.parser.argument_types import SLICE, directory, given, some_seconds
from tui.commands.parser.shell_completion import remember_slices
from tui.commands.sync import sync_tree
from tui.commands.terminal.output import Output
from tui.commands.terminal.prompts import agrees, ask, has_terminal
from tui.errors import OutOfReachError, UsageError
from tui.pod.slice_commands import can_stop

if TYPE_CHECKING:
    from tui.operator import Operator
    from tui.pod.slice import Slice
    from tui.pod.worker import Worker

OUT_OF_REACH = OutOfReachError.exit_code
BEYOND_PROFILES = {
    "home": "holds runs, profiles and accepted host keys",
    "profile": "settings kept under this name",
    "account": "who gcloud is logged in as",
}
"""What settings mean that no profile holds."""

_YES = {
    "delete": "do not ask for the name",
    "start": "ask nothing",
    "stop": "do not ask on a terminal",
}
"""What --yes does for each change of a slice."""


def add_commands(commands: argparse._SubParsersAction[Any]) -> None:
    """Add this family's parsers."""
    _add_slices(commands)
    workers = commands.add_parser("workers", help="the workers of a slice, and whether each can be reached")
    workers.add_argument("slice", metavar="SLICE", help=SLICE)
    workers.set_defaults(run=show_workers)

    add_check(commands)

    execute = commands.add_parser("exec", help="one command on every worker; identical outputs are grouped")
    execute.add_argument("slice", metavar="SLICE -- COMMAND …", help="the slice, and what to run on its workers")
    execute.add_argument("--worker", default="all", metavar="N", help="which workers, as 0-3,7 (default: all)")
    execute.add_argument(
        "--timeout", type=some_seconds, metavar="S", help="seconds that each worker has for the login and the command"
    )
    execute.add_argument("--live", action="store_true", help="each line at once, with its worker; nothing is grouped")
    execute.set_defaults(run=execute_command, takes_job=True, changes=True)

    sync = commands.add_parser("sync", help="the working tree to every worker, as git sees it")
    sync.add_argument("slice", metavar="SLICE", help=SLICE)
    sync.add_argument("directory", metavar="DIR", type=directory, help="the top of the tree")
    sync.set_defaults(run=sync_tree, changes=True)

    config = commands.add_parser("config", help="each setting, what it means and where it comes from")
    config.add_argument("action", metavar="show", choices=("show",))
    config.set_defaults(run=show_config)


def _add_slices(commands: argparse._SubParsersAction[Any]) -> None:
    slices = commands.add_parser("slices", help="the slices there are, and their life: create, delete, start, stop")
    slices.set_defaults(run=list_slices)
    actions = slices.add_subparsers(dest="action", metavar="ACTION")
    create = actions.add_parser("create", help="make a slice and wait until it is ready")
    create.add_argument("slice", metavar="NAME", help="its name, or ZONE/NAME where several zones are configured")
    required: dict[str, Any] = {"required": True, "type": given}
    create.add_argument("--type", metavar="TYPE", dest="accelerator_type", help="accelerator, as v3-32", **required)
    create.add_argument(
        "--version", metavar="RUNTIME", dest="runtime_version", help="as tpu-ubuntu2204-base", **required
    )
    create.add_argument("--spot", action="store_true", help="cheaper, and may be taken away at any time")
    for action, text in (
        ("delete", "delete a slice for good; asks for its name"),
        ("start", "start a stopped slice of one worker"),
        ("stop", "stop a slice of one worker: its disk stays, its TPU is given back"),
    ):
        parser = actions.add_parser(action, help=text)
        parser.add_argument("slice", metavar="SLICE", help=SLICE)
        parser.add_argument("--yes", action="store_true", help=_YES[action])
    for parser in actions.choices.values():
        parser.add_argument("--dry-run", action="store_true", help="say what would be done, and do nothing")
        parser.set_defaults(run=change_slice, changes=True)


async def list_slices(_args: argparse.Namespace, operator: Operator, out: Output) -> int:
    """Print every slice; a zone that could not be asked is told and the others are listed."""
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
        out.note(f"There are no slices in {operator.slices.where}.")
    for problem in listing.problems:
        out.problem(problem)
    return max((problem.exit_code for problem in listing.problems), default=0)


async def change_slice(args: argparse.Namespace, operator: Operator, out: Output) -> int:
    """Create, delete, start or stop a slice, and wait with progress."""
    if args.action == "create":
        steps = operator.slices.create(
            args.slice, args.accelerator_type, args.runtime_version, spot=args.spot, dry_run=args.dry_run
        )
    else:
        slice_ = await operator.slices.get(args.slice)
        steps = operator.slices.change(slice_, args.action, dry_run=args.dry_run)
        if not (args.yes or args.dry_run):
            await _ask_before(args.action, slice_)
    told = await _tell(steps, out)
    if args.dry_run:
        out.note("Nothing was done.")
    if out.as_json:
        out.document({"slice": args.slice, "action": args.action, "dry_run": args.dry_run, "steps": told})
    return 0


async def _tell(steps: AsyncIterator[str], out: Output) -> list[str]:
    told: list[str] = []
    try:
        async for step in steps:
            told.append(step)
            out.note(step)
    except asyncio.CancelledError:
        if told:
            out.note("Interrupted: what was asked for goes on. tpu-tui slices shows how far it is.")
        raise
    return told


async def _ask_before(action: str, slice_: Slice) -> None:
    """Ask at a terminal before something is given up. Raises UsageError for a no.

    A script that stops a slice is not held up: unlike a deletion it loses no data.
    """
    if action == "delete":
        await _ask_for_name(slice_.name)
    elif action == "stop" and can_stop(slice_) and has_terminal():
        given_up = "its TPU is given back, and whatever runs there ends"
        if not await agrees(f"This stops {slice_.path}: {given_up}. Go on?"):
            raise UsageError(f"{slice_.name} is not stopped")


async def _ask_for_name(name: str) -> None:
    if not sys.stdin.isatty():
        raise UsageError(f"{name} is not deleted without asking", remedy="add --yes where nobody can answer")
    typed = await ask(f"This deletes {name} and the disks of its workers. Type its name to go on: ")
    if typed.strip() != name:
        raise UsageError(f"{name} is not deleted", why="the name typed is another")


async def show_workers(args: argparse.Namespace, operator: Operator, out: Output) -> int:
    """Print a slice's workers, each tried over SSH."""
    slice_ = await operator.slices.get(args.slice)
    try:
        workers = await operator.slices.reach_workers(slice_)
    except OutOfReachError as error:
        out.problem(error)
        workers = [replace(one, reachable=False, error=error.sentence) for one in slice_.workers]
    if out.as_json:
        out.document([worker.to_json() for worker in workers])
    elif workers:
        _print_workers(workers, out)
    return 0 if workers and all(worker.reachable for worker in workers) else OUT_OF_REACH


def _print_workers(workers: Sequence[Worker], out: Output) -> None:
    names = ("worker", "hostname", "internal ip", "external ip", "port", "reachable", "error")
    errors = [(one.error or "").removeprefix(f"worker {one.index}: ") or None for one in workers]
    cells = [(w.index, w.hostname, w.internal_ip, w.external_ip, w.port, w.reachable) for w in workers]
    out.table(names, [(*row, error) for row, error in zip(cells, errors, strict=True)], right=("worker", "port"))
    for remedy in dict.fromkeys(one.remedy for one in workers if one.remedy):
        out.note(f"  → {remedy}")


async def show_config(_args: argparse.Namespace, operator: Operator, out: Output) -> int:
    """Print each setting, its value, where it came from and what it means."""
    from tui.settings.fields import FIELDS

    meanings = BEYOND_PROFILES | {field.name: field.meaning for field in FIELDS}
    told = [(s.name, _plain(s.value), s.origin, meanings.get(s.name)) for s in operator.settings.origins.values()]
    if out.as_json:
        names = ("name", "value", "origin", "meaning")
        out.document([dict(zip(names, one, strict=True)) for one in told])
    else:
        rows = [(name, _in_words(value), origin, meaning) for name, value, origin, meaning in told]
        out.table(("setting", "value", "from", "meaning"), rows)
    return 0


def _in_words(value: Any) -> Any:
    if isinstance(value, dict):
        return ", ".join(f"{name} {_in_words(item)}" for name, item in value.items()) or None
    return (", ".join(value) or None) if isinstance(value, list) else value


def _plain(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return [str(item) for item in value]
    if value is None or isinstance(value, (bool, int, float)):
        return value
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    return str(value)
