"""Columns and cells of tables, and which columns fit on a screen."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

GAP = " "
"""Between two columns."""
SORT_MARK_WIDTH = 1
"""Width of the arrow after the title of a sorted column."""
MIN_FLEXIBLE_WIDTH = 16
"""Width to which a flexible column shrinks before another column is dropped."""


@dataclass(frozen=True)
class Column:
    """One column. On a narrow screen the highest `rank` is dropped first; 0 always stays."""

    key: str
    title: str
    width: int
    right: bool = False
    rank: int = 0
    flexible: int = 0
    """Shares of the spare room that it takes."""
    wanted: int = 0
    """Width it needs before a column of a higher rank is shown (before one of rank 2 if this
    one has rank 0), or what its cells need if that is less."""
    most: int = sys.maxsize
    """Width beyond which it takes no spare room."""
    leaves: int = 0
    """Room that must be left for flexible columns before it is shown."""
    collapses: bool = False
    """Whether it is as narrow as its title while all its cells are empty."""


TONES = ("good", "warn", "bad", "busy", "dim", "accent")
"""What a cell's text can mean; each is a component class of tables and headlines."""


class Cell(NamedTuple):
    """Text and its tone, one of `TONES` or empty."""

    text: str
    tone: str = ""


def fit_columns(
    columns: Sequence[Column], width: int, needs: Mapping[str, int] | None = None
) -> list[tuple[Column, int]]:
    """Return the columns that fit into `width` and their widths; the highest ranks are dropped first.

    `needs` has the widths of the columns' cells, by key. Spare room goes there first, the lowest rank
    first, each up to its wanted width and then beyond, then to all flexible columns. If even the columns
    of rank 0 do not fit, flexible ones shrink, then the last ones are dropped.
    """
    needs = needs or {}
    shown = list(columns)
    while (worst := max(column.rank for column in shown)) and _needed_width(shown, worst, needs) > width:
        shown.remove([column for column in shown if column.rank == worst][-1])
    widths = {column.key: column.width for column in shown}
    spare = max(0, -_give_way(shown, widths, _needed_width(shown, 0, needs) - width))
    for column in shown:
        if column.collapses and needs.get(column.key) == 0:
            widths[column.key] = len(column.title) + SORT_MARK_WIDTH
            spare += column.width - widths[column.key]
    flexible = sorted((column for column in shown if column.flexible), key=lambda column: column.rank)
    for is_modest in (True, False):
        for column in flexible:
            need = needs.get(column.key, 0)
            if is_modest and (column.wanted or column.rank):
                need = min(need, column.wanted)
            extra = min(spare, max(0, need - widths[column.key]))
            widths[column.key] += extra
            spare -= extra
    shares = sum(column.flexible for column in shown) or 1
    return [(column, min(column.most, widths[column.key] + spare * column.flexible // shares)) for column in shown]


def _give_way(shown: list[Column], widths: dict[str, int], over: int) -> int:
    """Shrink or drop what does not fit; return how many columns are still missing. Half a number would be wrong."""
    for column in shown:
        less = min(max(0, over), max(0, column.width - MIN_FLEXIBLE_WIDTH)) if column.flexible else 0
        widths[column.key] -= less
        over -= less
    while over > 0 and len(shown) > 1:
        over -= widths[shown.pop().key] + len(GAP)
    return over


def _needed_width(columns: Sequence[Column], rank: int, needs: Mapping[str, int]) -> int:
    """Return the width that columns need, with those of a lower rank than this at their wanted width."""
    total = len(GAP) * (len(columns) - 1)
    for column in columns:
        counts = column.rank < rank and (column.rank or rank > 1)
        wanted = min(column.wanted, needs.get(column.key, column.wanted)) if counts else 0
        total += max(column.width, wanted) + (column.leaves if rank else 0)
    return total
