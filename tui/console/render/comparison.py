"""Runs side by side, as text for a dialog. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len, set_cell_size

from tui.reports.comparison import Compared, comparison_rows, comparison_texts

_GAP = "  "


def format_comparison(compared: Sequence[Compared]) -> str:
    """Return the compared runs, a table of their figures, and what is too long for its columns."""
    numbers = [str(number) for number in range(1, len(compared) + 1)]
    runs = [f"{number}  {run.summary.facts.title}" for number, run in zip(numbers, compared, strict=True)]
    texts = [
        f"{name} {number}  {text}"
        for name, *row in comparison_texts(compared)
        for number, text in zip(numbers, row, strict=True)
    ]
    parts = (runs, _align([("", *numbers), *comparison_rows(compared)]), texts)
    return "\n\n".join("\n".join(lines) for lines in parts if lines)


def _align(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return rows as lines: the first column to the left, the others to the right."""
    widths = [max(map(cell_len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        cells = [" " * (width - cell_len(cell)) + cell for cell, width in zip(row, widths, strict=True)]
        lines.append(_GAP.join([set_cell_size(row[0], widths[0]), *cells[1:]]))
    return lines
