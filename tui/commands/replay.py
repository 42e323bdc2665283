"""`replay`: open the console on a saved log."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

from tui.commands.parser.argument_types import string
from tui.commands.parser.commands import Commands
from tui.commands.terminal.output import Output
from tui.errors import UsageError
from tui.pod.log_refs import STDIN


def add_command(commands: Commands) -> None:
    """Add the command's parser."""
    replay = commands.add("replay", help="open the console on a saved log")
    replay.add_argument(
        "ref", metavar="FILE", type=string, help="a log file (compressed is fine), or gs://BUCKET/OBJECT"
    )
    replay.set_defaults(run_blocking=replay_log)


def replay_log(args: argparse.Namespace, flags: Mapping[str, Any], out: Output) -> int:
    """Open the console on a saved log. Raises UsageError for standard input: the console reads keys there."""
    import asyncio

    from tui.commands.console import open_console, require_terminal
    from tui.operator import Operator
    from tui.settings import load

    if args.ref == STDIN:
        raise UsageError(
            "the console cannot read a log from standard input",
            why="it reads the keyboard there",
            remedy="save the log in a file and name that; cores, logs and report read standard input",
        )
    require_terminal()
    log = asyncio.run(Operator(load(flags)).logs.open(args.ref, note=out.note))
    if log.staleness_error is not None:
        out.problem(log.staleness_error)
    return open_console(flags, replay=log)
