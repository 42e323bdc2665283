"""The help screen, made from the current bindings."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from itertools import zip_longest
from typing import Any

from textual.binding import Binding
from textual.dom import DOMNode
from textual.screen import Screen
from textual.widget import Widget

KEYS_WIDTH = 15
"""Columns of the keys; half as many on the width of a phone."""
COLUMN_WIDTH = 50
"""Columns of a section, with its keys."""
SIDEWAYS = ("scroll_", "page_")
"""Prefixes of actions that Textual binds for sideways scrolling, which these panes do not use."""
_SIGNS = {
    "slash": "/",
    "dollar_sign": "$",
    "equals_sign": "=",
    "exclamation_mark": "!",
    "colon": ":",
    "question_mark": "?",
    "left_square_bracket": "[",
    "right_square_bracket": "]",
    "escape": "esc",
    "pageup": "pgup",
    "pagedown": "pgdn",
}
_PANES = {
    "CoreTableWidget": "in the core table",
    "RowTable": "in a table",
    "LogPane": "in a log",
    "TabBar": "on a tab bar",
    "ProblemPanel": "in the problem panel",
}
"""Titles of the sections for panes, by the class of their widget."""
TEXTUAL_BINDINGS = {
    "app.focus_next": "Next pane",
    "app.focus_previous": "Previous pane",
    "screen.copy_text": "Copy the selected text",
}
"""What Textual binds on every screen, as this console describes it."""
HELP_NOTES = """the mouse
  click selects, double-click opens, click a column header to sort

filters
  cores: 14 is core 14, w2 is worker 2, a word matches a state or an address
  logs: any text, searched in the whole log"""


def list_keys(bindings: Iterable[Binding]) -> list[tuple[str, str]]:
    """Return (keys, description) for each action, in the order of the bindings."""
    actions: dict[str, tuple[str, list[str]]] = {}
    for binding in bindings:
        if not binding.description or binding.system:
            continue
        key = _SIGNS.get(binding.key, binding.key).replace("ctrl+", "^")
        actions.setdefault(binding.action, (binding.tooltip or binding.description, []))[1].append(key)
    return [(" ".join(dict.fromkeys(keys)), description) for description, keys in actions.values()]


def list_bindings(node: DOMNode) -> list[Binding]:
    """Return the bindings that a screen or a widget declares or inherits, by key, those of the base classes first."""
    bindings: dict[str, Binding] = {}
    for cls in reversed(type(node).__mro__):
        for binding in Binding.make_bindings(vars(cls).get("BINDINGS", ())):
            bindings[binding.key] = binding
    return list(bindings.values())


def format_help(screen: Screen[Any], widgets: Iterable[Widget], width: int = 0) -> str:
    """Return all keys of a screen and its panes; the keys that Textual binds on every screen come last.

    In two columns if `width` has room for them; narrower on the width of a phone.
    """
    bindings = _list_active(screen)
    sections = [("on this screen", [binding for binding in bindings if binding.action not in TEXTUAL_BINDINGS])]
    sections += [
        (_PANES.get(type(widget).__name__, type(widget).__name__), _list_active(widget)) for widget in widgets
    ]
    sections.append(("everywhere", [binding for binding in bindings if binding.action in TEXTUAL_BINDINGS]))
    room = KEYS_WIDTH if not width or width >= COLUMN_WIDTH else KEYS_WIDTH // 2
    parts = []
    for title, section in sections:
        if keys := list_keys(section):
            parts.append("\n".join([title, *(f"  {key:<{room}}{text}" for key, text in keys)]))
    lines = "\n\n".join(dict.fromkeys(parts)).splitlines()
    return "\n".join(_side_by_side(lines, width)) + f"\n\n{HELP_NOTES}"


def _list_active(node: Screen[Any] | Widget) -> list[Binding]:
    """Return the bindings of a screen or a pane that do something, as this console describes them."""
    return [
        dataclasses.replace(binding, description=TEXTUAL_BINDINGS.get(binding.action, binding.description))
        for binding in list_bindings(node)
        if not binding.action.startswith(SIDEWAYS) and node.check_action(binding.action, ()) is not False
    ]


def _side_by_side(lines: list[str], width: int) -> list[str]:
    """Return sections of lines, separated by blank ones, in two columns of about equal height if they fit."""
    ends = [number for number, line in enumerate(lines) if not line] or [len(lines)]
    middle = min(ends, key=lambda end: abs(2 * end - len(lines)))
    left, right = lines[:middle], lines[middle + 1 :]
    begin = max(COLUMN_WIDTH, max(map(len, left), default=0) + 2)
    if begin + max(map(len, right), default=0) > width:
        return lines
    return [f"{a:<{begin}}{b}".rstrip() for a, b in zip_longest(left, right, fillvalue="")]
