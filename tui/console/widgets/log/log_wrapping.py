"""Lines of a log as rows of its pane: cut or wrapped, with the matches of a filter. Pure functions."""

from __future__ import annotations

import re
from typing import NamedTuple

from rich.cells import chop_cells
from rich.segment import Segment
from textual.strip import Strip

from tui.console.data.line_index import IndexedLine
from tui.console.render.safe_text import ELLIPSIS, decode_line, decode_visible_line, fit

WORKER_COLORS = ("cyan", "magenta", "yellow", "green", "bright_blue", "bright_red", "bright_cyan", "bright_magenta")

SEVERITIES = ("error", "warning")
_SEVERE = re.compile(
    r"\b(?:(?P<error>(?:ERROR|CRITICAL|FATAL)\b|Traceback \(most recent|[A-Z]\w*(?:Error|Exception):"
    r"|[Ll]oss[=:] ?nan\b)|(?P<warning>(?:WARN|WARNING)\b|[A-Z]\w*Warning:))"
)
"""Words by which logs mark errors and warnings. A word such as `error=0.5` is a figure, not an error."""


def get_worker_color(worker: int) -> str:
    """Return a worker's colour. Colours repeat; the number identifies the worker."""
    return WORKER_COLORS[worker % len(WORKER_COLORS)]


def explain_no_lines(wanted: str, *, is_searching: bool) -> str:
    """Return what a pane without lines shows, given the text of its filter."""
    found = "Searching…" if is_searching else "No lines match. Esc clears the filter."
    return found if wanted else "Log is empty"


class WrappedRow(NamedTuple):
    """A row of the pane: the place of its line in the window, and the part of the text that is shown."""

    place: int
    text: str
    line: str
    """The whole text of the line."""
    start: int
    """Where the part begins in it."""
    is_first: bool


def format_whole_line(line: IndexedLine) -> str:
    """Return a line as it was written, and how many of its bytes were not read."""
    return decode_line(line.data) + format_missing(line)


def format_visible_line(line: IndexedLine) -> str:
    """Return a line as a terminal would show it, and how much of it was too long to be read."""
    return decode_visible_line(line.data) + format_missing(line)


def format_missing(line: IndexedLine) -> str:
    """Return a note that a very long line goes on, and how to see it."""
    return f" {ELLIPSIS} {line.missing:,} more bytes (tpu-tui logs prints them)" if line.missing else ""


def cut_line(line: str, place: int, room: int, sideways: int) -> list[WrappedRow]:
    """Return the single row of a cut line, from column `sideways` on."""
    if not sideways:
        return [WrappedRow(place, fit(line, room), line, 0, is_first=True)]
    strip = Strip([Segment(line)])
    return [WrappedRow(place, fit(strip.crop(sideways).text, room), line, len(strip.crop(0, sideways).text), True)]


def wrap_line(line: str, place: int, room: int) -> list[WrappedRow]:
    """Return the rows of a wrapped line."""
    rows: list[WrappedRow] = []
    start = 0
    for part in chop_cells(line, room) or [""]:
        rows.append(WrappedRow(place, part, line, start, not start))
        start += len(part)
    return rows


def clip_rows(rows: list[WrappedRow], height: int, room: int) -> list[WrappedRow]:
    """Return the rows that fit; a line that continues below ends with `…`."""
    shown = rows[:height]
    if len(rows) > height and shown[0].place == rows[height].place:
        shown[-1] = shown[-1]._replace(text=fit(shown[-1].text + ELLIPSIS, room))
    return shown


def find_severity(line: str) -> tuple[str, ...]:
    """Return the style of a line that reports an error or a warning, as its component class; empty for others."""
    match = _SEVERE.search(line)
    return (f"log--{match.lastgroup}",) if match else ()


def find_matches(row: WrappedRow, text: str) -> list[tuple[int, int]]:
    """Return the parts of a row that match a text, whatever its case; a match across the edge is cut there."""
    begin = max(0, row.start - len(text))
    near = row.line[begin : row.start + len(row.text) + len(text)]
    ends = [
        tuple(min(max(0, offset + begin - row.start), len(row.text)) for offset in match.span())
        for match in re.finditer(re.escape(text), near, re.IGNORECASE)
    ]
    return [(start, end) for start, end in ends if start < end]
