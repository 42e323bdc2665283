"""A log of any size in a pane: only visible lines are read, and nothing in them reaches the terminal raw."""

from __future__ import annotations

import time
from typing import ClassVar

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from tui.console.lines import Line, LineSource
from tui.console.search import Filtered
from tui.console.text import fit, harmless_bytes

TICK_BUDGET = 4 * 1024 * 1024
"""Bytes indexed or searched in one tick: some milliseconds, so that a key never waits."""
BEHIND_IS_FAR = 64 * 1024
"""From this many bytes on that are not indexed yet, the end is shown from the file's end."""
PAINT_EVERY = 0.2
"""Seconds between two paints of a log that grows by screenfuls: nobody reads faster, and each costs 10 ms."""
SIDEWAYS = 16
"""Columns that one press of left or right moves."""
WORKER_COLORS = ("cyan", "magenta", "yellow", "green", "bright_blue", "bright_red", "bright_cyan", "bright_magenta")


class LogPane(ScrollView, can_focus=True):
    """Lines of a `LineSource`, with follow, a filter over the whole of it, and sideways scrolling."""

    DEFAULT_CSS = """
    LogPane {
        height: 1fr;
        overflow-x: hidden;
        overflow-y: scroll;
        scrollbar-size-vertical: 1;
        & > .log--dim { text-style: dim; }
        & > .log--found { background: $warning-darken-2; text-style: bold; }
        & > .log--current { background: $surface-lighten-2; }
        &:light > .log--found { background: $warning-lighten-2; }
        &:light > .log--current { background: $surface-darken-2; }
    }
    """
    COMPONENT_CLASSES: ClassVar[set[str]] = {"log--dim", "log--found", "log--current"}
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "move(-1)", "Up", show=False, id="log.up"),
        Binding("down,j", "move(1)", "Down", show=False, id="log.down"),
        Binding("pageup", "move_page(-1)", "Page up", show=False, id="log.page_up"),
        Binding("pagedown", "move_page(1)", "Page down", show=False, id="log.page_down"),
        Binding("left", "sideways(-1)", "Left", show=False, id="log.left"),
        Binding("right", "sideways(1)", "Right", show=False, id="log.right"),
        Binding("home,g", "first", "First line", show=False, id="log.first"),
        Binding("end,G", "last", "Last line, and follow", show=False, id="log.last"),
        Binding("n", "match(1)", "Next line found, in its place", show=False, id="log.next_match"),
        Binding("N", "match(-1)", "Previous line found", show=False, id="log.previous_match"),
        Binding("m", "around", "Only lines found, or all of them", show=False, id="log.around"),
    ]

    class Changed(Message):
        """What the pane would say about itself is another: follow, filter, number of lines."""

        def __init__(self, pane: LogPane) -> None:
            super().__init__()
            self.pane = pane

    def __init__(self, *, show_worker: bool = False, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self.follow = True
        self.show_worker = show_worker
        self.filter_text = ""
        self.lines_drawn = 0
        """Lines drawn since the start: what the paint budgets count."""
        self._source: LineSource | None = None
        self._shown: LineSource | None = None
        self._found: Filtered | None = None
        """The lines that hold the filter's text."""
        self._match: int | None = None
        """Place among the found of the one that is shown among its neighbours; None while only found ones are."""
        self._window: list[Line] = []
        self._window_at: tuple[int, int] | None = None
        self._painted_at, self._painted_count = 0.0, 0
        self._base_style: Style | None = None
        self._sideways = 0
        self._empty = "nothing was written yet"
        self._said = ""

    # --- data in ------------------------------------------------------------------------------------------------

    def open(self, source: LineSource, *, show_worker: bool = False, empty: str = "nothing was written yet") -> None:
        """Show another log, from its end; a filter that is set holds for it too."""
        if self._source is not None and self._source is not source:
            self._source.close()
        self._source = source
        self.show_worker = show_worker
        self._empty = empty
        self._sideways = 0
        self.follow = True
        self.set_filter(self.filter_text)

    def set_filter(self, text: str) -> None:
        """Show only lines that hold this text, whatever its case, of the whole log."""
        self.filter_text = text
        self._match = None
        if self._source is not None:
            self._found = Filtered(self._source, text) if text else None
            self._shown = self._found or self._source
        self._window_at = None
        self.tick()
        self.refresh()

    def tick(self, budget: int = TICK_BUDGET) -> None:
        """Look for new lines; repaints only when what is on the screen differs, and not at every screenful."""
        if self._shown is None:
            return
        (self._found or self._shown).advance(budget)
        count, now = self._shown.count, time.monotonic()
        grows_fast = count - self._painted_count >= self._height()
        if self._window_at is not None and grows_fast and now - self._painted_at < PAINT_EVERY:
            return
        self._painted_at, self._painted_count = now, count
        if count != self.virtual_size.height:
            self._set_height(count)
        if self.follow and self.scroll_offset.y != self._last_top():
            self._scroll_at_once(self._last_top())
        window = self._read()
        if window != self._window:
            self._window = window
            self.refresh()
        self._tell()

    def _set_height(self, count: int) -> None:
        """Tell the scrollbar only: assigning `virtual_size` would lay out and repaint the whole screen."""
        size = Size(self.size.width, count)
        self.set_reactive(LogPane.virtual_size, size)
        self._scroll_update(size)

    def _tell(self) -> None:
        if self.summary != self._said:
            self._said = self.summary
            self.post_message(self.Changed(self))

    @property
    def summary(self) -> str:
        """What the pane says about itself: lines, filter, whether it follows, how far a search is."""
        if self._shown is None:
            return ""
        parts = [f"{self._shown.count:,} lines"]
        if self._found is not None:
            place = "" if self._match is None else f"{self._match + 1:,} of "
            parts[0] = f"{place}{self._found.count:,} lines with “{self.filter_text}”"
            parts += ["n N step through them"] * (self._match is None and self._found.count > 0)
        if self._shown.behind > BEHIND_IS_FAR:
            done = 100 * (1 - self._shown.behind / max(1, self._shown.size))
            parts.append(f"{'searched' if self.filter_text else 'read'} {max(0, int(done))} %")
        parts.append("following" if self.follow else f"from line {self.scroll_offset.y + 1:,}")
        if self._sideways:
            parts.append(f"column {self._sideways + 1}")
        return " · ".join(parts)

    def _height(self) -> int:
        return self.scrollable_content_region.height

    def _last_top(self) -> int:
        return max(0, (self._shown.count if self._shown else 0) - self._height())

    def _read(self) -> list[Line]:
        if self._shown is None:
            return []
        height = self._height()
        self._window_at = (self.scroll_offset.y, height)
        if self.follow and self._shown.behind > BEHIND_IS_FAR:
            return self._shown.tail(height)
        return self._shown.lines(self.scroll_offset.y, height)

    # --- drawing ------------------------------------------------------------------------------------------------

    def _scroll_at_once(self, top: int) -> None:
        self.scroll_to(y=top, animate=False)

    def render_line(self, y: int) -> Strip:
        """Draw one visible line."""
        width = self.scrollable_content_region.width
        if self._window_at != (self.scroll_offset.y, self._height()):
            self._window = self._read()
        self.lines_drawn += 1
        if y >= len(self._window):
            if y == 0 and self._empty:
                text = "nothing found" if self.filter_text else self._empty
                dim = self.get_component_rich_style("log--dim", partial=True)
                return Strip([Segment(fit(" " + text, width), self._base() + dim)], width)
            return Strip.blank(width, self._base())
        strip = self._strip(self._window[y], width)
        if self._match is None or self._found is None or self._found.number(self._match) != self.scroll_offset.y + y:
            return strip
        return strip.apply_style(self.get_component_rich_style("log--current", partial=True))

    def _base(self) -> Style:
        """The pane's own style: working it out for every line would cost more than the line."""
        if self._base_style is None:
            self._base_style = self.rich_style
        return self._base_style

    def notify_style_update(self) -> None:
        """The theme changed."""
        self._base_style = None
        super().notify_style_update()

    def _strip(self, line: Line, width: int) -> Strip:
        base = self._base()
        segments: list[Segment] = []
        room = width
        if self.show_worker and line.worker is not None:
            label = f"{line.worker:>3}│"
            segments.append(Segment(label, base + Style.parse(worker_color(line.worker))))
            room -= cell_len(label)
        text = harmless_bytes(line.data)
        if self._sideways:
            text = Strip([Segment(text)]).crop(self._sideways).text
        if cell_len(text) > room:
            text = fit(text, room)
        segments += self._marked(text, base)
        return Strip(segments).adjust_cell_length(width, base)

    def _marked(self, text: str, base: Style) -> list[Segment]:
        wanted = self.filter_text.lower()
        at = text.lower().find(wanted) if wanted else -1
        if at < 0 or len(text.lower()) != len(text):
            return [Segment(text, base)]
        end = at + len(wanted)
        found = base + self.get_component_rich_style("log--found", partial=True)
        return [Segment(text[:at], base), Segment(text[at:end], found), Segment(text[end:], base)]

    # --- moving -------------------------------------------------------------------------------------------------

    def on_resize(self) -> None:
        """Keep the end in view while following."""
        self._window_at = None
        self.call_after_refresh(self.tick)

    def set_follow(self, follow: bool) -> None:
        """Stay at the end as lines come, or stay where one is."""
        self.follow = follow
        if follow:
            self._scroll_at_once(self._last_top())
        self._window_at = None
        self.refresh()
        self._tell()

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """Leave follow mode when somebody scrolls up."""
        super().watch_scroll_y(old_value, new_value)
        if new_value < old_value and round(new_value) < self._last_top():
            self.follow = False
        self._tell()

    def _go(self, top: int) -> None:
        self.follow = False
        self._scroll_at_once(min(max(0, top), self._last_top()))
        self._tell()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """What is about found lines there is only with a filter: else the keys are the screen's."""
        if action in ("match", "around"):
            return self._found is not None
        return super().check_action(action, parameters)

    def action_match(self, by: int) -> None:
        """The next or previous line found, with the lines around it; at first one that is to be seen."""
        if self._found is None or not self._found.count:
            return
        last = self._found.count - 1
        place = (last if self.follow else self.scroll_offset.y) if self._match is None else self._match + by
        self._match = min(max(0, place), last)
        self._look(self._source, self._found.number(self._match) - self._height() // 3)

    def action_around(self) -> None:
        """From the found lines to all lines and back."""
        if self._match is None:
            self.action_match(0)
        else:
            place, self._match = self._match, None
            self._look(self._found, place)

    def _look(self, source: LineSource | None, top: int) -> None:
        """Show other lines, from this one on."""
        self._shown, self.follow = source, False
        self._set_height(source.count if source is not None else 0)
        self._window_at = None
        self._go(top)
        self.refresh()

    def action_move(self, by: int) -> None:
        """Scroll by lines; who comes down to the last one follows again."""
        top = self.scroll_offset.y + by
        if by > 0 and top >= self._last_top():
            self.set_follow(True)
        else:
            self._go(top)

    def action_move_page(self, by: int) -> None:
        """Scroll by pages."""
        self.action_move(by * max(1, self._height() - 1))

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        """The wheel follows again at the last line, too."""
        if not (event.ctrl or event.shift):
            event.prevent_default()
            event.stop()
            self.action_move(round(self.app.scroll_sensitivity_y))

    def action_sideways(self, by: int) -> None:
        """Scroll sideways: long lines are cut at the edge."""
        self._sideways = max(0, self._sideways + by * SIDEWAYS)
        self.refresh()
        self._tell()

    def action_first(self) -> None:
        """Go to the first line."""
        self._go(0)

    def action_last(self) -> None:
        """Go to the last line and follow."""
        self.set_follow(True)


def worker_color(worker: int) -> str:
    """A worker's colour wherever its number shows; colours repeat, numbers tell."""
    return WORKER_COLORS[worker % len(WORKER_COLORS)]
