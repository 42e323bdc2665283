"""Lines of growing files by number: a sparse index and bounded reads."""

from __future__ import annotations

import os
from array import array
from bisect import bisect_right
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tui.settings.home import open_regular

CHECKPOINT_INTERVAL_BYTES = 64 * 1024
"""An index entry is kept for the first line after each stretch of this length."""
MAX_SHOWN_BYTES = 16 * 1024
"""Bytes read of one line for display; a line of 50 MB costs no more than this."""
MAX_SEARCHED_BYTES = 4 * 1024 * 1024
"""Bytes of one line that a filter looks at."""
MIN_BATCH_COST_BYTES = 4 * 1024
"""Bytes that placing a batch counts as at least: many tiny batches must not make a tick long."""
NEWLINE = 10
MAX_CHARACTER_BYTES = 4
"""Most bytes of a character in UTF-8; all but the first begin with the bits 10."""
CONTINUES, CONTINUATION = 0b1100_0000, 0b1000_0000


@dataclass(frozen=True)
class IndexedLine:
    """One line: who wrote it (None where that is unknown) and its bytes without the newline, cut when very long."""

    worker: int | None
    data: bytes
    missing: int = 0
    """Bytes at the end of the line that were not read."""


def clip_line(worker: int | None, begin: bytes, end: bytes, length: int) -> IndexedLine:
    """Return a line of `length` bytes, cut if it is very long; `begin` and `end` are its first and last bytes.

    A line that was overwritten again and again, as progress bars do, keeps its end, any other its beginning.
    """
    if length <= MAX_SHOWN_BYTES:
        return IndexedLine(worker, begin)
    if b"\r" in end:
        return IndexedLine(worker, end)
    cut = MAX_SHOWN_BYTES
    while cut > MAX_SHOWN_BYTES - MAX_CHARACTER_BYTES and begin[cut] & CONTINUES == CONTINUATION:
        cut -= 1
    return IndexedLine(worker, begin[:cut], length - cut)


class LineSource:
    """What a log pane shows: numbered lines of something that grows."""

    @property
    def count(self) -> int:
        """Return the number of known lines, including an unfinished last one."""
        return self.finished

    @property
    def finished(self) -> int:
        """Return the number of whole lines, which no longer change."""
        raise NotImplementedError

    @property
    def behind(self) -> int:
        """Return the number of bytes that are not indexed yet."""
        return 0

    @property
    def size(self) -> int:
        """Return the size in bytes."""
        raise NotImplementedError

    def advance(self, budget: int) -> bool:  # noqa: ARG002
        """Index about `budget` more bytes; return whether anything was new."""
        return False

    def lines(self, first: int, count: int) -> list[IndexedLine]:
        """Return lines by number; fewer at the end."""
        raise NotImplementedError

    def tail(self, count: int) -> list[IndexedLine]:
        """Return the last lines, indexed or not."""
        return self.lines(max(0, self.count - count), count)

    def block(self, first: int, budget: int) -> tuple[bytes, int]:
        """Return whole lines from `first`, about `budget` bytes, and the number after the last one."""
        raise NotImplementedError

    def close(self) -> None:
        """Close the file, if one is open."""


class FileLines(LineSource):
    """The lines of one append-only file. A file that is not there yet is empty; the unfinished last line counts."""

    size = 0
    """Bytes of the file, as of the last look."""
    finished = 0
    """Lines that end in a newline."""

    def __init__(self, path: Path, worker: int | None = None) -> None:
        self.path = path
        self.worker = worker
        self._fd: int | None = None
        self._is_closed = False
        self.indexed = 0
        """Bytes that were indexed."""
        self._starts = array("q", [0])
        self._numbers = array("q", [0])
        self._last_start = 0
        """Where the unfinished last line begins."""
        self.is_overwritten = False
        """Whether that line is written over again and again, as progress bars do."""

    @property
    def behind(self) -> int:
        """Return the number of bytes written and not indexed yet."""
        return self.size - self.indexed

    @property
    def count(self) -> int:
        """Return the number of lines, including an unfinished one."""
        return self.finished + (self._last_start < self.indexed)

    def _open(self) -> int | None:
        if self._fd is None and not self._is_closed:
            try:
                self._fd = open_regular(self.path)
            except OSError:
                return None
        return self._fd

    def close(self) -> None:
        """Close the file for good: a last paint must not open it again."""
        self._is_closed = True
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def advance(self, budget: int, limit: int | None = None) -> bool:
        """Index up to `budget` more bytes, not beyond offset `limit`; return whether there were any."""
        fd = self._open()
        if fd is None:
            return False
        if limit is None or limit > self.size:
            self.size = os.fstat(fd).st_size
        end = self.size if limit is None else min(limit, self.size)
        data = os.pread(fd, min(budget, end - self.indexed), self.indexed) if end > self.indexed else b""
        if not data:
            return False
        last = data.rfind(b"\n") + 1
        if last:
            self._count(data)
            self._last_start = self.indexed + last
        self.is_overwritten = data.find(b"\r", last) >= 0 or (self.is_overwritten and not last)
        self.indexed += len(data)
        return True

    def _count(self, data: bytes) -> None:
        """Count newlines, from one line that gets an entry to the next; the data begins where the index ends."""
        begin = 0
        while (due := self._starts[-1] + CHECKPOINT_INTERVAL_BYTES - 1 - self.indexed) < len(data):
            end = data.find(b"\n", max(begin, due)) + 1
            if not end:
                break
            self.finished += data.count(b"\n", begin, end)
            self._starts.append(self.indexed + end)
            self._numbers.append(self.finished)
            begin = end
        self.finished += data.count(b"\n", begin)

    def _clip(self, data: bytes) -> IndexedLine:
        return clip_line(self.worker, data, data[-MAX_SHOWN_BYTES:], len(data))

    def offset_of(self, number: int) -> int:
        """Return the offset of a line; the end of the index for a line that does not exist."""
        if number >= self.count:
            return self.indexed
        entry = bisect_right(self._numbers, number) - 1
        start, missing = self._starts[entry], number - self._numbers[entry]
        if not missing:
            return start
        fd = self._open()
        data = b"" if fd is None else os.pread(fd, CHECKPOINT_INTERVAL_BYTES, start)
        ends = np.flatnonzero(np.frombuffer(data, dtype=np.uint8) == NEWLINE)
        return start + int(ends[missing - 1]) + 1 if len(ends) >= missing else self._last_start

    def lines(self, first: int, count: int) -> list[IndexedLine]:
        """Return lines `first` … `first + count - 1` as far as they exist."""
        available = max(0, min(count, self.count - first))
        fd = self._open()
        if fd is None or not available:
            return []
        offset = self.offset_of(first)
        lines: list[IndexedLine] = []
        while len(lines) < available and offset < self.indexed:
            data = os.pread(fd, min(CHECKPOINT_INTERVAL_BYTES, self.indexed - offset), offset)
            if not data:
                break
            whole, newline, _ = data.rpartition(b"\n")
            if newline:
                parts = whole.split(b"\n")[: available - len(lines)]
                lines += [self._clip(part) for part in parts]
                offset += sum(len(part) + 1 for part in parts)
            else:
                after = self.offset_of(first + len(lines) + 1)
                length = after - offset - (first + len(lines) < self.finished)
                end = os.pread(fd, MAX_SHOWN_BYTES, max(offset, after - MAX_SHOWN_BYTES)).removesuffix(b"\n")
                lines.append(clip_line(self.worker, data, end, length))
                offset = after
        return lines

    def tail(self, count: int) -> list[IndexedLine]:
        """Return the last lines of the file, read from its end."""
        fd = self._open()
        if fd is None:
            return []
        size = os.fstat(fd).st_size
        start = max(0, size - min(count * 512, 1 << 20))
        data = os.pread(fd, size - start, start)
        parts = data.split(b"\n")
        if parts and not parts[-1]:
            parts.pop()
        if start and len(parts) > 1:
            parts = parts[1:]
        return [self._clip(part) for part in parts[-count:]]

    def block(self, first: int, budget: int) -> tuple[bytes, int]:
        """Return whole lines from `first` and the number of the line after them; a very long one is cut."""
        fd = self._open()
        if fd is None or first >= self.finished:
            return b"", first
        offset = self.offset_of(first)
        data = os.pread(fd, min(budget, self.indexed - offset), offset)
        whole, newline, _ = data.rpartition(b"\n")
        if newline:
            return whole + newline, first + whole.count(b"\n") + 1
        return os.pread(fd, MAX_SEARCHED_BYTES, offset).partition(b"\n")[0], first + 1


class MergedLines(LineSource):
    """Lines of all workers in the order in which they arrived: a line stands where its newline came.

    Progress bars and last lines of workers that have ended, which have no newline, stand at the end, by worker.
    `add_arrivals` takes batches as (worker, end offset); batches of the same worker in a row are one.
    """

    def __init__(self, spools: Sequence[FileLines]) -> None:
        self._spools = {spool.worker: spool for spool in spools}
        self._pending: list[tuple[int, int]] = []
        self._next = 0
        self._newest: dict[int, int] = {}
        self._workers = array("l")
        self._first_lines = array("q")
        """Number, in the worker's own file, of a batch's first line."""
        self._starts = array("q", [0])
        """Number, merged, of a batch's first line; one more entry than batches."""
        self._seen: dict[int | None, int] = dict.fromkeys(self._spools, 0)
        """Lines of each worker that are placed."""
        self._ends: dict[int | None, int] = dict.fromkeys(self._spools, 0)
        self._open_ends: dict[int, FileLines] = {}
        """Files whose unfinished last line is shown."""
        self._ended: frozenset[int] = frozenset()

    def add_arrivals(self, batches: Sequence[tuple[int, int]]) -> None:
        """Add batches in arrival order."""
        for worker, end in batches:
            self._newest[worker] = end
            if len(self._pending) > self._next and self._pending[-1][0] == worker:
                self._pending[-1] = (worker, end)
            else:
                self._pending.append((worker, end))

    def set_ended(self, workers: Collection[int]) -> None:
        """Show the unfinished last lines of these workers: they write no more."""
        if self._ended != (ended := frozenset(workers)):
            self._ended = ended
            for worker, spool in self._spools.items():
                if worker is not None:
                    self._place_open_end(worker, spool)

    @property
    def count(self) -> int:
        """Return the number of placed lines, and of unfinished ones that are shown."""
        return self.finished + len(self._open_ends)

    @property
    def finished(self) -> int:
        """Return the number of placed lines, whole ones only."""
        return self._starts[-1]

    @property
    def behind(self) -> int:
        """Return the number of bytes that arrived and are not placed yet."""
        if self._next >= len(self._pending):
            return 0
        return sum(max(0, end - self._ends.get(worker, end)) for worker, end in self._newest.items())

    @property
    def size(self) -> int:
        """Return the number of bytes placed and waiting."""
        return sum(self._ends.values()) + self.behind

    def advance(self, budget: int) -> bool:
        """Place batches until about `budget` bytes were read."""
        before = self.count
        while budget > 0 and self._next < len(self._pending):
            worker, end = self._pending[self._next]
            spool = self._spools.get(worker)
            while spool is not None and budget > 0 and spool.indexed < end:
                step = min(budget, end - spool.indexed)
                if not spool.advance(step, end):
                    break
                budget -= max(step, MIN_BATCH_COST_BYTES)
            if spool is not None and spool.indexed < end and budget <= 0:
                break
            if spool is not None:
                self._place(worker, spool)
            self._next += 1
        if self._next == len(self._pending):
            self._pending.clear()
            self._next = 0
        return self.count != before

    def _place(self, worker: int, spool: FileLines) -> None:
        self._ends[worker] = spool.indexed
        self._place_open_end(worker, spool)
        fresh = spool.finished - self._seen[worker]
        if fresh <= 0:
            return
        if self._workers and self._workers[-1] == worker:
            self._starts[-1] += fresh
        else:
            self._workers.append(worker)
            self._first_lines.append(self._seen[worker])
            self._starts.append(self._starts[-1] + fresh)
        self._seen[worker] = spool.finished

    def _place_open_end(self, worker: int, spool: FileLines) -> None:
        self._open_ends.pop(worker, None)
        if spool.is_overwritten or (worker in self._ended and spool.count > spool.finished):
            self._open_ends[worker] = spool

    def _batch(self, number: int) -> int:
        return bisect_right(self._starts, number) - 1

    def lines(self, first: int, count: int) -> list[IndexedLine]:
        """Return lines by merged number, each with its worker."""
        lines: list[IndexedLine] = []
        open_ends = [self._open_ends[worker] for worker in sorted(self._open_ends)] if self._open_ends else []
        open_ends = open_ends[max(0, first - self.finished) : max(0, first + count - self.finished)]
        end = min(first + count, self.finished)
        while first < end:
            batch = self._batch(first)
            take = min(end, self._starts[batch + 1]) - first
            own = self._first_lines[batch] + first - self._starts[batch]
            lines += self._spools[self._workers[batch]].lines(own, take)
            first += take
        return lines + [line for spool in open_ends for line in spool.lines(spool.finished, 1)]

    def tail(self, count: int) -> list[IndexedLine]:
        """Return the last placed lines; while many are waiting, the last lines of each worker's file."""
        if not self.behind or self.count >= count:
            return super().tail(count)
        share = max(1, count // max(1, len(self._spools)))
        return [line for spool in self._spools.values() for line in spool.tail(share)][-count:]

    def block(self, first: int, budget: int) -> tuple[bytes, int]:
        """Return lines from `first` to the end of its batch, at most about `budget` bytes."""
        if first >= self.finished:
            return b"", first
        batch = self._batch(first)
        last = self._first_lines[batch] + self._starts[batch + 1] - self._starts[batch]
        own = self._first_lines[batch] + first - self._starts[batch]
        spool = self._spools[self._workers[batch]]
        length = max(1, spool.offset_of(last) - spool.offset_of(own))
        data, after = spool.block(own, min(budget, length))
        return data, first + min(after, last) - own

    def close(self) -> None:
        """Close the files."""
        for spool in self._spools.values():
            spool.close()
