"""A log of any size in a pane: only visible lines are read, and nothing in them reaches the terminal raw."""

from __future__ import annotations

import time
from typing import ClassVar

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Size
from textual.message import Message
from textual.strip import Strip

from tui.console.data.line_index import IndexedLine, LineSource
from tui.console.data.line_search import TextFilter
from tui.console.platform._compat_textual import set_scrolled_size
from tui.console.render.safe_text import fit
from tui.console.widgets.log.log_wrapping import (
    SEVERITIES,
    WrappedRow,
    clip_rows,
    cut_line,
    explain_no_lines,
    find_matches,
    find_severity,
    format_visible_line,
    format_whole_line,
    get_worker_color,
    wrap_line,
)
from tui.console.widgets.tables.line_view import LineView
from tui.text.printable import format_count

TICK_BUDGET_BYTES = 4 * 1024 * 1024
"""Bytes indexed or searched in one tick: some milliseconds, so that a key never waits."""
FAR_BEHIND_BYTES = 64 * 1024
"""With more bytes than this not indexed yet, the last lines are read from the file's end."""
PAINT_INTERVAL_S = 0.2
"""Seconds between two paints of a log that grows by screenfuls: people read no faster, and each costs 10 ms."""
SIDEWAYS_COLUMNS = 16
"""Columns that one press of left or right moves."""


class LogPane(LineView):
    """Lines of a `LineSource`, with follow, a filter over the whole of it, and sideways scrolling."""

    DEFAULT_CSS = """
    LogPane {
        overflow-y: scroll;
        & > .log--dim { text-style: dim; }
        & > .log--found { background: $warning-darken-2; text-style: bold; }
        & > .log--current { background: $surface-lighten-2; }
        & > .log--error { color: $text-error; text-style: bold; }
        & > .log--warning { color: $text-warning; }
        &:light > .log--found { background: $warning-lighten-2; }
        &:light > .log--current { background: $surface-darken-2; }
    }
    """
    COMPONENT_CLASSES: ClassVar[set[str]] = {f"log--{part}" for part in ("dim", "found", "current", *SEVERITIES)}
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "move(-1)", "Up", show=False, id="log.up"),
        Binding("down,j", "move(1)", "Down", show=False, id="log.down"),
        Binding("pageup,ctrl+b,b", "move_page(-1)", "Page up", show=False, id="log.page_up"),
        Binding("pagedown,ctrl+f,space", "move_page(1)", "Page down", show=False, id="log.page_down"),
        Binding("left", "sideways(-1)", "Left", show=False, id="log.left"),
        Binding("right", "sideways(1)", "Right", show=False, id="log.right"),
        Binding("home,g", "first", "First line", show=False, id="log.first"),
        Binding("end,G", "last", "Last line; follow the log", show=False, id="log.last"),
        Binding("n", "match(1)", "Next match, in context", show=False, id="log.next_match"),
        Binding("N", "match(-1)", "Previous match, in context", show=False, id="log.previous_match"),
        Binding("m", "around", "Only matches, or all lines", show=False, id="log.around"),
        Binding("w", "wrap", "Wrap or cut long lines", show=False, id="log.wrap"),
        Binding("y", "copy", "Copy visible lines", show=False, id="log.copy"),
    ]

    class SummaryChanged(Message):
        """The summary has changed: follow, filter, number of lines."""

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self.follow = True
        self.show_worker = False
        self.lines_drawn = 0
        """Lines drawn since the start: what the paint budgets count."""
        self._source: LineSource | None = None
        self._shown: LineSource | None = None
        self._found: TextFilter | None = None
        """The lines that match the filter."""
        self._match: int | None = None
        """Place of the match that is shown in context; None while only matches are shown."""
        self._window: list[IndexedLine] = []
        self._window_at: tuple[int, int] | None = None
        self._rows: list[WrappedRow] | None = None
        self._painted_at, self._painted_count = 0.0, 0
        self._sideways, self._wrap = 0, False
        self._fitted: tuple[object, ...] = ()
        self._fits = 1
        """How many of the last lines fit when wrapped; `_fitted` is what this was computed for."""
        self._announced = ""

    def on_unmount(self) -> None:
        """Close the files of the log."""
        if self._source is not None:
            self._source.close()

    # --- data in ------------------------------------------------------------------------------------------------

    def open(self, source: LineSource, *, show_worker: bool = False) -> None:
        """Show another log, from its end; the filter stays."""
        if self._source is not None and self._source is not source:
            self._source.close()
        self._source = source
        self.show_worker = show_worker
        self._sideways = 0
        self.follow = True
        self.set_filter(self.filter_text)

    def set_filter(self, text: str) -> None:
        """Show only lines of the log that contain this text, whatever its case."""
        self.filter_text = text
        self._match = None
        if self._source is not None:
            self._found = TextFilter(self._source, text) if text else None
            self._shown = self._found or self._source
        self._window_at = None
        self.tick()
        self.refresh()

    def tick(self) -> None:
        """Read new lines; repaint only if the visible ones differ, and not for every screenful."""
        if self._shown is None:
            return
        (self._found or self._shown).advance(TICK_BUDGET_BYTES)
        count, now = self._shown.count, time.monotonic()
        grows_fast = count - self._painted_count >= self.room.height
        if self._window_at is not None and grows_fast and now - self._painted_at < PAINT_INTERVAL_S:
            return
        self._painted_at, self._painted_count = now, count
        self._set_height()
        if self.follow and self.scroll_offset.y != self._last_top():
            self.scroll_to(y=self._last_top(), animate=False)
        before = self._window
        self._read()
        if self._window != before or (not self._window and self.summary != self._announced):
            self.refresh()
        self._announce()

    def _set_height(self) -> None:
        """Update the scrollbar if the number of lines has changed."""
        size = Size(self.size.width, self._last_top() + self.room.height)
        if size != self.virtual_size:
            set_scrolled_size(self, size)

    def _announce(self) -> None:
        if self.summary != self._announced:
            self._announced = self.summary
            self.post_message(self.SummaryChanged())

    @property
    def summary(self) -> str:
        """Return the pane's subtitle: lines, filter, progress of a search, whether it follows."""
        if self._shown is None:
            return ""
        count = self._shown.count
        parts = [format_count(count, "line")]
        if self._found is not None:
            position = "" if self._match is None else f"{self._match + 1:,} of "
            count = self._found.count
            parts[0] = f"{position}{format_count(count, 'line')} with “{self.filter_text}”"
            order = ", newest first" if self.follow else ""
            if self._match is None and count:
                parts.append(f"n N show them in context{order}")
        if self._shown.behind > FAR_BEHIND_BYTES:
            percent = 100 * (1 - self._shown.behind / max(1, self._shown.size))
            parts.append(f"{'searched' if self.filter_text else 'read'} {max(0, int(percent))} %")
        parts.append("following" if self.follow else f"from line {self.scroll_offset.y + 1:,}")
        if self._sideways:
            parts.append(f"column {self._sideways + 1}")
        if self._wrap:
            parts.append("wrapped")
        return " · ".join(parts)

    def _last_top(self) -> int:
        """Return the top line when the last one is visible."""
        count = self._shown.count if self._shown else 0
        return max(0, count - (self._fitting(count) if self._wrap else self.room.height))

    def _fitting(self, count: int) -> int:
        """Return how many of the last lines fit, wrapped; at least one, which may be longer than the pane."""
        width, height = self.room
        if self._fitted != (fitted := (self._shown, count, width, height)):
            rows = fits = 0
            for line in reversed(self._shown.lines(max(0, count - height), height) if self._shown else ()):
                rows += len(self._rows_of(line, 0, width))
                if rows > height:
                    break
                fits += 1
            self._fitted, self._fits = fitted, max(1, fits)
        return self._fits

    def _read(self) -> None:
        """Read the visible lines: from the top on, or the last ones, of which fewer fit when wrapped."""
        height, top = self.room.height, self.scroll_offset.y
        self._window_at, self._rows = (top, height), None
        if self._shown is None:
            self._window = []
        elif self.follow and self._shown.behind > FAR_BEHIND_BYTES:
            self._window = self._shown.tail(height)
        else:
            self._window = self._shown.lines(self._first_line(), height)

    def _first_line(self) -> int:
        """Return the number of the window's first line."""
        if self._wrap and self.follow and self._shown is not None:
            return max(0, self._shown.count - self.room.height)
        return self.scroll_offset.y

    # --- drawing ------------------------------------------------------------------------------------------------

    def render_line(self, y: int) -> Strip:
        """Draw one visible row."""
        width = self.room.width
        rows = self._rows_now()
        self.lines_drawn += 1
        if y >= len(rows):
            if y == 0:
                is_searching = self._shown is not None and self._shown.behind > FAR_BEHIND_BYTES
                text = explain_no_lines(self.filter_text, is_searching=is_searching)
                return Strip([Segment(fit(" " + text, width), self.toned("log--dim"))], width)
            return Strip.blank(width, self.base_style)
        row = rows[y]
        match = None if self._match is None or self._found is None else self._found.number(self._match)
        parts = find_severity(row.line) + (("log--current",) if match == self._first_line() + row.place else ())
        return self._strip(self._window[row.place], row, width, parts)

    def _rows_now(self) -> list[WrappedRow]:
        """Return the visible rows of the window: one per line, or more when wrapped."""
        width, height = self.room
        if self._rows is None or self._window_at != (self.scroll_offset.y, height):
            self._read()
            rows: list[WrappedRow] = []
            indices = range(len(self._window))
            for index in reversed(indices) if self.follow else indices:
                if len(rows) >= height:
                    break  # one long line may fill the pane
                further = self._rows_of(self._window[index], index, width)
                rows = further + rows if self.follow else rows + further
            self._rows = rows[-height:] if self.follow else clip_rows(rows, height, width)
        return self._rows

    def _rows_of(self, line: IndexedLine, index: int, width: int) -> list[WrappedRow]:
        room = max(2, width - len(self._label(line)))
        if self._wrap:
            return wrap_line(format_whole_line(line), index, room)
        return cut_line(format_visible_line(line), index, room, self._sideways)

    def _label(self, line: IndexedLine) -> str:
        return f"{line.worker:>3}│" if self.show_worker and line.worker is not None else ""

    def _strip(self, line: IndexedLine, row: WrappedRow, width: int, under: tuple[str, ...]) -> Strip:
        segments: list[Segment] = []
        label = self._label(line)
        if label and line.worker is not None:
            style = self.toned(*under, Style.parse("" if self.app.no_color else get_worker_color(line.worker)))
            segments.append(Segment(label if row.is_first else "│".rjust(len(label)), style))
        segments += self._highlight(row, fit(row.text, width - len(label)), under)
        return Strip(segments, max(width, len(label))).adjust_cell_length(width)

    def _highlight(self, row: WrappedRow, text: str, under: tuple[str, ...]) -> list[Segment]:
        """Return the segments of a row, with the filter's matches highlighted."""
        plain = self.toned(*under)
        if not self.filter_text:
            return [Segment(text, plain)]
        highlight = self.toned(*under, "log--found")
        segments: list[Segment] = []
        position = 0
        for start, end in find_matches(row, self.filter_text):
            segments += [Segment(text[position:start], plain), Segment(text[start:end], highlight)]
            position = end
        return [segment for segment in (*segments, Segment(text[position:], plain)) if segment.text]

    # --- moving -------------------------------------------------------------------------------------------------

    def on_resize(self) -> None:
        """Keep the end in view while following."""
        self._rows = None
        self.call_after_refresh(self.tick)

    def set_follow(self, follow: bool) -> None:
        """Follow the end as lines come, or stay at the present line."""
        self.follow = follow
        if follow:
            self.scroll_to(y=self._last_top(), animate=False)
        self._rows = None
        self.refresh()
        self._announce()

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """Leave follow mode when the user scrolls up; a pane that grew also has its end higher up."""
        super().watch_scroll_y(old_value, new_value)
        if new_value < old_value and round(new_value) < min(self._last_top(), self.max_scroll_y):
            self.follow = False
        self._announce()

    def _go(self, top: int) -> None:
        self.follow = False
        self.scroll_to(y=min(max(0, top), self._last_top()), animate=False)
        self._announce()

    def action_match(self, by: int) -> None:
        """Show the next or previous match in context; at first a visible one."""
        if self._found is None or not self._found.count:
            text = "No lines match" if self.filter_text else "Press / to search; n and N step through what it finds"
            self.notify(text, timeout=3)
            return
        last = self._found.count - 1
        index = (last if self.follow else self.scroll_offset.y) if self._match is None else self._match + by
        self._match = min(max(0, index), last)
        self._show_lines(self._source, self._found.number(self._match) - self.room.height // 3)

    def action_around(self) -> None:
        """Switch between matches only and all lines."""
        if self._match is None:
            self.action_match(0)
        else:
            index, self._match = self._match, None
            self._show_lines(self._found, index)

    def _show_lines(self, source: LineSource | None, top: int) -> None:
        """Show another source from line `top` on."""
        self._shown, self.follow, self._rows = source, False, None
        self._set_height()
        self._go(top)
        self.refresh()

    def action_move(self, by: int) -> None:
        """Scroll by lines; follow again at the last one."""
        rows = self._rows_now()
        top = self._first_line() + (rows[0].place if rows else 0) + by
        if by > 0 and top >= self._last_top():
            self.set_follow(True)
        else:
            self._go(top)

    def action_move_page(self, by: int) -> None:
        """Scroll by pages."""
        rows = self._rows_now()
        self.action_move(by * max(1, rows[-1].place - rows[0].place if rows else 1))

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        """Scroll down by the wheel; follow again at the last line."""
        self._scroll_by_wheel(event, 1)

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        """Scroll up by the wheel, wrapped or not."""
        self._scroll_by_wheel(event, -1)

    def _scroll_by_wheel(self, event: events.MouseEvent, direction: int) -> None:
        if not (event.ctrl or event.shift):
            event.prevent_default()
            event.stop()
            self.action_move(direction * round(self.app.scroll_sensitivity_y))

    def action_sideways(self, by: int) -> None:
        """Scroll sideways: long lines are cut at the edge."""
        self._sideways = 0 if self._wrap else max(0, self._sideways + by * SIDEWAYS_COLUMNS)
        self._rows = None
        self.refresh()
        self._announce()

    def action_wrap(self) -> None:
        """Wrap long lines or cut them at the edge; the top line stays."""
        top = self._first_line()
        self._wrap, self._sideways, self._rows = not self._wrap, 0, None
        self._set_height()
        self.scroll_to(y=self._last_top() if self.follow else min(top, self._last_top()), animate=False)
        self.refresh()
        self._announce()

    def action_copy(self) -> None:
        """Copy the visible lines in full to the terminal's clipboard, control characters made visible."""
        indices = dict.fromkeys(row.place for row in self._rows_now())
        self.app.copy_to_clipboard("\n".join(format_whole_line(self._window[index]) for index in indices))
        self.notify(f"Copied {format_count(len(indices), 'line')} (if your terminal supports it)", timeout=3)

    def action_first(self) -> None:
        """Go to the first line."""
        self._go(0)

    def action_last(self) -> None:
        """Go to the last line and follow."""
        self.set_follow(True)
