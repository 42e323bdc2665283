"""`ssh`: a shell on one worker, by the ssh program, with tpu-tui's route, key and host key rules."""

from __future__ import annotations

import argparse
import os
import signal
from typing import TYPE_CHECKING

from tui.commands.parser.argument_types import SLICE, integer
from tui.commands.parser.commands import Commands
from tui.commands.terminal.output import Output
from tui.errors import UsageError
from tui.text.ranks import parse_ranks

if TYPE_CHECKING:
    from tui.operator import Operator


def add_command(commands: Commands) -> None:
    """Add the command's parser."""
    ssh = commands.add("ssh", help="open a shell on a worker, as the console's key s does; exit as ssh does")
    ssh.add_argument("slice", metavar="SLICE", help=SLICE)
    ssh.add_argument("--worker", type=integer, default=0, metavar="N", help="worker to log in to (default: 0)")
    ssh.set_defaults(run=open_shell, changes=True)


async def open_shell(args: argparse.Namespace, operator: Operator, out: Output) -> int:
    """Replace this process by ssh; with --json only print its command line."""
    slice_ = await operator.slices.get(args.slice)
    parse_ranks(str(args.worker), max(1, len(slice_.workers)))
    argv = await operator.slices.ssh_command(slice_, args.worker)
    if out.as_json:
        out.document({"slice": slice_.name, "worker": args.worker, "argv": argv})
        return 0
    await operator.close()
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # Python ignores it, and a new program inherits that
    try:
        os.execvp(argv[0], argv)
    except OSError as error:
        raise UsageError(f"cannot start {argv[0]}", why=error.strerror or str(error)) from error
