"""`sync`: copy a working tree to every worker, with a progress line at a terminal."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from typing import TYPE_CHECKING

from tui.commands.parser.argument_types import SLICE, directory
from tui.commands.parser.commands import Commands
from tui.commands.terminal.output import Output
from tui.commands.terminal.transfer_progress import TransferProgress, format_size
from tui.errors import OutOfReachError, TpuTuiError

if TYPE_CHECKING:
    from tui.operator import Operator, SyncResult


def add_command(commands: Commands) -> None:
    """Add the command's parser."""
    sync = commands.add("sync", help="copy a working tree to every worker, except git-ignored files")
    sync.add_argument("slice", metavar="SLICE", help=SLICE)
    sync.add_argument("directory", metavar="DIR", type=directory, help="root of the working tree")
    sync.set_defaults(run=sync_tree, changes=True)


async def sync_tree(args: argparse.Namespace, operator: Operator, out: Output) -> int:
    """Copy a directory to every worker and print its hash on each."""
    problems: list[TpuTuiError] = []
    rows: list[SyncResult] = []
    slice_ = await operator.slices.get(args.slice)
    progress = TransferProgress(len(slice_.workers), "sent")
    try:
        async for answer in operator.slices.sync(slice_, args.directory, progress):
            progress.done(answer.worker)
            if isinstance(answer, TpuTuiError):
                problems.append(answer)
            else:
                rows.append(answer)
    finally:
        progress.clear()
    out.problems(problems)
    rows.sort(key=lambda row: row.worker)
    if out.as_json:
        out.document([asdict(row) for row in rows])
    elif rows:
        cells = [
            (row.worker, row.hash[:12], format_size(row.bytes), "already there" if row.skipped else "copied")
            for row in rows
        ]
        out.table(("worker", "hash", "sent", "state"), cells, right=("worker", "sent"))
    return OutOfReachError.exit_code if problems else 0
