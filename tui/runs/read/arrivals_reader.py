"""Read a run's `arrivals`: which bytes of which log came next, and when."""

from __future__ import annotations

from typing import NamedTuple

from tui.runs.record.event_log import Arrival
from tui.runs.record.run_directory import RunDirectory

BLOCK_BYTES = 256 * 1024
"""Bytes of `arrivals` read at once: about ten thousand batches."""


class Batch(NamedTuple):
    """A line of `arrivals`: a batch of one worker's log was written."""

    worker: int
    attempt: int
    """The number of the worker's log that it belongs to, from 0."""
    end: int
    """The length of the log after the batch, in bytes."""
    time: float
    """When it was written, in Unix time."""


class ArrivalsReader:
    """Reads the batches of a run in order, from the first one on."""

    def __init__(self, directory: RunDirectory) -> None:
        self._directory = directory
        self._offset = 0
        self._newest: dict[int, tuple[int, int]] = {}
        """The attempt and the end of each worker's last batch."""
        self.is_behind = False
        """Whether the last block was more than half full, so that more batches are probably waiting."""

    def read(self) -> list[Batch]:
        """Return the batches of the next block that has any; an unfinished last line is left for later."""
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
        """Return the number of a batch's log: an end of 0, or one before the last batch's, begins another log."""
        attempt, last = self._newest.get(worker, (0, 0))
        if end == 0 or end < last:
            attempt += 1
        self._newest[worker] = (attempt, end)
        return attempt
