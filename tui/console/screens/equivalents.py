"""What the console can do on its screen, as commands that a key copies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.widget import Widget

from tui.console.render.equivalent_commands import COLUMNS
from tui.console.screens.dialog import Dialog
from tui.console.widgets.tables.line_table import LineTable
from tui.console.widgets.tables.row_table import RowTable, TableRow


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

    def body(self) -> Sequence[Widget]:
        """Return the table."""
        return [self._table]

    def on_mount(self) -> None:
        """Fill the table, which is as high as it has rows."""
        self._table.styles.height = len(self._rows) + 1
        self._table.show(self._rows)

    def equivalent(self) -> str:
        """Return the command under the cursor."""
        return str(self._table.cursor_key or "")

    def on_line_table_row_opened(self, event: LineTable.RowOpened) -> None:
        """Copy the command."""
        event.stop()
        self.action_copy_equivalent()
