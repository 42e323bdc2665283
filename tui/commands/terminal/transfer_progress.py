"""The progress of a copy to or from many workers, and sizes as text."""

from __future__ import annotations

import sys
import time

from tui.commands.terminal import stdio

PROGRESS_INTERVAL_S = 0.2
"""Shortest interval between two prints of the progress line."""
_MB = 1_000_000
_KB = 1_000


class TransferProgress:
    """One line on stderr with the progress of a copy, at a terminal only."""

    def __init__(self, workers: int, verb: str) -> None:
        """Show the progress of this many workers; `verb` is `sent` or `received`."""
        self._workers = workers
        self._verb = verb
        self._done: set[int | str | None] = set()
        self._sent: dict[int, tuple[int, int]] = {}
        self._shows = stdio.understands_controls(sys.stderr)
        self._printed_at = 0.0

    def __call__(self, worker: int, sent: int, size: int) -> None:
        """Take the progress of one worker, in bytes."""
        self._sent[worker] = (sent, size)
        self._print_progress()

    def done(self, worker: int | str | None) -> None:
        """Count a worker as finished; a second call for the same worker changes nothing."""
        self._done.add(worker)
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
        line = f"{len(self._done)} of {self._workers} workers, {sent / _MB:.1f} of {size / _MB:.1f} MB {self._verb}"
        print(f"\r\x1b[K{line}", end="", file=sys.stderr, flush=True)


def format_size(count: int) -> str:
    """Format a number of bytes."""
    if count < _KB:
        return f"{count} B"
    return f"{count / _KB:.1f} kB" if round(count / _KB, 1) < _KB else f"{count / _MB:,.1f} MB"
