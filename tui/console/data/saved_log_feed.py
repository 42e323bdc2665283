"""A saved log on the run screen: read once in bounded steps, shown as far as it was read."""

from __future__ import annotations

import contextlib
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING

from tui.console.data.line_index import FileLines, LineSource
from tui.console.data.line_search import PredicateFilter
from tui.console.data.run_feed import FIGURES_INTERVAL_S, MERGED, READ_BUDGET_S, Feed
from tui.errors import TpuTuiError, UsageError
from tui.logs.attribution.line_owner import LineOwner
from tui.logs.demux import Demux

if TYPE_CHECKING:
    from tui.logs.saved_log import SavedLog


class SavedLogFeed(Feed):
    """A saved log. A compressed one is unpacked into a temporary file."""

    workers: Sequence[int] = ()
    """The workers that the file names; empty until it was read to its end."""

    def __init__(self, log: SavedLog) -> None:
        self.title = log.name
        self.problem = log.staleness_error
        self.saved = self._log = log
        self._demux = Demux(dialects=log.dialects, thresholds=log.thresholds, xla_dist=log.xla_dist)
        self._blocks: Iterator[bytes] | None = log.blocks()
        self._unpacked: IO[bytes] | None = tempfile.NamedTemporaryFile() if log.is_compressed else None  # noqa: SIM115
        self._snapped, self._grown = 0.0, False
        self._owners = LineOwner({}, xla_dist=log.xla_dist)

    @property
    def is_behind(self) -> bool:
        """Return whether the file was not read to its end yet."""
        return self._blocks is not None

    @property
    def has_caught_up(self) -> bool:
        """Return whether the figures are those of the whole file."""
        return not self.is_behind and not self._grown

    @property
    def progress(self) -> float | None:
        """Return the share of the file that was read; None for a compressed one."""
        if self._log.is_compressed:
            return None
        with contextlib.suppress(OSError):
            return min(1.0, self._demux.state.bytes / max(1, self._log.path.stat().st_size))
        return None

    def poll(self) -> bool:
        """Read some more blocks; return whether there is something new to show."""
        if self._blocks is None and self.snapshot is not None and not self._grown:
            return False
        self.read()
        now = time.perf_counter()
        if self.is_behind and self.snapshot is not None and now - self._snapped < FIGURES_INTERVAL_S:
            return False
        self.snapshot, self._snapped, self._grown = self._demux.snapshot(), now, False
        return True

    def read(self) -> None:
        """Read some more blocks."""
        end = time.perf_counter() + READ_BUDGET_S
        try:
            while self._blocks is not None and time.perf_counter() < end:
                self._grown = True
                data = next(self._blocks, b"")
                if data:
                    self._take(data)
                else:
                    self._finish()
        except TpuTuiError as error:
            self.problem = error
            self._finish()

    def _take(self, data: bytes) -> None:
        """Read a block. Raises UsageError if there is no room to unpack it."""
        self._demux.feed(None, data)
        if self._unpacked is not None:
            try:
                self._unpacked.write(data)
                self._unpacked.flush()
            except OSError as error:
                raise UsageError(
                    f"{self._log.name} cannot be unpacked",
                    why=error.strerror or str(error),
                    remedy="set TMPDIR to a directory with more room",
                ) from error

    def _finish(self) -> None:
        self._blocks = None
        self._demux.finish()
        self._owners = self._demux.line_owner(xla_dist=self._log.xla_dist)
        self.workers = tuple(sorted(set(self._owners.numbers.values())))

    def log(self, which: str) -> LineSource:
        """Return the lines of the whole file, or those with the prefix or label of one worker."""
        path = self._log.path if self._unpacked is None else Path(self._unpacked.name)
        spool = FileLines(path.resolve())
        if which == MERGED:
            return spool
        return PredicateFilter(spool, lambda line: self._owners.read(line)[0] == int(which))

    def close(self) -> None:
        """Remove what was unpacked."""
        if self._unpacked is not None:
            with contextlib.suppress(OSError):  # what did not fit on the disk is written once more
                self._unpacked.close()
