"""What the run screen shows, read from a run directory or a saved log in bounded steps."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from tui.console.data.line_index import FileLines, LineSource, MergedLines
from tui.errors import TpuTuiError
from tui.runs.read.arrivals_reader import ArrivalsReader
from tui.runs.record.run_directory import EVENTS_FILE, RunDirectory
from tui.runs.record.run_status import RunStatus, status_of

if TYPE_CHECKING:
    from tui.logs.dialects.dialect import Dialect
    from tui.logs.saved_log import SavedLog
    from tui.logs.snapshot import Snapshot
    from tui.runs.read.latest_figures import FiguresCache, LatestFigures
    from tui.runs.read.sample_reader import RunReader

READ_BYTES = 256 * 1024
"""Bytes of logs demultiplexed at a time: a few milliseconds."""
READ_BUDGET_S = 0.008
"""Seconds for which logs are read in one go: a key never waits longer for them."""
FIGURES_INTERVAL_S = 0.2
"""Seconds between two sets of figures: people read no faster, and a repaint of a large screen costs 20 ms."""
SNAPSHOT_INTERVAL_S = 1.0
"""Seconds between two sets of figures of a live run without new lines: its cores may have become silent."""
NEWEST_FIGURES_INTERVAL_S = 2.0
"""Seconds between two looks at the ends of logs that are still being read."""
KEEPER_CHECK_INTERVAL_S = 1.0
"""Seconds between two looks at whether a keeper lives."""
MERGED = "merged"
MAX_BLANK_LINES = 2
"""Blank lines among the last lines of a worker that are skipped."""


class Feed:
    """One run, or one saved log, as the run screen sees it."""

    title: str
    saved: SavedLog | None = None
    status: RunStatus | None = None
    """The run's state as of the last poll; None for a saved log."""
    snapshot: Snapshot | None = None
    """The figures of every core as of the last poll; None before anything was read."""
    problem: TpuTuiError | None = None
    """The error that prevents reading, if any."""

    @property
    def workers(self) -> Sequence[int]:
        """Return the workers that have a log of their own."""
        raise NotImplementedError

    @property
    def is_behind(self) -> bool:
        """Return whether there is more to read than one step takes."""
        raise NotImplementedError

    @property
    def has_caught_up(self) -> bool:
        """Return whether everything present was read once."""
        raise NotImplementedError

    @property
    def progress(self) -> float | None:
        """Return the share of the logs that was read, 0 to 1; None if their size is unknown."""
        return None

    @property
    def newest(self) -> LatestFigures | None:
        """Return the figures at the ends of the logs while these are read for the first time; None if unknown."""
        return None

    def poll(self) -> bool:
        """Read a little more; return whether there is anything new to show."""
        raise NotImplementedError

    def read(self) -> None:
        """Read a little more between two polls, for logs that grow faster than one step per poll."""
        raise NotImplementedError

    def log(self, which: str) -> LineSource:
        """Return the lines of `merged` or of a worker by its number."""
        raise NotImplementedError

    def add_arrivals(self, source: LineSource) -> None:
        """Pass what arrived since the last call to a merged source; a saved log is already in order."""

    def last_lines(self, worker: int, count: int) -> list[bytes]:  # noqa: ARG002
        """Return the last lines of a worker that are not blank, at most `count`; a saved log has no failed worker."""
        return []

    def close(self) -> None:
        """Close files."""
        raise NotImplementedError


class RunFeed(Feed):
    """A run directory, growing or not."""

    is_behind, has_caught_up = False, False

    def __init__(
        self, directory: RunDirectory, *, dialects: Sequence[Dialect], thresholds: Mapping[str, float]
    ) -> None:
        self.directory = directory
        self._dialects = dialects
        self._thresholds = thresholds
        self.title = directory.id
        self._reader: RunReader | None = None
        self._is_closed = False
        self._events_size = -1
        self._keeper_checked_at = 0.0
        self._snapped = 0.0
        self._grown = False
        self._glances: FiguresCache | None = None
        self._newest: LatestFigures | None = None
        self._glanced = -math.inf
        self._arrivals: WeakKeyDictionary[MergedLines, ArrivalsReader] = WeakKeyDictionary()

    @property
    def workers(self) -> Sequence[int]:
        """Return the indexes of the run's workers."""
        return [worker.index for worker in self.directory.run.workers]

    @property
    def progress(self) -> float | None:
        """Return the share of the newest logs' bytes that was read."""
        return None if self._reader is None else self._reader.tail.progress()

    @property
    def newest(self) -> LatestFigures | None:
        """Return the figures at the ends of the logs, refreshed now and then until all is read."""
        now = time.monotonic()
        if not self.has_caught_up and now - self._glanced >= NEWEST_FIGURES_INTERVAL_S:
            from tui.runs.read.latest_figures import FiguresCache

            self._glances = self._glances or FiguresCache(self._dialects)
            self._newest = self._glances.get(self.directory)
            self._glanced = time.monotonic()
        return self._newest

    def poll(self) -> bool:
        """Read one step of what arrived, and the events if there are new ones."""
        if self._is_closed:
            return False
        try:
            fresh = self._poll_status()
            fresh = self._poll_cores() or fresh
            self.problem = None
            return fresh
        except OSError as error:
            return self._report_read_error(error)

    def _report_read_error(self, error: OSError) -> bool:
        self.is_behind = False
        self.problem = TpuTuiError(f"cannot read {self.directory.path}", why=error.strerror or str(error))
        return True

    def _poll_status(self) -> bool:
        size = (self.directory.path / EVENTS_FILE).stat().st_size
        now = time.monotonic()
        before = self.status
        if before is None or size != self._events_size or now - self._keeper_checked_at > KEEPER_CHECK_INTERVAL_S:
            self._events_size, self._keeper_checked_at = size, now
            self.status = status_of(self.directory)
        return before != self.status

    def read(self) -> None:
        """Read one step of what arrived."""
        if self._is_closed:
            return
        try:
            self._read_logs()
        except OSError as error:
            self._report_read_error(error)

    def _read_logs(self) -> RunReader:
        if self._reader is None:
            from tui.runs.read.sample_reader import RunReader

            self._reader = RunReader(self.directory, dialects=self._dialects, thresholds=self._thresholds)
        end = time.perf_counter() + READ_BUDGET_S
        self.is_behind = True
        while self.is_behind and time.perf_counter() < end:
            self.is_behind = self._reader.poll(READ_BYTES)
            self._grown = self._grown or self.is_behind
        return self._reader

    def _poll_cores(self) -> bool:
        reader = self._read_logs()
        live = self.status is not None and not self.status.state.is_over
        now = time.perf_counter()
        age = now - self._snapped
        is_due = (self._grown and age > FIGURES_INTERVAL_S) or (live and age > SNAPSHOT_INTERVAL_S)
        reads_end = not self.has_caught_up and not self.is_behind
        if self.snapshot is not None and not is_due and not reads_end:
            return False
        self.snapshot, self._snapped, self._grown = reader.snapshot(), now, False
        self.has_caught_up = self.has_caught_up or reads_end
        return True

    def log(self, which: str) -> LineSource:
        """Return a new source over the mirrors."""
        if which == MERGED:
            return MergedLines([FileLines(self.directory.log_path(worker), worker) for worker in self.workers])
        return FileLines(self.directory.log_path(int(which)), int(which))

    def add_arrivals(self, source: LineSource) -> None:
        """Pass the next block of arrivals to a merged source."""
        if isinstance(source, MergedLines):
            reader = self._arrivals.setdefault(source, ArrivalsReader(self.directory))
            batches = reader.read()
            newest = {batch.worker: batch.attempt for batch in batches}
            source.add_arrivals(
                [(batch.worker, batch.end) for batch in batches if batch.attempt == newest[batch.worker]]
            )
            if self.status is not None:
                is_over = self.status.state.is_over
                source.set_ended([part.worker for part in self.status.workers if is_over or part.ended])

    def last_lines(self, worker: int, count: int) -> list[bytes]:
        """Read from the mirror's end."""
        with closing(FileLines(self.directory.log_path(worker), worker)) as log:
            return [line.data for line in log.tail(count + MAX_BLANK_LINES) if line.data.strip()][-count:]

    def close(self) -> None:
        """Close the reader's files."""
        self._reader, self._is_closed = None, True
