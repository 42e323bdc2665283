"""`open`: open the console on one run."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tui.commands.parser.argument_types import RUN
from tui.commands.parser.commands import Commands
from tui.commands.terminal.output import Output
from tui.errors import UsageError
from tui.pod.log_refs import names_a_log
from tui.pod.run import is_run_id

if TYPE_CHECKING:
    from tui.operator import Operator, RunDirectory


def add_command(commands: Commands) -> None:
    """Add the command's parser."""
    parser = commands.add("open", help="open the console on one run")
    parser.add_argument("ref", metavar="RUN", help=RUN)
    parser.set_defaults(run_blocking=open_run)


def open_run(args: argparse.Namespace, flags: Mapping[str, Any], _out: Output) -> int:
    """Open the console on one run."""
    from tui.commands.console import open_console, require_terminal
    from tui.commands.terminal.prompts import prompter_for_terminal
    from tui.operator import Operator
    from tui.settings import load

    require_terminal()
    operator = Operator(load(flags), prompter=prompter_for_terminal())
    try:
        directory = operator.runs.open(args.ref)
    except UsageError:
        if not (is_run_id(args.ref) or names_a_log(args.ref)):
            raise
        directory = asyncio.run(_find(args.ref, operator))
    return open_console(flags, open_run=directory)


async def _find(ref: str, operator: Operator) -> RunDirectory:
    """Find a run that another machine launched, on its workers."""
    async with operator:
        return await operator.runs.find(ref)
