"""The lines at the top: what one is looking at, in words first and colours second."""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual.geometry import Size
from textual.strip import Strip
from textual.widget import Widget

from tui.console.text import fit, harmless
from tui.console.widgets.columns import Cell

GAP = "  "
LEAST_CELLS = 2
"""Cells that a line keeps, however narrow it is."""


def _fitting(line: tuple[Cell, ...], width: int) -> tuple[Cell, ...]:
    """The cells of a line; where they are too many, the dim ones go first, the last of them before the others.

    Then the last ones go that hold a figure: half a number would be another number.
    """
    shown = list(line)
    while cell_len(GAP.join(cell.text for cell in shown)) > width:
        dim = [place for place, cell in enumerate(shown) if cell.tone == "dim"]
        if not dim and (len(shown) <= LEAST_CELLS or not any(map(str.isdigit, shown[-1].text))):
            break
        del shown[dim[-1] if dim else -1]
    return tuple(shown)


class Headline(Widget):
    """Lines of cells, separated by blanks; repainted only when they differ."""

    DEFAULT_CSS = """
    Headline {
        height: auto; padding: 0 1; background: $panel; color: $text;
        & > .headline--good { color: $text-success; text-style: bold; }
        & > .headline--warn { color: $text-warning; text-style: bold; }
        & > .headline--bad { color: $text-error; text-style: bold; }
        & > .headline--busy { color: $text-primary; text-style: bold; }
        & > .headline--dim { text-style: dim; }
        &:nocolor > .headline--bad { text-style: bold reverse; }
        & > .headline--accent { color: $text-accent; text-style: bold; }
    }
    """
    COMPONENT_CLASSES = {f"headline--{tone}" for tone in ("good", "warn", "bad", "busy", "dim", "accent")}  # noqa: RUF012

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self._lines: tuple[tuple[Cell, ...], ...] = ()

    @property
    def lines(self) -> tuple[str, ...]:
        """What stands there, as text."""
        return tuple("  ".join(cell.text for cell in line) for line in self._lines)

    def show(self, lines: Sequence[Sequence[Cell]]) -> None:
        """Take other lines."""
        fresh = tuple(tuple(Cell(harmless(cell.text), cell.tone) for cell in line if cell.text) for line in lines)
        if fresh != self._lines:
            grown = len(fresh) != len(self._lines)
            self._lines = fresh
            self.refresh(layout=grown)

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:  # noqa: ARG002
        """One row a line."""
        return max(1, len(self._lines))

    def render_line(self, y: int) -> Strip:
        """Draw one of them, cut with … where it is too long."""
        width, base = self.size.width, self.rich_style
        line = _fitting(self._lines[y], width) if y < len(self._lines) else ()
        segments: list[Segment] = []
        room = width
        for number, cell in enumerate(line):
            gap = GAP if number else ""
            text = gap + cell.text
            if len(text) > room:
                text = fit(text, room)
            tone = (
                self.get_component_rich_style(f"headline--{cell.tone}", partial=True) if cell.tone else Style.null()
            )
            segments.append(Segment(text, base + tone))
            room -= Segment.get_line_length([segments[-1]])
            if room <= 0:
                break
        return Strip(segments).adjust_cell_length(width, base)
