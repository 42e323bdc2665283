"""A few numbers as a line of blocks, scaled so that a flat series looks flat."""

from __future__ import annotations

from functools import lru_cache
from math import isfinite
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

BLOCKS = "▁▂▃▄▅▆▇█"
NOT_FINITE = "×"
FLAT_SPREAD = 0.02
"""A spread under this share of the largest value is drawn as flat: small noise must not look like a storm."""


def draw_sparkline(values: npt.ArrayLike, width: int) -> str:
    """Return values as blocks, oldest first, thinned out to `width` and right-aligned; NaN and inf are `×`."""
    points: list[float] = np.asarray(values, dtype=np.float64).tolist()
    if len(points) > width:
        points = [points[place] for place in _thinned(len(points), width)]
    finite = [point for point in points if isfinite(point)]
    low, high = min(finite, default=0.0), max(finite, default=0.0)
    span = max(high - low, FLAT_SPREAD * max(abs(high), abs(low)), 1e-12)
    top = len(BLOCKS) - 1
    text = "".join(BLOCKS[round((point - low) / span * top)] if isfinite(point) else NOT_FINITE for point in points)
    return text.rjust(width)


@lru_cache(maxsize=64)
def _thinned(count: int, width: int) -> tuple[int, ...]:
    """Return evenly spread places, including the first and the last one."""
    return tuple(np.linspace(0, count - 1, width).round().astype(int).tolist())
