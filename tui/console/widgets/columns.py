"""What tables are made of: columns, the cells in them, and which columns fit on a screen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

GAP = " "
"""Between two columns."""


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
    """Width that there has to be room for before a column of a higher rank is shown."""


@dataclass(frozen=True)
class Cell:
    """Text and the name of its tone: `good`, `warn`, `bad`, `busy`, `dim`, `accent` or none."""

    text: str
    tone: str = ""


def fitting(columns: Sequence[Column], width: int) -> list[tuple[Column, int]]:
    """The columns that fit into `width` and the width of each; the highest ranks go first."""
    shown = list(columns)
    while (worst := max(column.rank for column in shown)) and _needed(shown, worst) > width:
        shown.remove([column for column in shown if column.rank == worst][-1])
    spare = max(0, width - _needed(shown, 0))
    shares = sum(column.flexible for column in shown) or 1
    return [(column, column.width + spare * column.flexible // shares) for column in shown]


def _needed(columns: Sequence[Column], rank: int) -> int:
    """The width that columns need, those of a lower rank than this one as wide as they want to be."""
    widths = (max(column.width, column.wanted) if column.rank < rank else column.width for column in columns)
    return sum(widths) + len(GAP) * (len(columns) - 1)
