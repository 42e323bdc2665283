"""`fetch`: copy files of workers to this machine, with a progress line at a terminal."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
from dataclasses import asdict
from typing import TYPE_CHECKING

from tui.commands.parser.argument_types import SLICE, directory
from tui.commands.parser.commands import Commands
from tui.commands.terminal.output import Output
from tui.commands.terminal.transfer_progress import TransferProgress, format_size
from tui.errors import TpuTuiError
from tui.text.ranks import parse_ranks

if TYPE_CHECKING:
    from tui.operator import FetchedFile, Operator

_HASH_DIGITS = 12


def add_command(commands: Commands) -> None:
    """Add the command's parser."""
    fetch = commands.add(
        "fetch",
        help="copy files back from every worker, verified by hash",
        description="Copy files from the workers to DIR. Names that several workers have go below DIR/worker-N/. "
        "Files that are there already, by size and SHA-256, are skipped; a copy that broke off continues.",
    )
    fetch.add_argument("slice", metavar="SLICE", help=SLICE)
    fetch.add_argument(
        "remote", metavar="REMOTE", nargs="+", help="file, directory or quoted glob, relative to the worker's home"
    )
    fetch.add_argument("--to", metavar="DIR", type=directory, required=True, help="where the files go")
    fetch.add_argument("--worker", default="all", metavar="N", help="workers to use, e.g. 0-3,7 (default: all)")
    fetch.set_defaults(run=fetch_to_directory, many="remote")


async def fetch_to_directory(args: argparse.Namespace, operator: Operator, out: Output) -> int:
    """Copy the files and print a row for each."""
    slice_ = await operator.slices.get(args.slice)
    ranks = parse_ranks(args.worker, len(slice_.workers))
    progress = TransferProgress(len(ranks), "received")
    rows: list[FetchedFile] = []
    problems: list[TpuTuiError] = []
    fetching = operator.files.fetch(slice_, args.remote, args.to, ranks, progress)
    try:
        async with contextlib.aclosing(fetching):
            async for row in fetching:
                progress.done(row.worker)
                if isinstance(row, TpuTuiError):
                    problems.append(row)
                else:
                    rows.append(row)
    except asyncio.CancelledError:
        out.note("Interrupted. The same command continues where it stopped.")
        raise
    finally:
        progress.clear()
        _print_rows(sorted(rows, key=lambda row: (row.worker, row.path)), out)
        code = out.problems(problems)
    return code


def _print_rows(rows: list[FetchedFile], out: Output) -> None:
    if out.as_json:
        out.rows(map(asdict, rows))
    elif rows:
        state = {True: "already there", False: "copied"}
        cells = [
            (row.worker, row.path, format_size(row.bytes), row.hash[:_HASH_DIGITS], state[row.skipped])
            for row in rows
        ]
        out.table(("worker", "path", "size", "hash", "state"), cells, right=("worker", "size"))
