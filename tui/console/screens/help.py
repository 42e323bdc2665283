"""The help screen, made from the bindings that hold right now."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from textual.binding import Binding
from textual.screen import Screen
from textual.widget import Widget

KEYS_WIDTH = 16
_SIGNS = {
    "slash": "/",
    "colon": ":",
    "question_mark": "?",
    "left_square_bracket": "[",
    "right_square_bracket": "]",
    "escape": "esc",
    "pageup": "pgup",
    "pagedown": "pgdn",
}


def keys_of(bindings: Iterable[Binding]) -> list[tuple[str, str]]:
    """(keys, what they do), one entry an action, in the order the bindings come."""
    found: dict[str, tuple[str, list[str]]] = {}
    for binding in bindings:
        if not binding.description or binding.system:
            continue
        key = _SIGNS.get(binding.key, binding.key).replace("ctrl+", "^")
        found.setdefault(binding.action, (binding.description, []))[1].append(key)
    return [(" ".join(dict.fromkeys(keys)), description) for description, keys in found.values()]


def help_text(screen: Screen[object], widgets: Iterable[Widget]) -> str:
    """All keys of a screen and of the panes on it; what Textual binds on every screen comes last."""
    groups = [("on this screen", _bindings(screen, inherited=False))]
    groups += [(pane_name(widget), _bindings(widget, inherited=True)) for widget in widgets]
    groups.append(("everywhere", [bound for bound in _bindings(screen, inherited=True) if bound.action in TEXTUALS]))
    parts = []
    for title, bindings in groups:
        keys = keys_of(bindings)
        if keys:
            parts.append("\n".join([title, *(f"  {key:<{KEYS_WIDTH}}{told}" for key, told in keys)]))
    return "\n\n".join(dict.fromkeys(parts)) + f"\n\n{MORE}"


TEXTUALS = {
    "app.focus_next": "Next pane",
    "app.focus_previous": "Previous pane",
    "screen.copy_text": "Copy the selected text",
}
"""What Textual binds on every screen, in the words of this one."""


def _bindings(node: Screen[object] | Widget, *, inherited: bool) -> list[Binding]:
    """A screen's or a pane's bindings, with or without those that every Textual screen has."""
    bindings = [binding for bound in node._bindings.key_to_bindings.values() for binding in bound]
    if not inherited:
        return [binding for binding in bindings if binding.action not in TEXTUALS]
    return [dataclasses.replace(one, description=TEXTUALS.get(one.action, one.description)) for one in bindings]


MORE = """the mouse
  a click chooses, a double click opens, a click on a column's title sorts by it

filters
  cores: 14 is that core, w2 that worker, a word a state or an address; logs: any text, searched in the whole log"""


def pane_name(widget: Widget) -> str:
    """What a kind of pane is called."""
    return _PANES.get(type(widget).__name__, type(widget).__name__)


_PANES = {
    "CoreTable": "in the core table",
    "RowTable": "in a table",
    "LogPane": "in a log",
    "TabLine": "on a line of tabs",
    "Trouble": "in the line of troubles",
}
