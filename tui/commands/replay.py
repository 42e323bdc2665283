"""`replay`: open the console on a saved log."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

from tui.commands.parser.argument_types import FILE, string
from tui.commands.parser.commands import Commands
from tui.commands.terminal.output import Output


def add_command(commands: Commands) -> None:
    """Add the command's parser."""
    replay = commands.add("replay", help="open the console on a saved log")
    replay.add_argument("ref", metavar="FILE", type=string, help=FILE)
    replay.set_defaults(run_blocking=replay_log)


def replay_log(args: argparse.Namespace, flags: Mapping[str, Any], out: Output) -> int:
    """Open the console on a saved log."""
    import asyncio

    from tui.commands.console import open_console, require_terminal
    from tui.operator import Operator
    from tui.settings import load

    require_terminal()
    log = asyncio.run(Operator(load(flags)).logs.open(args.ref, note=out.note))
    if log.staleness_error is not None:
        out.problem(log.staleness_error)
    return open_console(flags, replay=log)
