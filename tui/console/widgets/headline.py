"""The lines at the top: what the screen shows, in words first and colours second."""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual.geometry import Size
from textual.strip import Strip
from textual.widget import Widget

from tui.console.render.safe_text import escape_line, fit, shorten
from tui.console.widgets.tables.table_columns import TONES, Cell

GAP = "  "
MIN_CELLS = 2
"""Cells that a line keeps, however narrow it is."""
MIN_SHORTENED_COLUMNS = 18
"""Columns that a long cell, such as a run's ID, is shortened to at least."""


def fit_cells(line: Sequence[Cell], widths: Sequence[int], width: int) -> tuple[Cell, ...]:
    """Return the cells that fit, the most important first: those that are not dim before the dim ones, from the left.

    A figure that does not fit is left out, because half a number is wrong; then the longest cell is shortened.
    The first cell, the state, always stays. `widths` are the widths of the cells.
    """

    def length(indices: Sequence[int]) -> int:
        return sum(widths[index] for index in indices) + len(GAP) * (len(indices) - 1)

    by_importance = sorted(range(len(line)), key=lambda index: (index > 0 and line[index].tone == "dim", index))
    shown = list(by_importance)
    while length(shown) > width and len(shown) > 1:
        least = line[shown[-1]]
        if least.tone != "dim" and (len(shown) <= MIN_CELLS or not any(map(str.isdigit, least.text))):
            break
        shown.pop()
    for index in by_importance:
        if index not in shown and length([*shown, index]) <= width:
            shown.append(index)
    cells = {index: line[index] for index in sorted(shown)}
    longest = max(shown, key=lambda index: widths[index])
    over, size = length(shown) - width, widths[longest]
    if over > 0 and size > MIN_SHORTENED_COLUMNS:
        text = shorten(line[longest].text, max(MIN_SHORTENED_COLUMNS, size - over))
        cells[longest] = line[longest]._replace(text=text)
    return tuple(cells.values())


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
    COMPONENT_CLASSES = {f"headline--{tone}" for tone in TONES}  # noqa: RUF012

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self._lines: tuple[tuple[Cell, ...], ...] = ()
        self._widest: dict[object, list[int]] = {}
        """The largest widths of a line's cells so far, by the line's place and tones: a cell must not come and go
        with a digit of another one."""

    @property
    def lines(self) -> tuple[str, ...]:
        """Return the lines as text."""
        return tuple("  ".join(cell.text for cell in line) for line in self._lines)

    def show(self, lines: Sequence[Sequence[Cell]]) -> None:
        """Show these lines."""
        fresh = tuple(tuple(Cell(escape_line(cell.text), cell.tone) for cell in line if cell.text) for line in lines)
        if fresh != self._lines:
            grown = len(fresh) != len(self._lines)
            self._lines = fresh
            self.refresh(layout=grown)

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:  # noqa: ARG002
        """Return one row per line."""
        return max(1, len(self._lines))

    def _fit_line(self, y: int, width: int) -> tuple[Cell, ...]:
        """Return the cells of a line that fit at the widest they have been."""
        if y >= len(self._lines):
            return ()
        line = self._lines[y]
        widest = self._widest.setdefault((y, *(cell.tone for cell in line)), [0] * len(line))
        widest[:] = [max(cell_len(cell.text), previous) for cell, previous in zip(line, widest, strict=True)]
        return fit_cells(line, widest, width)

    def render_line(self, y: int) -> Strip:
        """Draw one line, cut with … where it is too long."""
        width, base = self.content_size.width, self.rich_style
        line = self._fit_line(y, width)
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
