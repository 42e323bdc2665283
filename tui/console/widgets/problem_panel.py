"""The panel beneath the headline for what needs attention, with a way to the log of the worker concerned."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from rich.segment import Segment
from rich.text import Text
from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Size
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from tui.console.render.safe_text import escape_line, fit

MAX_SENTENCE_ROWS = 10
"""Lines that sentences may take."""
MAX_QUOTED_ROWS, MAX_QUOTED_ROWS_LOW_SCREEN = 6, 3
"""Quoted lines, on a tall and on a low screen."""
LOW_SCREEN_ROWS = 34
HEIGHT_DIVISOR, MIN_ROWS = 3, 3
"""The panel takes at most 1/3 of the screen's height, and may take at least 3 rows: the panes beneath need room."""
SIGNS = {"bad": "✗", "warn": "▲"}
RESOLVED_TEXT = "Resolved"


@dataclass(frozen=True)
class Problem:
    """Sentences with the worst one's tone; the log of `worker` has more, `quoted` are its last lines."""

    sentences: tuple[str, ...] = ()
    tone: str = ""
    worker: int | None = None
    quoted: tuple[str, ...] = ()
    is_partial: bool = False
    """Whether logs are still being read: a problem may be found yet."""


class ProblemPanel(Widget):
    """Takes no room until there is a problem; then it stays, so that the panes beneath do not jump."""

    DEFAULT_CSS = """
    ProblemPanel {
        height: auto; display: none; background: $panel; padding: 0 1;
        &.-shown { display: block; }
        & > .problem--bad { background: $error; color: auto; text-style: bold; }
        & > .problem--warn { background: $warning; color: auto; text-style: bold; }
        & > .problem--dim { text-style: dim; }
        &:focus > .problem--bad { text-style: bold underline; }
    }
    """
    COMPONENT_CLASSES: ClassVar[set[str]] = {"problem--bad", "problem--warn", "problem--dim"}
    BINDINGS: ClassVar[list[BindingType]] = [Binding("enter,l", "open", "Open the worker's log", id="problem.open")]

    class LogRequested(Message):
        """Asks for the log of a worker."""

        def __init__(self, worker: int) -> None:
            super().__init__()
            self.worker = worker

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self._problem = Problem()
        self._wrapped: tuple[int, int, list[tuple[str, str]]] = (0, 0, [])

    @property
    def lines(self) -> tuple[str, ...]:
        """Return the text, unwrapped."""
        return (*self._problem.sentences, *self._problem.quoted)

    def show(self, problem: Problem) -> None:
        """Show a problem; after the first one, no problem is shown as resolved."""
        if not problem.sentences and self.has_class("-shown"):
            problem = self._problem if problem.is_partial else Problem((RESOLVED_TEXT,), "dim")
        if problem != self._problem:
            self._problem = problem
            self._wrapped = (0, 0, [])
            self.can_focus = problem.worker is not None
            self.set_class(bool(problem.sentences), "-shown")
            self.refresh()
        width, height = self.content_size
        if problem.sentences and height != len(self._lines(width)):
            self.refresh(layout=True)

    def _lines(self, width: int) -> list[tuple[str, str]]:
        """Return text and tone of each line: sentences wrapped, quoted lines cut at the edge."""
        height = self.app.size.height
        if self._wrapped[:2] != (width, height):
            room = max(MIN_ROWS, height // HEIGHT_DIVISOR)
            quoted = self._problem.quoted[
                -(MAX_QUOTED_ROWS_LOW_SCREEN if height < LOW_SCREEN_ROWS else MAX_QUOTED_ROWS) :
            ]
            quoted_rows = min(len(quoted), max(1, room // 4))
            lines = self._sentences(width)[: min(MAX_SENTENCE_ROWS, room - quoted_rows)]
            name = "" if self._problem.worker is None else f"{self._problem.worker:>3}│"
            lines += [(fit(name + escape_line(text), width), "") for text in quoted[-(room - len(lines)) :]]
            self._wrapped = (width, height, lines)
        return self._wrapped[2]

    def _sentences(self, width: int) -> list[tuple[str, str]]:
        sign = SIGNS.get(self._problem.tone, "")
        lines: list[tuple[str, str]] = []
        for number, sentence in enumerate(self._problem.sentences):
            text = f"{sign} {escape_line(sentence)}" if sign and not number else escape_line(sentence)
            wrapped = Text(text).wrap(self.app.console, max(1, width))
            lines += [(fit(line.plain.rstrip(), width), "" if number else self._problem.tone) for line in wrapped]
        return lines

    def rows(self, width: int) -> int:
        """Return the rows that the panel takes on a screen of this width, laid out or not."""
        return len(self._lines(width - self.gutter.width)) if self._problem.sentences else 0

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:  # noqa: ARG002
        """Return the number of lines."""
        return max(1, len(self._lines(width)))

    def render_line(self, y: int) -> Strip:
        """Draw one line with its padding."""
        width = self.content_size.width
        lines = self._lines(width)
        if y >= len(lines):
            return Strip.blank(self.size.width, self.rich_style)
        text, tone = lines[y]
        style = self.rich_style
        if tone:
            style += self.get_component_rich_style(f"problem--{tone}", partial=tone == "dim")
        return Strip([Segment(text, style)], width)

    def on_click(self, event: events.Click) -> None:
        """Open the log."""
        event.stop()
        self.action_open()

    def action_open(self) -> None:
        """Ask for the worker's log."""
        if self._problem.worker is not None:
            self.post_message(self.LogRequested(self._problem.worker))


def make_problem(sentences: Sequence[tuple[str, str]], details: Sequence[str] = ()) -> Problem:
    """Return a problem: sentences, each with its remedy, on one line in their worst tone, then a line per detail."""
    if not sentences and not details:
        return Problem()
    tones = {tone for _, tone in sentences}
    tone = "bad" if "bad" in tones or not sentences else "warn" if "warn" in tones else "dim"
    first = (" · ".join(text for text, _ in sentences).replace(" · →", " →"),) if sentences else ()
    return Problem((*first, *details), tone)
