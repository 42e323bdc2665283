"""`workers`: list the workers of a slice after an SSH login to each."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from tui.commands.parser.argument_types import SLICE
from tui.commands.parser.commands import Commands
from tui.commands.terminal.output import Output
from tui.errors import OutOfReachError

if TYPE_CHECKING:
    from tui.operator import Operator
    from tui.pod.worker import Worker

OUT_OF_REACH = OutOfReachError.exit_code


def add_command(commands: Commands) -> None:
    """Add the command's parser."""
    workers = commands.add("workers", help="list the workers of a slice and whether each is reachable")
    workers.add_argument("slice", metavar="SLICE", help=SLICE)
    workers.set_defaults(run=show_workers)


async def show_workers(args: argparse.Namespace, operator: Operator, out: Output) -> int:
    """Print a slice's workers after an SSH login to each."""
    slice_ = await operator.slices.get(args.slice)
    try:
        workers = await operator.slices.reach_workers(slice_)
    except OutOfReachError as error:
        out.problem(error)
        workers = [replace(worker, reachable=False, error=error.sentence) for worker in slice_.workers]
    if out.as_json:
        out.document([worker.to_json() for worker in workers])
    elif workers:
        _print_workers(workers, out)
    return 0 if workers and all(worker.reachable for worker in workers) else OUT_OF_REACH


def _print_workers(workers: Sequence[Worker], out: Output) -> None:
    names = ("worker", "hostname", "internal ip", "external ip", "port", "reachable", "error")
    errors = [(worker.error or "").removeprefix(f"worker {worker.index}: ") or None for worker in workers]
    cells = [
        (worker.index, worker.hostname, worker.internal_ip, worker.external_ip, worker.port, worker.reachable)
        for worker in workers
    ]
    out.table(names, [(*row, error) for row, error in zip(cells, errors, strict=True)], right=("worker", "port"))
    for remedy in dict.fromkeys(worker.remedy for worker in workers if worker.remedy):
        out.note(f"  → {remedy}")
