"""Text fields that show control characters instead of sending them: a text may come from another machine."""

from __future__ import annotations

from rich.segment import Segment
from textual.strip import Strip
from textual.widgets import Input, TextArea

from tui.console.render.safe_text import escape_line


class TextField(Input):
    """An input of one line."""

    def render_line(self, y: int) -> Strip:
        """Draw the line."""
        return _escape(super().render_line(y))


class TextBox(TextArea):
    """An input of several lines."""

    def render_line(self, y: int) -> Strip:
        """Draw one of the lines."""
        return _escape(super().render_line(y))


def _escape(strip: Strip) -> Strip:
    """Return a line of the same width whose control characters are visible."""
    segments = [Segment(escape_line(text), style, control) for text, style, control in strip]
    return Strip(segments).adjust_cell_length(strip.cell_length)
