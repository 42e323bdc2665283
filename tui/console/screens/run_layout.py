"""How the panes of a run share its screen: a pure function of what there is to show and of the room for it."""

from __future__ import annotations

from dataclasses import dataclass

FRAME_ROWS = 3
"""Rows of a pane with a table that are no rows of it: frame and header."""
MIN_CHART_ROWS = 10
"""Rows of a chart's pane below which nobody reads a curve from it."""
MIN_LOG_ROWS = 8
"""Rows of the logs' pane, with its frame and tabs, below which nobody follows a log in it."""
EDGE_ROWS = 4
"""Rows of a run's screen that are no pane's: headline, tabs and keys."""
MAX_FEW_CORES = 8
"""Up to this many cores are few: one host's."""


@dataclass(frozen=True)
class LayoutInputs:
    """What the panes have to share."""

    rows: int
    """Rows of the table in the upper half, without its frame."""
    room: int
    """Rows that the upper half may take at most."""
    started: bool
    """Whether there are cores to show, and so charts."""
    one_at_a_time: bool
    """Whether one pane fills the screen."""
    stacked: bool
    """Whether the upper half has width for one pane only."""
    charts_in_front: bool
    """Whether that one is the charts."""


@dataclass(frozen=True)
class PaneHeights:
    """Heights in rows; None is all there is."""

    few: bool
    """Whether the cores stand above the charts, and these side by side; many cores stand beside them."""
    upper: int | None
    cores: int | None


def has_room_for_logs(rows: int, height: int) -> bool:
    """Whether a table of so many rows is low enough for a log beneath it, on a screen of this height."""
    return rows + FRAME_ROWS + MIN_LOG_ROWS + EDGE_ROWS <= height


def get_upper_room(height: int, used: int) -> int:
    """Rows that the upper half may take of a screen of which so many are used: three fifths, and one row at least."""
    return max(FRAME_ROWS + 1, (height - used) * 3 // 5)


def divide_height(shape: LayoutInputs) -> PaneHeights:
    """The upper half as high as its table and charts need; the logs get the rest."""
    rows = shape.rows + FRAME_ROWS
    if shape.one_at_a_time:
        return PaneHeights(False, None, None)
    beside = shape.started and not shape.stacked
    if beside and shape.rows <= MAX_FEW_CORES and rows + MIN_CHART_ROWS <= shape.room:
        return PaneHeights(True, min(rows + max(MIN_CHART_ROWS, shape.room // 3), shape.room), rows)
    charts = beside or shape.charts_in_front
    return PaneHeights(False, min(max(rows, 2 * MIN_CHART_ROWS) if charts else rows, shape.room), None)
