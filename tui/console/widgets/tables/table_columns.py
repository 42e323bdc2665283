"""What tables are made of: columns, the cells in them, and which columns fit on a screen."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

GAP = " "
"""Between two columns."""
MIN_FLEXIBLE_WIDTH = 16
"""Columns of the screen that a flexible column gives way down to, before another one goes."""


@dataclass(frozen=True)
class Column:
    """One column: `rank` says what goes first when the screen is narrow (0 stays always)."""

    key: str
    title: str
    width: int
    right: bool = False
    rank: int = 0
    flexible: int = 0
    """Shares it takes of the room that the columns leave."""
    wanted: int = 0
    """Width that there has to be room for before a column of a higher rank is shown; before one of rank 2 where this
    one stays always. What its cells need is enough."""
    most: int = sys.maxsize
    """Width from which it takes no share of the room any more."""
    leaves: int = 0
    """Room that has to be there beside it, for flexible columns to have, before it is shown."""


class Cell(NamedTuple):
    """Text and the name of its tone: `good`, `warn`, `bad`, `busy`, `dim`, `accent` or none."""

    text: str
    tone: str = ""


def fit_columns(
    columns: Sequence[Column], width: int, needs: Mapping[str, int] | None = None
) -> list[tuple[Column, int]]:
    """The columns that fit into `width` and the width of each; the highest ranks go first.

    `needs` says how wide a column's cells are, by its key: what is to spare goes there first, the lowest rank served
    before the others, and the rest to all that are flexible. Where even those that stay always are too many, flexible
    ones give way, then the last ones go.
    """
    needs = needs or {}
    shown = list(columns)
    while (worst := max(column.rank for column in shown)) and _needed(shown, worst, needs) > width:
        shown.remove([column for column in shown if column.rank == worst][-1])
    widths = {column.key: column.width for column in shown}
    spare = max(0, -_give_way(shown, widths, _needed(shown, 0, needs) - width))
    for column in sorted(shown, key=lambda column: column.rank):
        more = min(spare, max(0, needs.get(column.key, 0) - column.width)) if column.flexible else 0
        widths[column.key] += more
        spare -= more
    shares = sum(column.flexible for column in shown) or 1
    return [(column, min(column.most, widths[column.key] + spare * column.flexible // shares)) for column in shown]


def _give_way(shown: list[Column], widths: dict[str, int], over: int) -> int:
    """Take away what does not fit, for half a number would be another number; how much still does not."""
    for column in shown:
        less = min(max(0, over), max(0, column.width - MIN_FLEXIBLE_WIDTH)) if column.flexible else 0
        widths[column.key] -= less
        over -= less
    while over > 0 and len(shown) > 1:
        over -= widths[shown.pop().key] + len(GAP)
    return over


def _needed(columns: Sequence[Column], rank: int, needs: Mapping[str, int]) -> int:
    """The width that columns need, those of a lower rank than this one as wide as they want to be."""
    total = len(GAP) * (len(columns) - 1)
    for column in columns:
        counts = column.rank < rank and (column.rank or rank > 1)
        wanted = min(column.wanted, needs.get(column.key, column.wanted)) if counts else 0
        total += max(column.width, wanted) + (column.leaves if rank else 0)
    return total
