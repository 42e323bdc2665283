"""Fit columns of text to a terminal that is too narrow for them. Pure.

`rich.table` would cut or break words: IDs and commands could no longer be copied.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from itertools import zip_longest

from rich.cells import cell_len

from tui.text.columns import GAP, align_columns, column_widths, join_cells

INDENT = 4
"""Blanks before columns that are continued below the first ones."""
EMPTY_CELLS = ("-", "")
"""Cells without information; where space is short, columns of nothing else are omitted."""
MIN_WRAPPED_WIDTH = 24
"""Least width of a wrapped column; wider ones contain sentences, which may be wrapped between words."""


def fit_columns(rows: Sequence[Sequence[str]], right: frozenset[int], width: int) -> Iterator[str]:
    """Yield rows (the first is the heading) aligned within `width` terminal cells.

    Sentences are wrapped; columns that still do not fit are continued below, row by row. Nothing is cut, but columns
    without information are omitted.
    """
    widths = column_widths(rows)
    if sum(widths) + GAP * (len(widths) - 1) <= width:
        yield from align_columns(rows, right)
        return
    columns = [i for i in range(len(widths)) if not all(row[i] in EMPTY_CELLS for row in rows[1:])]
    least = [min(widths[i], max(MIN_WRAPPED_WIDTH, _longest_word(rows, i))) for i in range(len(widths))]
    bands = list(_bands(columns or list(range(len(widths))), least, width))
    for row in rows:
        for index, band in enumerate(bands):
            margin = " " * INDENT if index else ""
            band_widths = _widen(band, least, widths, width - len(margin))
            cells = [_wrap_cell(row[i], cell_width) for i, cell_width in zip(band, band_widths, strict=True)]
            right_in_band = frozenset(n for n, i in enumerate(band) if i in right)
            for pieces in zip_longest(*cells, fillvalue=""):
                if text := join_cells(pieces, band_widths, right_in_band):
                    yield margin + text


def _longest_word(rows: Sequence[Sequence[str]], column: int) -> int:
    return max((cell_len(word) for row in rows for word in row[column].split()), default=0)


def _bands(columns: Sequence[int], least: Sequence[int], width: int) -> Iterator[list[int]]:
    """Yield the columns of each line that a row takes; all lines but the first are indented."""
    band: list[int] = []
    remaining = width
    for column in columns:
        if band and least[column] > remaining:
            yield band
            band, remaining = [], width - INDENT
        band.append(column)
        remaining -= least[column] + GAP
    yield band


def _widen(band: Sequence[int], least: Sequence[int], widths: Sequence[int], width: int) -> list[int]:
    """Return the columns' widths after giving the remaining space to those that were narrowed."""
    spare = width - sum(least[i] for i in band) - GAP * (len(band) - 1)
    widened = []
    for i in band:
        widened.append(min(widths[i], least[i] + max(spare, 0)))
        spare -= widened[-1] - least[i]
    return widened


def _wrap_cell(cell: str, width: int) -> list[str]:
    if cell_len(cell) <= width:
        return [cell]
    return textwrap.wrap(cell, width, break_on_hyphens=False, break_long_words=False)
