"""A line of tabs: the panes of a narrow screen, or the logs of any number of workers."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import ClassVar

from rich.cells import cell_len
from rich.segment import Segment
from textual import events
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

MARK_COLUMNS = 2
"""Columns of the sign at an edge beyond which there are more tabs."""


class TabBar(Widget, can_focus=True):
    """Tabs on one line, one of them active; it scrolls to show the active one."""

    DEFAULT_CSS = """
    TabBar {
        height: 1; padding: 0 1;
        & > .tabs--active { text-style: bold reverse; color: $text-accent; }
        & > .tabs--idle { text-style: dim; }
        & > .tabs--bad { color: $text-error; text-style: bold; }
        &:focus > .tabs--idle { text-style: underline; }
    }
    """
    COMPONENT_CLASSES: ClassVar[set[str]] = {"tabs--active", "tabs--idle", "tabs--bad"}
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left", "step(-1)", "Previous", show=False, id="tabs.left"),
        Binding("right", "step(1)", "Next", show=False, id="tabs.right"),
    ]

    class TabChosen(Message):
        """Another tab was chosen."""

        def __init__(self, tabs: TabBar, key: str) -> None:
            super().__init__()
            self.tabs = tabs
            self.key = key

    def __init__(self, items: Sequence[tuple[str, str]] = (), *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self._items = list(items)
        self.active = self._items[0][0] if self._items else ""
        self._left = 0
        self._bad: frozenset[str] = frozenset()

    def set_items(self, items: Sequence[tuple[str, str]], bad: Collection[str] = ()) -> None:
        """Set the tabs as (key, name) pairs; the active one stays if it still exists; `bad` ones are red."""
        if list(items) == self._items and self._bad == frozenset(bad):
            return
        self._items, self._bad = list(items), frozenset(bad)
        if self.active not in dict(items):
            self.active = self._items[0][0] if self._items else ""
        self.refresh()

    def choose(self, key: str) -> None:
        """Choose a tab by key and post `TabChosen`."""
        if key in dict(self._items) and key != self.active:
            self.active = key
            self.refresh()
            self.post_message(self.TabChosen(self, key))

    def action_step(self, by: int) -> None:
        """Choose the next or the previous tab."""
        keys = [key for key, _ in self._items]
        if keys:
            self.choose(keys[(keys.index(self.active) + by) % len(keys)])

    def _spans(self) -> list[tuple[str, int, int]]:
        """Return (key, first column, column after) of every tab, on an endless line."""
        spans, x = [], 0
        for key, name in self._items:
            width = cell_len(name) + 2
            spans.append((key, x, x + width))
            x += width + 1
        return spans

    def render_line(self, y: int) -> Strip:  # noqa: ARG002
        """Draw the part of the line with the active tab."""
        width = self.content_size.width
        base = self.rich_style
        active = base + self.get_component_rich_style("tabs--active", partial=True)
        idle = base + self.get_component_rich_style("tabs--idle", partial=True)
        bad = base + self.get_component_rich_style("tabs--bad", partial=True)
        segments = []
        for key, name in self._items:
            style = active if key == self.active else bad if key in self._bad else idle
            segments += [Segment(f" {name} ", style), Segment(" ", base)]
        span = next((span for span in self._spans() if span[0] == self.active), ("", 0, 0))
        line = Strip(segments)
        if span[1] < self._left + MARK_COLUMNS:
            self._left = max(0, span[1] - MARK_COLUMNS)
        if span[2] > self._left + width - MARK_COLUMNS:
            self._left = max(0, min(span[2] + MARK_COLUMNS, line.cell_length) - width)
        end = self._left + width
        before = Strip([Segment("‹ ", idle)]) if self._left else Strip.blank(0)
        after = Strip([Segment(" ›", idle)]) if line.cell_length - 1 > end else Strip.blank(0)
        part = line.crop(self._left + before.cell_length, end - after.cell_length)
        shown = part.adjust_cell_length(width - before.cell_length - after.cell_length, base)
        return Strip.join([before, shown, after])

    def on_click(self, event: events.Click) -> None:
        """Choose the tab that was clicked."""
        x = event.x - self.gutter.left + self._left
        for key, start, end in self._spans():
            if start <= x < end:
                self.choose(key)
