"""Lines in memory as a source of a log pane: the last lines of a startup script."""

from __future__ import annotations

from collections.abc import Sequence

from tui.console.data.line_index import MAX_SHOWN_BYTES, IndexedLine, LineSource, clip_line


class ListedLines(LineSource):
    """A list of lines that is replaced as a whole."""

    def __init__(self) -> None:
        self._lines: Sequence[bytes] = ()

    def replace(self, lines: Sequence[str]) -> None:
        """Take other lines."""
        self._lines = [line.encode("utf-8", "replace") for line in lines]

    @property
    def finished(self) -> int:
        """Return the number of lines."""
        return len(self._lines)

    @property
    def size(self) -> int:
        """Return the size in bytes."""
        return sum(map(len, self._lines))

    def lines(self, first: int, count: int) -> list[IndexedLine]:
        """Return lines by number; fewer at the end."""
        return [
            clip_line(None, line[: MAX_SHOWN_BYTES + 1], line[-MAX_SHOWN_BYTES:], len(line))
            for line in self._lines[first : first + count]
        ]

    def block(self, first: int, budget: int) -> tuple[bytes, int]:  # noqa: ARG002
        """Return the lines from `first`, and the number after the last one."""
        return b"".join(line + b"\n" for line in self._lines[first:]), self.count
