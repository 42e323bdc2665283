"""A table of a few hundred ready-made rows: slices, workers, checks, runs, acknowledgements."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

from rich.cells import cell_len

from tui.console.widgets.tables.line_table import LineTable
from tui.console.widgets.tables.table_columns import Cell


@dataclass(frozen=True)
class TableRow:
    """A row: what names it, its cells, and what each column sorts by (the text where it says nothing)."""

    key: Hashable
    cells: tuple[Cell, ...]
    values: tuple[Any, ...] = ()

    def matches(self, text: str) -> bool:
        """Whether any cell holds the text, whatever its case."""
        return any(text in cell.text.lower() for cell in self.cells)


def _rank(value: Any) -> tuple[int, Any]:
    """Numbers before texts, unknown last."""
    if value is None:
        return (2, "")
    return (0, value) if isinstance(value, (int, float)) else (1, str(value))


class RowTable(LineTable):
    """Rows given whole; sorting is stable, and without a sort column they keep the order they came in."""

    _rows: tuple[TableRow, ...] = ()
    _shown: tuple[TableRow, ...] = ()
    _places: dict[Hashable, int]

    def show(self, rows: Sequence[TableRow]) -> None:
        """Take new rows; only lines that differ are repainted."""
        self._rows = tuple(rows)
        self._measure()
        self.reorder()
        self.rows_changed()

    def _measure(self) -> None:
        """How wide flexible columns have to be; they grow only, so that nothing wobbles."""
        for place, column in enumerate(self.columns):
            if column.flexible:
                widest = max((cell_len(row.cells[place].text) for row in self._rows), default=0)
                if widest > self._needs.get(column.key, 0):
                    self._needs[column.key] = widest
                    self._layout_width = -1

    def reorder(self) -> None:
        """Filter and sort."""
        wanted = self.filter_text.strip().lower()
        rows = [row for row in self._rows if not wanted or row.matches(wanted)]
        place = next((n for n, column in enumerate(self.columns) if column.key == self.sort_key), None)
        if place is not None:
            known = [row for row in rows if self._value(row, place) is not None]
            unknown = [row for row in rows if self._value(row, place) is None]
            known.sort(key=lambda row: _rank(self._value(row, place)), reverse=self.sort_reverse)
            rows = known + unknown
        self._shown = tuple(rows)
        self._places = {row.key: number for number, row in enumerate(rows)}

    @staticmethod
    def _value(row: TableRow, place: int) -> Any:
        return row.values[place] if place < len(row.values) else row.cells[place].text

    @property
    def rows(self) -> tuple[TableRow, ...]:
        """What was given, unfiltered."""
        return self._rows

    def row_count(self) -> int:
        """Rows that pass the filter."""
        return len(self._shown)

    def row_key(self, row: int) -> Hashable:
        """The row's own key."""
        return self._shown[row].key

    def row_of(self, key: Hashable) -> int | None:
        """Where the row with this key stands."""
        return self._places.get(key) if self._shown else None

    def row_cells(self, row: int) -> tuple[Cell, ...]:
        """The cells as they were given."""
        return self._shown[row].cells
