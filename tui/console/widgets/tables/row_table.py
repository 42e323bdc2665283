"""A table of a few hundred ready-made rows: slices, workers, checks, runs, acknowledgements."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rich.cells import cell_len

from tui.console.widgets.tables.line_table import LineTable
from tui.console.widgets.tables.table_columns import Cell
from tui.text.numbers import parse_integer

UNKNOWN_TEXTS = ("", "–")


@dataclass(frozen=True)
class TableRow:
    """A row: its key, and its cells."""

    key: Hashable
    cells: tuple[Cell, ...]
    values: Mapping[str, Any] = field(default_factory=dict)
    """What it is sorted by in columns, by key, where that is not what its cell shows; None is unknown."""

    def matches(self, text: str) -> bool:
        """Return whether any cell contains the text, which is in lower case."""
        return any(text in cell.text.lower() for cell in self.cells)


def _read_cell(cell: Cell) -> int | str | None:
    """Return what rows are sorted by that show this cell: a whole number, a text, or None where it is unknown."""
    if (number := parse_integer(cell.text)) is not None:
        return number
    return None if cell.text in UNKNOWN_TEXTS else cell.text


class RowTable(LineTable):
    """Rows given whole; sorting is stable, and without a sort column they keep the order they came in."""

    rows: tuple[TableRow, ...] = ()
    """All rows, unfiltered."""
    _shown: tuple[TableRow, ...] = ()
    _places: dict[Hashable, int]

    def show(self, rows: Sequence[TableRow]) -> None:
        """Take new rows; only lines that differ are repainted."""
        self.rows = tuple(rows)
        self._measure()
        self.reorder()
        self.rows_changed()

    def _measure(self) -> None:
        """Measure columns whose width depends on their cells. They only grow, so that the layout is steady."""
        for index, column in enumerate(self.columns):
            if column.flexible or column.collapses:
                widest = max((cell_len(row.cells[index].text) for row in self.rows), default=0)
                if widest > self._needs.get(column.key, -1 if column.collapses and self.rows else 0):
                    self._needs[column.key] = widest
                    self._layout_width = -1

    def reorder(self) -> None:
        """Filter and sort."""
        query = self.filter_text.strip().lower()
        rows = [row for row in self.rows if not query or row.matches(query)]
        index = next((n for n, column in enumerate(self.columns) if column.key == self.sort_key), None)
        if index is not None:
            values = {row.key: row.values.get(str(self.sort_key), _read_cell(row.cells[index])) for row in rows}
            unknown = [row for row in rows if values[row.key] is None]
            known = [row for row in rows if values[row.key] is not None]
            known.sort(key=lambda row: (isinstance(values[row.key], str), values[row.key]), reverse=self.sort_reverse)
            rows = known + unknown
        self._shown = tuple(rows)
        self._places = {row.key: number for number, row in enumerate(rows)}

    def row_count(self) -> int:
        """Return the number of rows that match the filter."""
        return len(self._shown)

    def row_key(self, row: int) -> Hashable:
        """Return the row's key."""
        return self._shown[row].key

    def row_of(self, key: Hashable) -> int | None:
        """Return the place of the row with this key."""
        return self._places.get(key) if self._shown else None

    def row_cells(self, row: int) -> tuple[Cell, ...]:
        """Return the row's cells."""
        return self._shown[row].cells
