"""`attach`: follow a run's log as plain text."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from tui.commands.attach_progress import follow
from tui.commands.parser.argument_types import RUN
from tui.commands.parser.commands import Commands
from tui.commands.terminal.output import Output

if TYPE_CHECKING:
    from tui.operator import Operator


def add_command(commands: Commands) -> None:
    """Add the command's parser."""
    attach = commands.add("attach", help="follow a run's log; Ctrl-C does not stop the run")
    attach.add_argument("ref", metavar="RUN", help=RUN)
    attach.set_defaults(run=attach_run)


async def attach_run(args: argparse.Namespace, operator: Operator, out: Output) -> int:
    """Follow the log of a run until it ends."""
    directory = await operator.runs.find(args.ref)
    await operator.runs.ensure_keeper(directory)
    return await follow(operator, directory, out)
