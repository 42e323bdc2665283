"""Read a run's lines in order of arrival: as they arrive, only the last ones, or those since a moment."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Iterable, Iterator, Sequence

from tui.logs.files.lines import Cutter, LogLine, names_core
from tui.runs.read.mirror_tail import POLL_BUDGET_BYTES, MirrorTail, Span
from tui.runs.record.run_directory import RunDirectory

__all__ = ["LineReader", "LogLine", "lines_since"]

_FIRST_BATCHES, _LINES_A_BATCH, _MORE = 64, 100, 4
"""For the last lines: batches to search at first, lines expected in a batch, and the factor by which the number of
batches grows while they hold too few lines."""


class LineReader:
    """A run's lines in order of arrival, of all or some workers or of one core; each poll continues the previous one.

    With `tail`, the first poll yields only that many of the last lines, and reads little more than these.
    """

    def __init__(
        self,
        directory: RunDirectory,
        *,
        workers: Sequence[int] | None = None,
        core: int | None = None,
        tail: int | None = None,
    ) -> None:
        self._directory = directory
        self._workers = None if workers is None else frozenset(workers)
        self._core = core
        self._wanted_last = tail
        self._begin()

    def _begin(self) -> None:
        self.tail = MirrorTail(self._directory, in_order=True)
        self._cutters: dict[int, tuple[int, Cutter, float]] = {}

    def poll(self, *, final: bool = False) -> Iterator[LogLine]:
        """Yield the new complete lines; with `final` also last lines without an end."""
        if self._wanted_last is None:
            return self._next_lines(final, POLL_BUDGET_BYTES)
        count, self._wanted_last = self._wanted_last, None
        return iter(self._last_lines(count, final))

    def _last_lines(self, count: int, final: bool) -> Iterable[LogLine]:
        batches = max(_FIRST_BATCHES, count // _LINES_A_BATCH)
        while True:
            left_out = self.tail.skip_to_last(batches)
            lines = deque(self._next_lines(final, sys.maxsize), maxlen=count)
            if len(lines) == count or not left_out:
                return lines
            batches *= _MORE
            self._begin()

    def _next_lines(self, final: bool, budget_bytes: int) -> Iterator[LogLine]:
        if final:
            self.tail.read_events()
        while True:
            has_read = False
            for span in self.tail.read(budget_bytes):
                has_read = True
                if self._workers is None or span.worker in self._workers:
                    yield from self._lines(span)
            if not (final and has_read):
                break
        if final:
            for worker in sorted(self._cutters):
                yield from self._rest(worker)

    def _lines(self, span: Span) -> Iterator[LogLine]:
        entry = self._cutters.get(span.worker)
        if entry is not None and entry[0] != span.attempt:
            yield from self._rest(span.worker)
            entry = None
        cutter = Cutter(span.start) if entry is None else entry[1]
        self._cutters[span.worker] = (span.attempt, cutter, span.time)
        yield from self._filter_lines(span.worker, span.time, cutter.cut(span.data))

    def _rest(self, worker: int) -> Iterator[LogLine]:
        """Yield the last line of a worker's log if it has no end."""
        _, cutter, moment = self._cutters[worker]
        yield from self._filter_lines(worker, moment, cutter.rest())

    def _filter_lines(self, worker: int, moment: float, lines: Iterable[tuple[int, bytes]]) -> Iterator[LogLine]:
        for offset, data in lines:
            if self._core is None or names_core(data, self._core):
                yield LogLine(worker, offset, moment, data)


def lines_since(
    directory: RunDirectory, moment: float, *, workers: Sequence[int] | None = None, core: int | None = None
) -> Iterator[LogLine]:
    """Return a run's lines since a Unix time in order of arrival; what arrived before is not read."""
    reader = LineReader(directory, workers=workers, core=core)
    reader.tail.skip_to_time(moment)
    return (line for line in reader.poll(final=True) if line.time is not None and line.time >= moment)
