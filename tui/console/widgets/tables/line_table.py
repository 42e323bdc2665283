"""A table drawn a line at a time: only visible rows are ever formatted, only changed ones repainted."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import ClassVar, NamedTuple

from rich.segment import Segment
from rich.style import Style
from rich.text import Text
from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Region, Size
from textual.message import Message
from textual.strip import Strip

from tui.console.render.safe_text import fit, fit_right
from tui.console.widgets.tables.line_view import LineView
from tui.console.widgets.tables.table_columns import GAP, TONES, Cell, Column, fit_columns

HEADER_ROWS = 1
"""Lines at the top that do not scroll."""
MAX_FORMATTED_ROWS = 512
"""Rows whose cells are cached until the rows change: several screens."""


class _Painted(NamedTuple):
    key: Hashable
    cells: tuple[Cell, ...]
    cursor: bool


class RowMessage(Message):
    """Something happened to a row, given by its key."""

    def __init__(self, table: LineTable, key: Hashable) -> None:
        super().__init__()
        self.table = table
        self.key = key


class LineTable(LineView):
    """The base of both tables: header, a cursor that keeps its row by key, sorting, repaints by line.

    A subclass counts the rows (`row_count`), names them (`row_key`, `row_of`) and formats one
    (`row_cells`); after its data changed it calls `rows_changed`.
    """

    DEFAULT_CSS = """
    LineTable {
        & > .table--header { text-style: bold; color: $text-muted; background: $panel; }
        & > .table--cursor { background: $surface-lighten-2; }
        & > .table--sorted { color: $text-accent; text-style: bold; background: $panel; }
        & > .table--good { color: $text-success; }
        & > .table--warn { color: $text-warning; text-style: bold; }
        & > .table--bad { color: $text-error; text-style: bold; }
        & > .table--busy { color: $text-primary; }
        & > .table--dim { text-style: dim; }
        & > .table--accent { color: $text-accent; }
        &:focus > .table--cursor { background: $primary-darken-2; text-style: bold; }
        &:light > .table--cursor { background: $surface-darken-2; }
        &:light:focus > .table--cursor { background: $primary-muted; }
        &:nocolor > .table--bad { text-style: bold reverse; }
    }
    """
    COMPONENT_CLASSES: ClassVar[set[str]] = {
        "table--header",
        "table--cursor",
        "table--sorted",
        *(f"table--{tone}" for tone in TONES),
    }
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "cursor(-1)", "Up", show=False, id="table.up"),
        Binding("down,j", "cursor(1)", "Down", show=False, id="table.down"),
        Binding("pageup,ctrl+b", "page(-1)", "Page up", show=False, id="table.page_up"),
        Binding("pagedown,ctrl+f", "page(1)", "Page down", show=False, id="table.page_down"),
        Binding("home,g", "cursor_to(0)", "First row", show=False, id="table.first"),
        Binding("end,G", "cursor_to(-1)", "Last row", show=False, id="table.last"),
        Binding("enter", "open", "Open", tooltip="Open the row", id="table.open"),
        Binding("o", "next_sort", "Sort", tooltip="Sort by the next column", id="table.sort"),
        Binding("O", "reverse_sort", "Reverse the sort order", show=False, id="table.reverse"),
    ]

    class RowOpened(RowMessage):
        """Enter or a double click on a row."""

    class RowHighlighted(RowMessage):
        """The cursor is on another row."""

    def __init__(
        self,
        columns: Sequence[Column],
        *,
        sort: str | None = None,
        empty: str = "",
        id: str | None = None,  # noqa: A002 - Textual's own name for it
    ) -> None:
        super().__init__(id=id)
        self.columns = tuple(columns)
        self.sort_key = sort
        self.sort_reverse = False
        self.rows_drawn = 0
        """Rows formatted and drawn since the start: what the paint budgets count."""
        self._cursor_key: Hashable = None
        self.stays_on_top = False
        """Whether the cursor stays on the first row, whichever that is, until the user moves it."""
        self._at_rest = True
        self._empty = empty
        self._painted: dict[int, _Painted] = {}
        self._cells: dict[int, tuple[Cell, ...]] = {}
        """Cells of rows that were formatted since the rows last changed."""
        self._needs: dict[str, int] = {}
        """Widths of the cells of flexible columns, by key, if the subclass measures them."""
        self._layout: list[tuple[Column, int]] = []
        self._layout_width = -1
        self._layout_length = 0
        self._slots: list[tuple[int, int, Callable[[str, int], str]]] = []
        """Of the columns that fit: place of their cell in a row, width, and alignment."""

    # --- what a subclass provides ---------------------------------------------------------------------------

    def row_count(self) -> int:
        """Return the number of rows after the filter."""
        raise NotImplementedError

    def row_key(self, row: int) -> Hashable:
        """Return the key of the row at this place."""
        raise NotImplementedError

    def row_of(self, key: Hashable) -> int | None:
        """Return the place of the row with this key; None if it is filtered out or gone."""
        raise NotImplementedError

    def row_cells(self, row: int) -> tuple[Cell, ...]:
        """Return the row's cells, one for each of `columns`."""
        raise NotImplementedError

    def reorder(self) -> None:
        """Apply `sort_key`, `sort_reverse` and `filter_text` to the rows."""
        raise NotImplementedError

    @property
    def cursor_key(self) -> Hashable:
        """Return the key of the row under the cursor; None if no row is visible."""
        return self._cursor_key if self._cursor_row() is not None else None

    # --- data in ----------------------------------------------------------------------------------------------

    def rows_changed(self) -> None:
        """Repaint what differs from what is on the screen; the cursor stays on its key while that is visible."""
        self._cells.clear()
        width = self._fit_columns()
        count = self.row_count()
        height = count + HEADER_ROWS
        if self.virtual_size.height != height:
            self.virtual_size = Size(self.size.width, height)
            self.refresh()
        if count and (self._cursor_row() is None or (self.stays_on_top and self._at_rest)):
            self._move_to(0, scroll=False)
        self._keep_in_view()
        top = self.scroll_offset.y
        rows = {y: top + y - HEADER_ROWS for y in self._painted}
        differ = [y for y, row in rows.items() if row >= count or self._painted[y] != self._paint_of(row)]
        if differ:
            self.refresh(*(Region(0, y, width, 1) for y in differ))

    def set_empty(self, text: str) -> None:
        """Set the text shown without rows."""
        if text != self._empty:
            self._empty = text
            if not self.row_count():
                self.refresh()

    def set_filter(self, text: str) -> None:
        """Show only rows that match; an empty text shows all."""
        self.filter_text = text
        self.reorder()
        self.rows_changed()
        self.refresh()

    # --- drawing ------------------------------------------------------------------------------------------------

    def _fit_columns(self) -> int:
        """Lay out the columns if the width has changed since; return the width."""
        width = self.room.width
        if self._layout_width != width:
            self._layout_width = width
            self._layout = fit_columns(self.columns, width, self._needs)
            self._layout_length = sum(size + len(GAP) for _, size in self._layout) - len(GAP)
            self._slots = [
                (self.columns.index(column), size, fit_right if column.right else fit)
                for column, size in self._layout
            ]
            self._cells.clear()
            self.refresh()
        return width

    def width_of(self, key: str) -> int:
        """Return the present width of a column; 0 if there is no room for it."""
        return next((size for column, size in self._layout if column.key == key), 0)

    def _paint_of(self, row: int) -> _Painted:
        key = self.row_key(row)
        cells = self._cells.get(row)
        if cells is None:
            if len(self._cells) >= MAX_FORMATTED_ROWS:
                self._cells.clear()
            cells = self._cells[row] = self.row_cells(row)
        return _Painted(key, cells, key == self._cursor_key)

    def render_line(self, y: int) -> Strip:
        """Draw one line of the pane."""
        width = self._fit_columns()
        if y < HEADER_ROWS:
            return self._header(width)
        row = self.scroll_offset.y + y - HEADER_ROWS
        if row >= self.row_count():
            self._painted.pop(y, None)
            return self._blank(row, width)
        painted = self._paint_of(row)
        self._painted[y] = painted
        self.rows_drawn += 1
        return self._row(painted, width)

    def _blank(self, row: int, width: int) -> Strip:
        lines = () if self.row_count() else Text(self._why_empty()).wrap(self.app.console, max(1, width - 2))
        if row < len(lines):
            return Strip([Segment(fit(f" {lines[row].plain.rstrip()}", width), self.toned("table--dim"))], width)
        return Strip.blank(width, self.base_style)

    def _why_empty(self) -> str:
        return f"No rows match “{self.filter_text}”. Esc clears the filter." if self.filter_text else self._empty

    def _header(self, width: int) -> Strip:
        base, chosen = (self.toned(self.get_component_rich_style(f"table--{part}")) for part in ("header", "sorted"))
        segments: list[Segment] = []
        for column, size in self._layout:
            is_sorted = column.key == self.sort_key
            arrow = ("▼" if self.sort_reverse else "▲") if is_sorted else ""
            align = fit_right if column.right else fit
            segments.append(Segment(align(column.title + arrow, size), chosen if is_sorted else base))
            segments.append(Segment(GAP, base))
        return Strip(segments).adjust_cell_length(width, base)

    def _row(self, painted: _Painted, width: int) -> Strip:
        """Return the cells side by side. Those of one tone share a segment: each one costs time."""
        under = ("table--cursor",) if painted.cursor else ()
        segments: list[Segment] = []
        texts: list[str] = []
        last = painted.cells[self._slots[0][0]].tone
        for index, size, align in self._slots:
            text, tone = painted.cells[index]
            if tone != last:
                segments.append(Segment("".join(texts), self._style_of(last, under)))
                texts, last = [], tone
            texts += (align(text, size), GAP)
        texts[-1] = ""
        segments.append(Segment("".join(texts), self._style_of(last, under)))
        strip = Strip(segments, self._layout_length)
        return strip if self._layout_length == width else strip.adjust_cell_length(width, self.toned(*under))

    def _style_of(self, tone: str, under: tuple[str, ...]) -> Style:
        return self.toned(*under, f"table--{tone}") if tone else self.toned(*under)

    def on_resize(self) -> None:
        """Redraw with the columns that fit now."""
        self._painted.clear()
        self.virtual_size = Size(self.size.width, self.row_count() + HEADER_ROWS)
        self.refresh()

    # --- the cursor -----------------------------------------------------------------------------------------------

    def _page(self) -> int:
        return max(1, self.scrollable_content_region.height - HEADER_ROWS)

    def _in_view(self, row: int) -> bool:
        top = self.scroll_offset.y
        return top <= row < top + self._page()

    def _keep_in_view(self) -> None:
        """Follow the cursor's row when a new order moved it out of sight."""
        if any(painted.cursor for painted in self._painted.values()):
            row = self._cursor_row()
            if row is not None and not self._in_view(row):
                self._scroll_into_view(row)

    def _scroll_into_view(self, row: int) -> None:
        top = self.scroll_offset.y
        if row < top:
            self.scroll_to(y=row, animate=False)
        elif row >= top + self._page():
            self.scroll_to(y=row - self._page() + 1, animate=False)

    def _move_to(self, row: int, *, scroll: bool = True) -> None:
        count = self.row_count()
        if not count:
            return
        row = min(max(0, row), count - 1)
        before = self._cursor_row()
        key = self.row_key(row)
        if key != self._cursor_key:
            self._cursor_key = key
            top, width = self.scroll_offset.y - HEADER_ROWS, self.room.width
            visible = [number for number in (before, row) if number is not None and self._in_view(number)]
            if visible:
                self.refresh(*(Region(0, number - top, width, 1) for number in visible))
            self.post_message(self.RowHighlighted(self, key))
        if scroll:
            self._scroll_into_view(row)

    def _go_to(self, row: int, *, scroll: bool = True) -> None:
        """Move the cursor as the user asked."""
        self._at_rest = row <= 0
        self._move_to(row, scroll=scroll)

    def _cursor_row(self) -> int | None:
        """Return the row under the cursor; None if it is filtered out or gone."""
        return None if self._cursor_key is None else self.row_of(self._cursor_key)

    def action_cursor(self, by: int) -> None:
        """Move the cursor by rows."""
        self._go_to((self._cursor_row() or 0) + by)

    def action_page(self, by: int) -> None:
        """Move the cursor by pages."""
        self.action_cursor(by * self._page())

    def action_cursor_to(self, row: int) -> None:
        """Move the cursor to a row; -1 is the last."""
        self._go_to(row if row >= 0 else self.row_count() - 1)

    def action_open(self) -> None:
        """Post that the row under the cursor was opened."""
        if (key := self.cursor_key) is not None:
            self.post_message(self.RowOpened(self, key))

    def action_next_sort(self) -> None:
        """Sort by the next column that is on the screen."""
        self._fit_columns()
        keys = [column.key for column, _ in self._layout]
        index = keys.index(self.sort_key) + 1 if self.sort_key in keys else 0
        self.sort_key = None
        self.action_sort(keys[index % len(keys)])

    def action_reverse_sort(self) -> None:
        """Reverse the sort order."""
        if self.sort_key is not None:
            self.action_sort(self.sort_key)

    def action_sort(self, key: str) -> None:
        """Sort by a column; reverse the order if the rows are sorted by it already."""
        self.sort_reverse = key == self.sort_key and not self.sort_reverse
        self.sort_key = key
        self.reorder()
        self.rows_changed()
        self.refresh()

    def on_click(self, event: events.Click) -> None:
        """Sort by a clicked header, select a clicked row, open it on a double click."""
        offset = event.get_content_offset(self)
        if offset is None:
            return
        if offset.y < HEADER_ROWS:
            self._fit_columns()
            x = 0
            for column, size in self._layout:
                x += size + len(GAP)
                if offset.x < x:
                    self.action_sort(column.key)
                    return
            return
        row = self.scroll_offset.y + offset.y - HEADER_ROWS
        if row < self.row_count():
            self._go_to(row, scroll=False)
            if event.chain >= 2:
                self.action_open()
