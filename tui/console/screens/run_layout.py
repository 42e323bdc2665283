"""How the panes of a run share its screen: a pure function of their content and the room."""

from __future__ import annotations

from dataclasses import dataclass

FRAME_ROWS = 3
"""Rows of a pane that its table does not have: frame and header."""
MIN_CHART_ROWS = 10
"""Rows of a chart's pane below which a curve cannot be read."""
MIN_LOG_ROWS = 6
"""Rows of the logs' pane, with frame and tabs, below which a log cannot be followed: the cores of one host, a problem
and a log fit on 24 rows."""
EDGE_ROWS = 4
"""Rows of a run's screen outside its panes: headline, tabs and footer."""
USUAL_PROBLEM_ROWS = 3
"""Rows that are kept for a problem once there is one: panes that come and go with its text would flicker."""
MAX_FEW_CORES = 8
"""Cores that count as few: those of one host."""


@dataclass(frozen=True)
class LayoutInputs:
    """What the heights depend on."""

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
    """Return whether a table of `rows` leaves room for a log beneath it on a screen of this height."""
    return rows + FRAME_ROWS + MIN_LOG_ROWS + EDGE_ROWS <= height


def reserve_rows(problem_rows: int) -> int:
    """Return the rows to keep for the problem panel, given the rows that it takes now."""
    return max(USUAL_PROBLEM_ROWS, problem_rows) if problem_rows else 0


def get_upper_room(height: int, used: int) -> int:
    """Return the rows for the upper half: three fifths of the unused ones, at least one row of a table."""
    return max(FRAME_ROWS + 1, (height - used) * 3 // 5)


def divide_height(shape: LayoutInputs) -> PaneHeights:
    """Return heights: the upper half as its table and charts need, the rest for the logs."""
    rows = shape.rows + FRAME_ROWS
    if shape.one_at_a_time:
        return PaneHeights(False, None, None)
    beside = shape.started and not shape.stacked
    if beside and shape.rows <= MAX_FEW_CORES and rows + MIN_CHART_ROWS <= shape.room:
        return PaneHeights(True, min(rows + max(MIN_CHART_ROWS, shape.room // 3), shape.room), rows)
    charts = beside or shape.charts_in_front
    return PaneHeights(False, min(max(rows, 2 * MIN_CHART_ROWS) if charts else rows, shape.room), None)
