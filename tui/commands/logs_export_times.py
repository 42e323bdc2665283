"""Select lines of a saved log; lines of a Cloud Logging export get the time of their entry."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING

from tui.logs.attribution.cloud_logging import ExportEntry, ExportReader
from tui.logs.files.line_filter import Choice, Picked, forwards, last
from tui.logs.saved_log import SavedLine

if TYPE_CHECKING:
    from pathlib import Path

    from tui.logs.saved_log import SavedLog


class EntryTimes:
    """The times of an export's entries, by the offsets of their lines; other lines have no time."""

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._moments: list[float | None] = []
        self._places: list[int] = []
        """The index of each entry's first line in the two lists above."""

    @classmethod
    def of(cls, log: SavedLog) -> EntryTimes | None:
        """Read the times of all entries of a log; None where it is not an export."""
        blocks = log.blocks()
        head = next(blocks, b"")
        first = head.partition(b"\n")[0]
        if not ExportReader.is_export_start(first):
            return None
        times, exports = cls(), ExportReader(first)
        start = 0
        for stretch in forwards(chain((head,), blocks)):
            start = stretch.offset if stretch.begins else start
            if not stretch.ends:
                exports.hold_part(stretch.data)
                continue
            for line in stretch.data.removesuffix(b"\n").split(b"\n"):
                times._take(start, line, exports)
                start += len(line) + 1
        times._record(exports.finish())
        return times if any(moment is not None for moment in times._moments) else None

    def _take(self, offset: int, line: bytes, exports: ExportReader) -> None:
        before = exports.started
        entries = list(exports.add_line(line))
        if exports.started == before and any(isinstance(entry, bytes) for entry in entries):
            self._begin(offset)
        for _ in range(before, exports.started):
            self._places.append(len(self._starts))
            self._begin(offset)
        self._record(entries)

    def _begin(self, offset: int) -> None:
        self._starts.append(offset)
        self._moments.append(None)

    def _record(self, entries: Iterable[bytes | tuple[int, ExportEntry]]) -> None:
        for item in entries:
            if isinstance(item, tuple):
                number, entry = item
                self._moments[self._places[number]] = entry.moment

    def at(self, offset: int) -> float | None:
        """Return the time of the entry that the line at this offset belongs to."""
        index = bisect_right(self._starts, offset) - 1
        return None if index < 0 else self._moments[index]


def picked_lines(log: SavedLog, choice: Choice, tail: int | None, cache: Path | None) -> Iterator[Picked]:
    """Return the wanted lines of a saved log with their newlines; `since` applies to entries of an export."""
    times = None if choice.since is None else EntryTimes.of(log)
    if times is None:
        return log.picked(choice, tail=tail, cache=cache)
    return _picked_with(times, log, choice, tail, cache)


def numbered_lines(log: SavedLog, choice: Choice, tail: int | None, cache: Path | None) -> Iterable[SavedLine]:
    """Return the wanted lines with workers and times, without newlines."""
    times = EntryTimes.of(log)
    if times is None:
        return log.lines(worker=choice.worker, core=choice.core, since=choice.since, tail=tail, cache=cache)
    lines = _picked_with(times, log, choice, tail, cache, numbered=True)
    return (SavedLine(line.worker, line.offset, line.time, line.data.removesuffix(b"\n")) for line in lines)


def has_dates(log: SavedLog, cache: Path | None) -> bool:
    """Return whether any line or entry has a date and time."""
    return next(picked_lines(log, Choice(since=-math.inf), None, cache), None) is not None


def _picked_with(
    times: EntryTimes, log: SavedLog, choice: Choice, tail: int | None, cache: Path | None, *, numbered: bool = False
) -> Iterator[Picked]:
    since = choice.since
    lines = (
        replace(line, time=moment if (moment := times.at(line.offset)) is not None else line.time)
        for line in log.picked(replace(choice, since=None), cache=cache, numbered=numbered)
    )
    matches = (line for line in lines if since is None or (line.time is not None and line.time >= since))
    yield from matches if tail is None else last(matches, tail)
