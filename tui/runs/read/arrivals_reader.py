"""The one reader of a run's `arrivals`: which bytes of which log came next, and when."""

from __future__ import annotations

import os
from contextlib import suppress

from tui.runs.record.event_log import parse_arrival
from tui.runs.record.run_directory import ARRIVALS_FILE, RunDirectory

BLOCK_BYTES = 256 * 1024
"""Bytes of `arrivals` taken at once: some ten thousand batches. A fuller block means that the reader is behind."""

Batch = tuple[int, int, int, float]
"""A line of `arrivals`: worker, which of its logs (counted from 0), where the log then ended, and when that was."""


class ArrivalsReader:
    """Reads the batches of a run in order, from the first one on."""

    def __init__(self, directory: RunDirectory) -> None:
        self._path = directory.path / ARRIVALS_FILE
        self._offset = 0
        self._newest: dict[int, tuple[int, int]] = {}
        """The attempt and the end of each worker's last batch."""
        self.is_behind = False
        """Whether the last block was more than half full, so that there is probably more."""

    def read(self) -> list[Batch]:
        """Return the batches of the next block; a torn last line is left for later."""
        return self._read(BLOCK_BYTES)

    def read_rest(self) -> list[Batch]:
        """Return all batches that are left."""
        with suppress(FileNotFoundError):
            return self._read(self._path.stat().st_size - self._offset)
        return []

    def _read(self, size: int) -> list[Batch]:
        data = read_range(self._path, self._offset, size)
        self.is_behind = len(data) > BLOCK_BYTES // 2
        data = data[: data.rfind(b"\n") + 1]
        self._offset += len(data)
        arrivals = filter(None, map(parse_arrival, data.splitlines()))
        return [(one.worker, self._attempt_of(one.worker, one.end), one.end, one.time) for one in arrivals]

    def _attempt_of(self, worker: int, end: int) -> int:
        """Return which of a worker's logs a batch belongs to: an end of 0, or a smaller one, begins a new log."""
        attempt, last = self._newest.get(worker, (0, 0))
        if end == 0 or end < last:
            attempt += 1
        self._newest[worker] = (attempt, end)
        return attempt


def read_range(path: os.PathLike[str], start: int, size: int) -> bytes:
    """Return at most `size` bytes of a file from byte `start` on, none where there is no file. Raises OSError."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return b""
    try:
        return os.pread(descriptor, size, start)
    finally:
        os.close(descriptor)
