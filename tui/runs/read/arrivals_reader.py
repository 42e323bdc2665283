"""The one reader of a run's `arrivals`: which bytes of which log came next, and when."""

from __future__ import annotations

from typing import NamedTuple

from tui.runs.record.event_log import Arrival
from tui.runs.record.run_directory import RunDirectory

BLOCK_BYTES = 256 * 1024
"""Bytes of `arrivals` taken at once: some ten thousand batches. A fuller block means that the reader is behind."""


class Batch(NamedTuple):
    """A line of `arrivals`: a batch of one worker's log was written."""

    worker: int
    attempt: int
    """Which of the worker's logs it belongs to, counted from 0."""
    end: int
    """Where the log then ended, in bytes."""
    time: float
    """When that was, in Unix time."""


class ArrivalsReader:
    """Reads the batches of a run in order, from the first one on."""

    def __init__(self, directory: RunDirectory) -> None:
        self._directory = directory
        self._offset = 0
        self._newest: dict[int, tuple[int, int]] = {}
        """The attempt and the end of each worker's last batch."""
        self.is_behind = False
        """Whether the last block was more than half full, so that there is probably more."""

    def read(self) -> list[Batch]:
        """Return the batches of the next block that has any; a torn last line is left for later."""
        arrivals: list[Arrival] = []
        has_more = True
        while has_more and not arrivals:
            begin = self._offset
            arrivals, self._offset = self._directory.arrivals(begin, BLOCK_BYTES)
            has_more = self._offset > begin
        self.is_behind = self._offset - begin > BLOCK_BYTES // 2
        return [
            Batch(arrival.worker, self._attempt_of(arrival.worker, arrival.end), arrival.end, arrival.time)
            for arrival in arrivals
        ]

    def _attempt_of(self, worker: int, end: int) -> int:
        """Return which of a worker's logs a batch belongs to: an end of 0, or a smaller one, begins a new log."""
        attempt, last = self._newest.get(worker, (0, 0))
        if end == 0 or end < last:
            attempt += 1
        self._newest[worker] = (attempt, end)
        return attempt
