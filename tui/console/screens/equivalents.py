"""What the console can do on its screen, as commands that a key copies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.widget import Widget
from textual.widgets import Static

from tui.console.render.equivalent_commands import COLUMNS
from tui.console.screens.dialog import Dialog, make_plain_text
from tui.console.widgets.tables.line_table import LineTable
from tui.console.widgets.tables.row_table import RowTable, TableRow

ROWS_AROUND_TABLE = 9
"""Rows of the screen that the frame, the whole command and the button take."""


class EquivalentsDialog(Dialog[None]):
    """Lists commands; `y` or Enter copies the one under the cursor."""

    TITLE = "equivalent commands · y copies"
    AUTO_FOCUS = "#commands"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "copy_equivalent", "Copy", show=False, id="equivalents.copy")
    ]

    def __init__(self, rows: Sequence[TableRow]) -> None:
        super().__init__(classes="-reading")
        self._rows = rows
        self._table = RowTable(COLUMNS, id="commands")
        self._whole = Static("", markup=False, id="whole")

    def body(self) -> Sequence[Widget]:
        """Return the table, and beneath it the whole command under the cursor."""
        return [self._table, self._whole]

    def on_mount(self) -> None:
        """Fill the table."""
        self._table.show(self._rows)

    def on_resize(self) -> None:
        """Make the table as high as it has rows, where the screen has room for them."""
        self._table.styles.height = min(len(self._rows) + 1, max(3, self.app.size.height - ROWS_AROUND_TABLE))

    def equivalent(self) -> str:
        """Return the command under the cursor."""
        return str(self._table.cursor_key or "")

    def on_line_table_row_highlighted(self) -> None:
        """Show the command without a cut."""
        self._whole.update(make_plain_text(self.equivalent()))

    def on_line_table_row_opened(self, event: LineTable.RowOpened) -> None:
        """Copy the command."""
        event.stop()
        self.action_copy_equivalent()
