"""The matching lines of a source, searched for in bounded slices."""

from __future__ import annotations

from array import array
from collections.abc import Callable

from tui.console.data.line_index import MIN_BATCH_COST_BYTES, IndexedLine, LineSource

MAX_LINES_PER_BLOCK = 256
"""Matches that a search over a filter reads at a time."""


class TextFilter(LineSource):
    """The lines of a source that contain a text, whatever the case of its ASCII letters."""

    def __init__(self, source: LineSource, text: str) -> None:
        self._source = source
        self._needle = text.encode().lower()  # lowers ASCII only, as in the lines: a text always finds itself
        self._searched = 0
        """Number of the next line to look at."""
        self._found = array("q")
        self._unfinished: list[int] = []
        """Numbers of wanted lines that are not whole yet."""

    def _wants(self, line: bytes) -> bool:
        return self._needle in line.lower()

    @property
    def count(self) -> int:
        """Return the number of matches so far."""
        return len(self._found) + len(self._unfinished)

    @property
    def finished(self) -> int:
        """Return the number of matches that are whole lines."""
        return len(self._found)

    @property
    def size(self) -> int:
        """Return the size of the source in bytes."""
        return self._source.size

    @property
    def behind(self) -> int:
        """Return roughly how many bytes are not searched yet."""
        missing = self._source.finished - self._searched
        line_size = max(1, self._source.size // max(1, self._source.count))
        return self._source.behind + missing * line_size

    def number(self, place: int) -> int:
        """Return the line number in the source of a match, by its place among the matches."""
        numbers = self._found[place : place + 1] or self._unfinished[place - len(self._found) :]
        return numbers[0] if numbers else self._source.finished

    def advance(self, budget: int) -> bool:
        """Search about `budget` bytes more of what the source has indexed."""
        before = self.count
        self._source.advance(budget)
        finished = self._source.finished
        while budget > 0 and self._searched < finished:
            data, after = self._source.block(self._searched, budget)
            if after <= self._searched:
                break
            self._search(data)
            budget -= max(MIN_BATCH_COST_BYTES, len(data))
            self._searched = min(after, finished)
        last = self._source.lines(finished, self._source.count - finished)
        self._unfinished = [finished + index for index, line in enumerate(last) if self._wants(line.data)]
        return self.count != before

    def _search(self, data: bytes) -> None:
        """Record the matches in a block of whole lines, the first of which has number `_searched`."""
        low = data.lower()
        number, counted = self._searched, 0
        at = low.find(self._needle)
        while at >= 0:
            number += low.count(b"\n", counted, at)
            counted = at
            self._found.append(number)
            end = low.find(b"\n", at)
            if end < 0:
                return
            at = low.find(self._needle, end + 1)

    def lines(self, first: int, count: int) -> list[IndexedLine]:
        """Return matches by their place among the matches."""
        whole = len(self._found)
        numbers = list(self._found[first : first + count])
        numbers += self._unfinished[max(0, first - whole) : max(0, first + count - whole)]
        return [line for number in numbers for line in self._source.lines(number, 1)]

    def block(self, first: int, budget: int) -> tuple[bytes, int]:
        """Return matches from `first`, each with its newline, and the place after the last one."""
        matches = self.lines(first, max(1, min(MAX_LINES_PER_BLOCK, budget // 64, len(self._found) - first)))
        return b"".join(line.data + b"\n" for line in matches), first + len(matches)

    def close(self) -> None:
        """Close the source's files."""
        self._source.close()


class PredicateFilter(TextFilter):
    """The lines of a source that a predicate accepts, such as those of one worker in a saved log."""

    def __init__(self, source: LineSource, wanted: Callable[[bytes], bool]) -> None:
        super().__init__(source, "")
        self._wanted = wanted

    def _wants(self, line: bytes) -> bool:
        return self._wanted(line)

    def _search(self, data: bytes) -> None:
        for number, line in enumerate(data.removesuffix(b"\n").split(b"\n"), self._searched):
            if self._wanted(line):
                self._found.append(number)
