"""What tables and logs share: a view that is drawn a line at a time and knows its own style by heart."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from rich.segment import Segment
from rich.style import Style
from textual._styles_cache import StylesCache
from textual.scroll_view import ScrollView
from textual.strip import Strip

if TYPE_CHECKING:
    from textual.color import Color
    from textual.css.styles import StylesBase
    from textual.filter import LineFilter
    from textual.geometry import Region, Size, Spacing


class _Lines(StylesCache):
    """Lines that were drawn. To look at each for a border, padding and tint costs more than the line: it has none."""

    def render_line(
        self,
        styles: StylesBase,  # noqa: ARG002
        y: int,
        size: Size,  # noqa: ARG002
        content_size: Size,  # noqa: ARG002
        padding: Spacing,  # noqa: ARG002
        base_background: Color,  # noqa: ARG002
        background: Color,  # noqa: ARG002
        render_content_line: Callable[[int], Strip],
        *_: object,
    ) -> Strip:
        """The line itself."""
        return render_content_line(y)


class LineView(ScrollView, can_focus=True):
    """A scroll view of lines, as wide as it is: what is longer is cut."""

    DEFAULT_CSS = """
    LineView { height: 1fr; overflow-x: hidden; scrollbar-size-vertical: 1; }
    """

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:  # noqa: A002 - Textual's name
        super().__init__(id=id, classes=classes)
        self._styles_cache = _Lines()
        self._room: Size | None = None
        self._styles: dict[tuple[str | Style, ...], Style] = {}

    @property
    def room(self) -> Size:
        """The columns and rows there are for lines."""
        return self._room or self.scrollable_content_region.size

    @property
    def base_style(self) -> Style:
        """The view's own style."""
        return self.toned()

    def toned(self, *parts: str | Style) -> Style:
        """The own style with those of components, by name, and others on top, as the terminal is to have it."""
        style = self._styles.get(parts)
        if style is None:
            style = self.rich_style
            for part in parts:
                style += part if isinstance(part, Style) else self.get_component_rich_style(part, partial=True)
            self._styles[parts] = style = self._filtered(style)
        return style

    def _filtered(self, style: Style) -> Style:
        """What `NO_COLOR` and terminals of few colours leave of a style."""
        segments = [Segment("", style)]
        for line_filter in super().get_line_filters():
            segments = line_filter.apply(segments, self.background_colors[1])
        return segments[0].style or style

    def get_line_filters(self) -> Sequence[LineFilter]:
        """None: the styles are filtered, once each."""
        return ()

    def render_lines(self, crop: Region) -> list[Strip]:
        """The lines as they are drawn, in styles and a width that are worked out once for all of them."""
        self._room, self._styles = self.scrollable_content_region.size, {}
        strips = super().render_lines(crop)
        self._room = None
        return strips
