"""`sync`: copy a working tree to every worker, with a progress line at a terminal."""

from __future__ import annotations

import argparse
import sys
import time
from typing import TYPE_CHECKING

from tui.commands.parser.argument_types import SLICE, directory
from tui.commands.parser.commands import Commands
from tui.commands.terminal import stdio
from tui.commands.terminal.output import Output
from tui.errors import OutOfReachError, TpuTuiError

if TYPE_CHECKING:
    from tui.operator import Operator, SyncResult

PROGRESS_INTERVAL_S = 0.2
"""Interval of the progress line."""
_MB = 1_000_000
_KB = 1_000


class SyncProgress:
    """One line on stderr with the progress of the copy, at a terminal only."""

    def __init__(self, workers: int) -> None:
        self._workers = workers
        self._done = 0
        self._sent: dict[int, tuple[int, int]] = {}
        self._shows = stdio.understands_controls(sys.stderr)
        self._printed_at = 0.0

    def __call__(self, worker: int, sent: int, size: int) -> None:
        """Take the progress of one worker, in bytes."""
        self._sent[worker] = (sent, size)
        self._print_progress()

    def done(self) -> None:
        """Count one more finished worker."""
        self._done += 1
        self._print_progress()

    def clear(self) -> None:
        """Erase the line."""
        if self._shows and self._printed_at:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)

    def _print_progress(self) -> None:
        now = time.monotonic()
        if not self._shows or now - self._printed_at < PROGRESS_INTERVAL_S:
            return
        self._printed_at = now
        sent, size = (sum(column) for column in zip(*self._sent.values(), strict=True)) if self._sent else (0, 0)
        line = f"{self._done} of {self._workers} workers, {sent / _MB:.1f} of {size / _MB:.1f} MB sent"
        print(f"\r\x1b[K{line}", end="", file=sys.stderr, flush=True)


def _size(count: int) -> str:
    return f"{count} B" if count < _KB else f"{count / _KB:.1f} kB" if count < _MB else f"{count / _MB:,.1f} MB"


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
    meter = SyncProgress(len(slice_.workers))
    try:
        async for answer in operator.slices.sync(slice_, args.directory, meter):
            meter.done()
            if isinstance(answer, TpuTuiError):
                problems.append(answer)
            else:
                rows.append(answer)
    finally:
        meter.clear()
    out.problems(problems)
    rows.sort(key=lambda row: row.worker)
    if out.as_json:
        out.document([{"worker": r.worker, "hash": r.hash, "bytes": r.bytes, "skipped": r.skipped} for r in rows])
    elif rows:
        cells = [(r.worker, r.hash[:12], _size(r.bytes), "already there" if r.skipped else "copied") for r in rows]
        out.table(("worker", "hash", "sent", "state"), cells, right=("worker", "sent"))
    return OutOfReachError.exit_code if problems else 0
