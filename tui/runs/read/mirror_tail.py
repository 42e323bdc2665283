"""Read what a run's mirror has grown by, for figures, lines and the keeper's watch over the cores.

`MirrorTail.read` yields all of it in order of arrival, `MirrorTail.read_newest` returns one worker's newest lines.
"""

from __future__ import annotations

import os
import re
import weakref
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from io import FileIO
from itertools import dropwhile
from pathlib import Path
from typing import Any

from tui.procs.file_limit import file_limit
from tui.runs.read.arrivals_reader import ArrivalsReader, Batch
from tui.runs.record.run_directory import RunDirectory
from tui.runs.record.run_status import status_of
from tui.settings.home import open_regular

READ_BLOCK_BYTES = 1024 * 1024
"""Bytes of a log read and demultiplexed at once."""

_ROUNDS_JOINED, _LEAST_JOINED = 16, 1024
"""A reader that is behind joins the batches in a window of so many for each log, at least of the second number. In a
larger window, times would be too rough, and one worker's cores would get far ahead of the others."""

_SHARE_JOINED = 1 / 256
"""Limit on the time between joined batches, as a share of the time since the run's first batch: too short to show in
a chart of the run."""

LINE_BLOCK_BYTES = 64 * 1024
"""Bytes read at once to find the beginning of a line."""

MOST_NEWEST_BYTES = 4 * 1024 * 1024
"""Bytes before the end in which to search for a line's beginning if the last line is longer than requested."""

POLL_BUDGET_BYTES = 8 * 1024 * 1024
"""Bytes read in one poll by default."""

_LINE_END = re.compile(rb"[\r\n]")


@dataclass(frozen=True, slots=True)
class Span:
    """A piece of one worker's log and when its end was written (Unix time); empty where another log begins."""

    worker: int
    start: int
    data: bytes
    time: float
    attempt: int


class MirrorTail:
    """The new bytes of a run directory since the last read, in arrival order and bounded steps.

    Successive batches of one log are joined, and for a reader that is far behind, many batches of each log. With
    `in_order`, none are joined, so that each keeps its own time.
    """

    def __init__(self, directory: RunDirectory, *, in_order: bool = False) -> None:
        self.directory = directory
        self._in_order = in_order
        self.is_over = False
        """Whether, by the run's events, no more bytes will come."""
        self.ended: set[int] = set()
        """Workers whose jobs have ended."""
        self._arrivals = ArrivalsReader(directory)
        self._began: float | None = None
        """When the run's first batch came."""
        self._events_size = 0
        self._pending: deque[Batch] = deque()
        self._read: dict[int, int] = {}
        self._attempts: dict[int, int] = {}
        self._last_time: dict[int, float] = {}
        self._files = _Files()

    def read(self, budget: int) -> Iterator[Span]:
        """Yield the next spans, at most about `budget` bytes of them."""
        while budget > 0:
            if not self._pending and not self._read_arrivals():
                yield from self._unannounced(budget)
                return
            worker, attempt, end, moment = self._pending[0]
            if attempt != self._attempts.get(worker, 0):
                self._attempts[worker] = attempt
                self._read[worker] = 0
                yield Span(worker, 0, b"", moment, attempt)
            start = self._read.get(worker, 0)
            data = self._pread(worker, start, min(end - start, READ_BLOCK_BYTES, budget))
            self._read[worker] = start + len(data)
            if self._read[worker] >= end or not data:
                self._pending.popleft()
            self._last_time[worker] = moment
            budget -= max(len(data), 1)
            if data:
                yield Span(worker, start, data, moment, self._attempts.get(worker, 0))

    @property
    def is_ahead(self) -> bool:
        """Return whether batches are known that were not read yet."""
        return bool(self._pending)

    def progress(self) -> float:
        """Return the share of the logs' bytes that was read, 0 to 1; 1 if there are no bytes."""
        read = total = 0
        for worker in self.directory.run.workers:
            total += self._log_size(worker.index)
            read += self._read.get(worker.index, 0)
        return min(1.0, read / total) if total else 1.0

    def read_events(self) -> bool:
        """Bring `is_over` and `ended` up to date; return whether the run has new events."""
        size = self.directory.events_size()
        if size <= self._events_size:
            return False
        self._events_size = size
        status = status_of(self.directory)
        self.is_over, self.ended = status.is_whole, {part.worker for part in status.workers if part.ended}
        return True

    def read_newest(self, worker: int, most: int, *, unfinished: bool = False) -> bytes:
        """Return the newest whole lines of a worker's newest log that were not read before, at most `most` bytes.

        If these bytes all belong to one line, up to `MOST_NEWEST_BYTES` are read. Earlier bytes are skipped. With
        `unfinished`, a last line without an end is included. This does not use `arrivals`: use either this or
        `read` on a tail, not both.
        """
        size, offset = self.directory.log_size(worker), self._read.get(worker, 0)
        start = max(offset, size - most)
        if start >= size:
            return b""
        data = b""
        with suppress(OSError), FileIO(open_regular(self.directory.log_path(worker))) as log:
            log.seek(start)
            data = log.read(size - start)
            if start > offset and _line_end(data) == len(data):
                start = max(offset, size - MOST_NEWEST_BYTES)
                log.seek(start)
                data = log.read(size - start)
        begin = 0 if start == offset else _line_end(data)
        end = len(data) if unfinished else max(data.rfind(b"\n"), data.rfind(b"\r")) + 1
        if end:
            self._read[worker] = start + end
        return data[begin:end]

    def skip_to_last(self, count: int) -> bool:
        """Begin with the last `count` batches and the lines that they continue; return whether any batch is skipped.

        A worker's last line without an end is not skipped: it is among the run's last lines.
        """
        skipped: dict[int, Batch] = {}
        newest: deque[Batch] = deque()
        while batches := self._arrivals.read():
            newest.extend(batches)
            while len(newest) > count:
                batch = newest.popleft()
                skipped[batch.worker] = batch
        self._begin_after(skipped)
        going_on = {batch.worker for batch in newest}
        self._pending.extend(
            batch for worker, batch in skipped.items() if worker not in going_on and self._read[worker] < batch.end
        )
        self._pending.extend(newest)
        return bool(skipped)

    def skip_to_time(self, moment: float) -> None:
        """Begin with the first batch that came at a Unix time or later, and the line that it continues."""
        skipped: dict[int, Batch] = {}
        while not self._pending and (batches := self._arrivals.read()):
            self._pending.extend(dropwhile(lambda batch: batch.time < moment, batches))
            skipped.update((batch.worker, batch) for batch in batches[: len(batches) - len(self._pending)])
        self._begin_after(skipped)

    def _begin_after(self, skipped: Mapping[int, Batch]) -> None:
        """Begin each worker's log with the line in which its last skipped batch ends."""
        for worker, batch in skipped.items():
            self._attempts[worker], self._last_time[worker] = batch.attempt, batch.time
            # In a damaged file, an arrival may name any position.
            self._read[worker] = self._line_start(worker, min(batch.end, self._log_size(worker)))

    def _line_start(self, worker: int, end: int) -> int:
        """Return the beginning of the line that contains a position of a worker's log."""
        while end > 0:
            start = max(0, end - LINE_BLOCK_BYTES)
            newline = self._pread(worker, start, end - start).rfind(b"\n")
            if newline >= 0:
                return start + newline + 1
            end = start
        return 0

    def _read_arrivals(self) -> bool:
        batches = self._arrivals.read()
        if batches and self._began is None:
            self._began = batches[0].time
        is_behind = self._arrivals.is_behind
        self._pending.extend(batches if self._in_order else _join(batches, is_behind, self._began or 0.0))
        return bool(batches)

    def _unannounced(self, budget: int) -> Iterator[Span]:
        """Yield, when the run is over, bytes without an arrival, which a killed keeper did not record."""
        if not self.is_over:
            return
        for worker in self.directory.run.workers:
            while budget > 0:
                start = self._read.get(worker.index, 0)
                data = self._pread(worker.index, start, min(READ_BLOCK_BYTES, budget))
                if not data:
                    break
                budget -= len(data)
                self._read[worker.index] = start + len(data)
                moment = self._last_time.get(worker.index, 0.0)
                yield Span(worker.index, start, data, moment, self._attempts.get(worker.index, 0))

    def _pread(self, worker: int, start: int, size: int) -> bytes:
        if size <= 0:
            return b""
        attempt = self._attempts.get(worker, 0)
        return self._files.read((worker, attempt), lambda: self._place(worker, attempt), start, size)

    def _log_size(self, worker: int) -> int:
        try:
            return self._place(worker, self._attempts.get(worker, 0)).stat().st_size
        except OSError:
            return 0

    def _place(self, worker: int, attempt: int) -> Path:
        """Return the path of an attempt's log: in the archive once another attempt has begun."""
        path = self.directory.log_path(worker)
        earlier = self.directory.attempt_path(attempt) / path.name
        return earlier if earlier.exists() else path


def _join(batches: Sequence[Batch], behind: bool, began: float) -> Iterable[Batch]:
    """Join successive batches of one log; with `behind`, join several rounds of all logs into one batch of each.

    Batches are not joined if they are further apart than `_SHARE_JOINED` of the time since the run began, at `began`.
    """
    joined: dict[Any, Batch] = {}
    previous = (-1, 0)
    serial = opened = 0
    opened_at = began
    most = max(_LEAST_JOINED, _ROUNDS_JOINED * len({batch[:2] for batch in batches})) if behind else len(batches)
    for index, batch in enumerate(batches):
        passed = batch.time - opened_at
        is_late = not 0 <= passed <= _SHARE_JOINED * (opened_at - began)
        if is_late or index - opened >= most:
            opened, opened_at = index, batch.time
        serial += is_late or batch[:2] != previous
        previous = batch[:2]
        joined[(opened, previous) if behind else serial] = batch
    return joined.values()


def _line_end(data: bytes) -> int:
    """Return the position after the first line feed or carriage return; the length if there is none."""
    match = _LINE_END.search(data)
    return match.end() if match else len(data)


class _Files:
    """Logs kept open between polls: opening one for every batch would cost more than reading it."""

    MOST = 128

    def __init__(self) -> None:
        self._open: OrderedDict[tuple[int, int], int] = OrderedDict()
        self._most = min(self.MOST, file_limit() / 4)  # by default, a process may open 256 on macOS
        weakref.finalize(self, _close_all, self._open)

    def read(self, key: tuple[int, int], path_of: Callable[[], Path], start: int, size: int) -> bytes:
        """Return bytes of the log of one worker's attempt; empty if there is no such file."""
        descriptor = self._open.get(key)
        if descriptor is None:
            try:
                descriptor = open_regular(path_of())
            except FileNotFoundError:
                return b""
            self._open[key] = descriptor
            if len(self._open) > self._most:
                os.close(self._open.popitem(last=False)[1])
        self._open.move_to_end(key)
        return os.pread(descriptor, size, start)


def _close_all(descriptors: OrderedDict[tuple[int, int], int]) -> None:
    while descriptors:
        os.close(descriptors.popitem()[1])
