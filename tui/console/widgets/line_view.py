"""What tables and logs share: a view that is drawn a line at a time and knows its own style by heart."""

from __future__ import annotations

from rich.style import Style
from textual.scroll_view import ScrollView


class LineView(ScrollView, can_focus=True):
    """A scroll view of lines, as wide as it is: what is longer is cut."""

    DEFAULT_CSS = """
    LineView { height: 1fr; overflow-x: hidden; scrollbar-size-vertical: 1; }
    """

    _base_style: Style | None = None

    @property
    def base_style(self) -> Style:
        """The view's own style: working it out for every line would cost more than the line."""
        if self._base_style is None:
            self._base_style = self.rich_style
        return self._base_style

    def toned(self, component: str) -> Style:
        """The own style with a component's on top."""
        return self.base_style + self.get_component_rich_style(component, partial=True)

    def notify_style_update(self) -> None:
        """The theme changed."""
        self._base_style = None
        super().notify_style_update()
