"""The base of tables and logs: a scroll view drawn line by line, with cached styles and lines."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.segment import Segment
from rich.style import Style
from textual.scroll_view import ScrollView
from textual.strip import Strip

if TYPE_CHECKING:
    from textual.geometry import Region, Size
    from typing_extensions import Self


class LineView(ScrollView, can_focus=True):
    """A scroll view of lines; what is wider than the view is cut."""

    DEFAULT_CSS = """
    LineView { height: 1fr; overflow-x: hidden; scrollbar-size-vertical: 1; }
    """

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002 - Textual's own name for it
        super().__init__(id=id)
        self.filter_text = ""
        self._strips: dict[int, Strip] = {}
        """Drawn lines by row, until they need a repaint."""
        self._strips_size: Size | None = None
        self._room: Size | None = None
        self._styles: dict[tuple[str | Style, ...], Style] = {}

    def set_filter(self, text: str) -> None:
        """Show only what matches; an empty text shows all."""
        raise NotImplementedError

    @property
    def room(self) -> Size:
        """Return the columns and rows for lines."""
        return self._room or self.scrollable_content_region.size

    @property
    def base_style(self) -> Style:
        """Return the view's own style."""
        return self.toned()

    def toned(self, *parts: str | Style) -> Style:
        """Return the view's style combined with component styles (by name) and others, filtered for the terminal."""
        style = self._styles.get(parts)
        if style is None:
            style = self.rich_style
            for part in parts:
                style += part if isinstance(part, Style) else self.get_component_rich_style(part, partial=True)
            self._styles[parts] = style = self._apply_filters(style)
        return style

    def _apply_filters(self, style: Style) -> Style:
        """Return a style after the filters of `NO_COLOR` and of terminals with few colours."""
        segments = [Segment("", style)]
        for line_filter in self.get_line_filters():
            segments = line_filter.apply(segments, self.background_colors[1])
        return segments[0].style or style

    def refresh(self, *regions: Region, repaint: bool = True, layout: bool = False, recompose: bool = False) -> Self:
        """Redraw these rows, or all of them."""
        if regions:
            for y in {y for region in regions for y in region.line_range}:
                self._strips.pop(y, None)
        else:
            self._strips.clear()
        return super().refresh(*regions, repaint=repaint, layout=layout, recompose=recompose)

    def render_lines(self, crop: Region) -> list[Strip]:
        """Return the rows of a region, those that did not change as they were drawn before.

        Textual's own cache looks at each row for a border, padding and tint, which costs more than the row: there are
        none. The filters of `NO_COLOR` and of terminals with few colours are applied to the styles, once each.
        """
        self._room, self._styles = self.scrollable_content_region.size, {}
        if self._strips_size != self.size:
            self._strips, self._strips_size = {}, self.size
        strips = []
        for y in crop.line_range:
            strip = self._strips.get(y)
            if strip is None:
                strip = self._strips[y] = self.render_line(y)
            strips.append(strip.crop(crop.x, crop.right))
        self._room = None
        return strips
