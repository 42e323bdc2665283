"""A bordered part of a screen: a title, a body, and the problems of its source."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.text import Text
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.geometry import Region
from textual.widget import Widget
from textual.widgets import Static

from tui.console.data.store import SourceReading
from tui.console.render.safe_text import escape_line, escape_lines
from tui.text.durations import format_elapsed

if TYPE_CHECKING:
    from typing_extensions import Self

STALE_AFTER_S = 12.0
"""Seconds after which the age of what is shown is shown too."""
MAX_PROBLEMS = 3


class Pane(Vertical):
    """Frames one widget; problems of its source are shown beneath it."""

    DEFAULT_CSS = """
    Pane {
        border: round $surface-lighten-2;
        border-title-color: $text;
        border-title-style: bold;
        border-subtitle-color: $text-muted;
        height: 1fr;
        &:light { border: round $surface-darken-3; }
        &:focus-within { border: round $accent; }
        & > .problem { height: auto; max-height: 6; color: $text-error; padding: 0 1; display: none; }
        & > .problem.-shown { display: block; }
    }
    """

    _edge: tuple[Region, ...] = ()
    """The line of the frame to repaint while only that line changes."""

    def __init__(self, title: str, body: Widget, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self.body = body
        self._label = Static("", classes="problem", markup=False)
        self._title = ""
        self._note = ""
        self._subtitle = ""
        self.problem = ""
        """The problem that is shown."""
        self.set_title(title)

    def compose(self) -> ComposeResult:
        """Lay out the body and the label for problems."""
        yield self.body
        yield self._label

    def set_title(self, title: str) -> None:
        """Set the pane's title. Remote text in it is not markup."""
        if title != self._title:
            self._title = title
            self._show_title()

    def set_note(self, note: str) -> None:
        """Set a note beside the title, e.g. that logs are still being read."""
        if note != self._note:
            self._note = note
            self._show_title()

    def _show_title(self) -> None:
        self.border_title = Text(escape_line(" · ".join(filter(None, (self._title, self._note)))))

    def set_subtitle(self, text: str) -> None:
        """Set the text at the bottom of the frame."""
        if text != self._subtitle:
            self._subtitle = text
            self._edge = (Region(-1, self.size.height, self.outer_size.width, 1),)
            self.border_subtitle = Text(escape_line(text)) if text else None
            self._edge = ()

    def refresh(self, *regions: Region, repaint: bool = True, layout: bool = False, recompose: bool = False) -> Self:
        """Repaint; a new subtitle, which comes many times per second, repaints its own line only."""
        return super().refresh(*(regions or self._edge), repaint=repaint, layout=layout, recompose=recompose)

    def set_problem(self, text: str) -> None:
        """Show an error and its remedy; an empty text hides it."""
        if text != self.problem:
            self.problem = text
            self._label.update(Text(escape_lines(text)))
            self._label.set_class(bool(text), "-shown")

    def show_reading(self, reading: SourceReading[Any], now: float, note: str = "") -> None:
        """Show a source's problems and notes, what it is doing, and the age of an old answer."""
        problems = [str(problem) for problem in reading.problems[:MAX_PROBLEMS]]
        hidden = len(reading.problems) - len(problems)
        self.set_problem("\n".join(problems + ([f"and {hidden} more problems"] if hidden > 0 else [])))
        age = reading.age(now)
        parts = [*filter(None, (note,)), *reading.notes]
        if age is not None and age > STALE_AFTER_S:
            parts.append(f"{format_elapsed(age)} old")
        if reading.busy:
            parts.append(reading.busy)
        self.set_subtitle(" · ".join(parts))
