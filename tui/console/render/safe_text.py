"""Remote text made harmless for a terminal: control characters are shown, not sent."""

from __future__ import annotations

import re
import sys

from rich.cells import cell_len, set_cell_size

from tui.text.numbers import format_figure
from tui.text.printable import printable

TAB_COLUMNS = 8
"""Columns between tab stops, as terminals have them."""
ELLIPSIS = "…"
OVERWRITTEN = "␍"
"""Marks a line that was overwritten, as progress bars do."""
_COLOURS = re.compile(rb"\x1b\[[0-9;:]*[mK]")

_INVISIBLE = (0x0A, 0x061C, *range(0x200B, 0x200E), *range(0x2060, 0x2066), 0xFEFF, *range(0xFFF9, 0xFFFC))
_SHOWN = dict.fromkeys(_INVISIBLE, 65533) | {0x0A: 0x240A}
"""What `printable` keeps but a table line cannot hold: line feeds and characters without width."""


def escape_line(text: str) -> str:
    """Return the text on one line: control characters visible (`ESC` as `␛`), tabs as blanks."""
    if text.isascii() and text.isprintable():
        return text
    return printable(text).translate(_SHOWN).expandtabs(TAB_COLUMNS)


def escape_lines(text: str) -> str:
    """Return the text with every line made harmless and line breaks kept."""
    return "\n".join(escape_line(line) for line in text.splitlines())


def decode_line(data: bytes) -> str:
    """Return one line of a log as it may be shown; bytes that are not UTF-8 become `�`."""
    return escape_line(data.decode("utf-8", "replace"))


def decode_visible_line(data: bytes) -> str:
    """Return one line of a log as a terminal would show it: the newest state of a progress bar, without colours."""
    if b"\x1b" in data:
        data = _COLOURS.sub(b"", data)
    if b"\r" not in data:
        return decode_line(data)
    before, overwritten, newest = data.rstrip(b"\r \t").rpartition(b"\r")
    return (OVERWRITTEN if overwritten and before.strip() else "") + decode_line(newest)


def _columns(text: str) -> int:
    """Return the width of a harmless text. ASCII, the usual case, needs no look at each character."""
    return len(text) if text.isascii() else cell_len(text)


def fit(text: str, width: int) -> str:
    """Return the text in exactly `width` columns, cut with `…` if it is longer."""
    if width <= 0:
        return ""
    length = _columns(text)
    if length <= width:
        return text + " " * (width - length)
    return (text[: width - 1] if text.isascii() else set_cell_size(text, width - 1)) + ELLIPSIS


def shorten(text: str, width: int) -> str:
    """Return a harmless text in at most `width` columns, with `…` in its middle: the ends of run IDs differ."""
    if _columns(text) <= width or not text.isascii():
        return text
    end = (width - 1) // 2
    return text[: width - 1 - end] + ELLIPSIS + text[len(text) - end :]


def fit_right(text: str, width: int) -> str:
    """Return the text as `fit` does, but right-aligned: for numbers."""
    length = _columns(text)
    return " " * (width - length) + text if length < width else fit(text, width)


def format_number(value: float | None, decimals: int, room: int = sys.maxsize) -> str:
    """Return a figure with its significant digits, never cut in the middle; `–` if unknown."""
    if value is None:
        return "–"
    text = format_figure(value, decimals)
    if len(text) > room:
        text = format_figure(value, 0)
    return text if len(text) <= room else f"{value:.2e}"
