"""The footer: as many keys as fit, the most used first, none of them cut, and last the key that shows all of them."""

from __future__ import annotations

from typing import NamedTuple

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.binding import ActiveBinding
from textual.strip import Strip
from textual.widget import Widget

KEY_GAP_COLUMNS = 2
"""Columns that a key takes beside its sign and its words: a blank between the two, and one after."""
ACTION_ORDER = (
    "open",
    "back",
    "new_run",
    "stop_run",
    "logs",
    "check",
    "filter",
    "app.command_palette",
    "delete_resource",
    "follow",
    "describe",
    "execute",
    "shell",
    "export",
    "zoom",
    "app.ask_quit",
    "next_sort",
    "equivalents",
    "new_slice",
    "resources",
    "change_slice('delete')",
    "change_slice('stop')",
    "change_slice('start')",
)
"""Actions in the order in which their keys are shown; others come after them."""
ALL_KEYS_ACTION = "show_help"
"""The action whose key has the last place, however little room there is."""
MORE = "More"
"""The label of that key while some keys are not shown."""


class ShownKey(NamedTuple):
    """A key of the footer: its name, what it does, and whether it is enabled."""

    key: str
    display: str
    description: str
    is_enabled: bool

    @property
    def width(self) -> int:
        """Return the columns it takes."""
        return cell_len(self.display) + cell_len(self.description) + KEY_GAP_COLUMNS


class KeyFooter(Widget):
    """The keys that fit into the screen's width; `?` shows all of them."""

    DEFAULT_CSS = """
    KeyFooter {
        dock: bottom; height: 1; background: $footer-background; color: $footer-description-foreground;
        & > .footer--key { color: $footer-key-foreground; text-style: bold; }
        & > .footer--disabled { text-style: dim; }
    }
    """
    COMPONENT_CLASSES = {"footer--key", "footer--disabled"}  # noqa: RUF012

    def __init__(self) -> None:
        super().__init__()
        self.keys: tuple[ShownKey, ...] = ()
        """The keys that are shown."""

    def on_mount(self) -> None:
        """Follow the screen's bindings."""
        self.screen.bindings_updated_signal.subscribe(self, lambda _: self._update())
        self.call_after_refresh(self._update)

    def on_resize(self) -> None:
        """Show more keys, or fewer."""
        self._update()

    def _update(self) -> None:
        """Repaint if the keys differ: most changes of the focus leave them unchanged."""
        if self.is_attached and (keys := self._fitting_keys()) != self.keys:
            self.keys = keys
            self.refresh()

    def _fitting_keys(self) -> tuple[ShownKey, ...]:
        bindings: dict[str, ActiveBinding] = {}
        for active in self.screen.active_bindings.values():
            if active.binding.show:
                bindings.setdefault(active.binding.action, active)
        last = [self._make_key(active) for active in [bindings.pop(ALL_KEYS_ACTION, None)] if active]
        keys = [self._make_key(active) for active in sorted(bindings.values(), key=_get_place)]
        room = self.app.size.width + 1  # the blank after the last one may be missing
        if sum(key.width for key in keys + last) <= room:
            return (*keys, *last)
        last = [key._replace(description=MORE) for key in last]
        room -= sum(key.width for key in last)
        while keys and sum(key.width for key in keys) > room:
            keys.pop()
        return (*keys, *last)

    def _make_key(self, active: ActiveBinding) -> ShownKey:
        binding = active.binding
        return ShownKey(binding.key, self.app.get_key_display(binding), binding.description, active.enabled)

    def render_line(self, y: int) -> Strip:  # noqa: ARG002
        """Draw the line."""
        base = self.rich_style
        key_style = base + self.get_component_rich_style("footer--key", partial=True)
        dim = Style(dim=True)
        segments: list[Segment] = []
        for key in self.keys:
            tone = Style.null() if key.is_enabled else dim
            segments.append(Segment(key.display + " ", key_style + tone))
            segments.append(Segment(key.description + " ", base + tone))
        return Strip(segments).adjust_cell_length(self.size.width, base)

    def on_click(self, event: events.Click) -> None:
        """Press the key that was clicked on."""
        x = 0
        for key in self.keys:
            x += key.width
            if event.x < x:
                self.app.simulate_key(key.key)
                return


def _get_place(active: ActiveBinding) -> int:
    action = active.binding.action
    return ACTION_ORDER.index(action) if action in ACTION_ORDER else len(ACTION_ORDER)
