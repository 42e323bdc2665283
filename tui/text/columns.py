"""Align columns of text by the width of their cells on a terminal. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from rich.cells import cell_len

GAP = 2
"""Blanks between two columns."""


def align_columns(rows: Sequence[Sequence[str]], right: Collection[int] = ()) -> Iterator[str]:
    """Yield each row as a line of aligned columns; the columns with an index in `right` are right-aligned."""
    widths = column_widths(rows)
    for row in rows:
        yield join_cells(row, widths, right)


def column_widths(rows: Sequence[Sequence[str]]) -> list[int]:
    """Return the width of each column in terminal cells."""
    return [max(map(cell_len, column)) for column in zip(*rows, strict=True)]


def join_cells(cells: Sequence[str], widths: Sequence[int], right: Collection[int]) -> str:
    """Return cells as one line, padded to the widths of their columns."""
    padded = []
    for index, (cell, width) in enumerate(zip(cells, widths, strict=True)):
        blanks = " " * (width - cell_len(cell))
        padded.append(blanks + cell if index in right else cell + blanks)
    return (" " * GAP).join(padded).rstrip()
