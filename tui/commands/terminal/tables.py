"""Columns of text, also on a screen that is too narrow for them. Pure."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from itertools import zip_longest

from rich.cells import cell_len

GAP = 2
"""Blanks between two columns."""
INDENT = 4
"""Blanks before the columns that did not fit beside the first ones and stand beneath them."""
NOTHING = ("-", "")
"""Cells that say nothing; a column of nothing else is left out where there is no room."""
TEXT = 24
"""Cells a column keeps at least; what is wider holds sentences, which may be broken between words."""


def aligned(lines: Sequence[Sequence[str]], right: frozenset[int]) -> Iterator[str]:
    """The rows with their columns aligned, a line each; those in `right` (by place) to the right."""
    widths = _widths(lines)
    for line in lines:
        yield _joined(line, widths, right)


def fitted(lines: Sequence[Sequence[str]], right: frozenset[int], room: int) -> Iterator[str]:
    """The same within `room` cells: sentences are broken, and columns that still do not fit go beneath, row by row.

    Nothing is cut; only columns that say nothing are left out.
    """
    widths = _widths(lines)
    if sum(widths) + GAP * (len(widths) - 1) <= room:
        yield from aligned(lines, right)
        return
    columns = [i for i in range(len(widths)) if not all(line[i] in NOTHING for line in lines[1:])]
    least = [min(width, max(TEXT, _longest_word(lines, i))) for i, width in enumerate(widths)]
    bands = list(_bands(columns or list(range(len(widths))), least, room))
    for line in lines:
        for place, band in enumerate(bands):
            margin = " " * INDENT if place else ""
            shown = _widened(band, least, widths, room - len(margin))
            cells = [_broken(line[i], width) for i, width in zip(band, shown, strict=True)]
            to_right = frozenset(n for n, i in enumerate(band) if i in right)
            for pieces in zip_longest(*cells, fillvalue=""):
                if text := _joined(pieces, shown, to_right):
                    yield margin + text


def _widths(lines: Sequence[Sequence[str]]) -> list[int]:
    return [max(map(cell_len, column)) for column in zip(*lines, strict=True)]


def _longest_word(lines: Sequence[Sequence[str]], column: int) -> int:
    return max((cell_len(word) for line in lines for word in line[column].split()), default=0)


def _bands(columns: Sequence[int], least: Sequence[int], room: int) -> Iterator[list[int]]:
    """The columns in as many lines as it takes; the first begins at the margin, the others are indented."""
    band: list[int] = []
    left = room
    for column in columns:
        if band and least[column] > left:
            yield band
            band, left = [], room - INDENT
        band.append(column)
        left -= least[column] + GAP
    yield band


def _widened(band: Sequence[int], least: Sequence[int], widths: Sequence[int], room: int) -> list[int]:
    """The columns' widths when what is left of the room goes to those that had to give some."""
    spare = room - sum(least[i] for i in band) - GAP * (len(band) - 1)
    shown = []
    for i in band:
        width = min(widths[i], least[i] + max(spare, 0))
        spare -= width - least[i]
        shown.append(width)
    return shown


def _broken(cell: str, width: int) -> list[str]:
    if cell_len(cell) <= width:
        return [cell]
    return textwrap.wrap(cell, width, break_on_hyphens=False, break_long_words=False)


def _joined(cells: Sequence[str], widths: Sequence[int], right: frozenset[int]) -> str:
    padded = []
    for place, (cell, width) in enumerate(zip(cells, widths, strict=True)):
        blanks = " " * (width - cell_len(cell))
        padded.append(blanks + cell if place in right else cell + blanks)
    return (" " * GAP).join(padded).rstrip()
