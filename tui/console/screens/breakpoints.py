"""The classes by which style sheets know a screen's size."""

from __future__ import annotations

from typing import Any

from textual.screen import Screen

NARROW, NORMAL, WIDE = "-narrow", "-normal", "-wide"
SHORT, TALL = "-short", "-tall"
FRAMELESS, MIN_FRAMED_ROWS = "-frameless", 14
"""Rows of a screen below which frames would leave too few rows inside."""

HORIZONTAL_BREAKPOINTS = [(0, NARROW), (110, NORMAL), (170, WIDE)]
VERTICAL_BREAKPOINTS = [(0, SHORT), (34, TALL)]
"""The breakpoints of main screens: columns or rows, and the class from there on."""


def apply_breakpoints(screen: Screen[Any]) -> None:
    """Give a screen the classes of its breakpoints before its first layout: Textual does after it, and all jumps."""
    size = screen.app.size
    for points, extent in ((screen.HORIZONTAL_BREAKPOINTS, size.width), (screen.VERTICAL_BREAKPOINTS, size.height)):
        chosen = max((point for point in points or () if point[0] <= extent), default=(0, ""))[1]
        for _, name in points or ():
            screen.set_class(name == chosen, name)
    screen.set_class(size.height < MIN_FRAMED_ROWS, FRAMELESS)
