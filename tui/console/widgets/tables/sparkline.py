"""A few numbers as a line of blocks: on a scale of their own, or on one that all rows share."""

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
MIDDLE_SHARE = 3 / 4
"""The scale below zero as a share of the scale above it, so that zero is a block of half the height."""


def draw_sparkline(values: npt.ArrayLike, width: int, *, high: float | None = None) -> str:
    """Return values as blocks, oldest first, thinned out to `width` and right-aligned; NaN and inf are `×`.

    They are drawn on the scale from their lowest to their highest one, or from 0 to `high`.
    """
    points = _thin_out(values, width)
    if high is not None:
        return _draw(points, 0.0, high, width)
    finite = [point for point in points if isfinite(point)]
    low, top = min(finite, default=0.0), max(finite, default=0.0)
    return _draw(points, low, max(top, low + FLAT_SPREAD * max(abs(top), abs(low))), width)


def draw_deviations(values: npt.ArrayLike, width: int, scale: float) -> str:
    """Return deviations as blocks: `▄` is none, `█` is `scale` or more, `▁` as much below."""
    return _draw(_thin_out(values, width), -scale * MIDDLE_SHARE, scale, width)


def _draw(points: list[float], low: float, high: float, width: int) -> str:
    top, span = len(BLOCKS) - 1, max(high - low, 1e-12)
    return "".join(
        BLOCKS[min(max(0, round((point - low) / span * top)), top)] if isfinite(point) else NOT_FINITE
        for point in points
    ).rjust(width)


def _thin_out(values: npt.ArrayLike, width: int) -> list[float]:
    """Return at most `width` of the values, evenly spread."""
    points: list[float] = np.asarray(values, dtype=np.float64).tolist()
    return [points[index] for index in _places(len(points), width)] if len(points) > width else points


@lru_cache(maxsize=64)
def _places(count: int, width: int) -> tuple[int, ...]:
    """Return evenly spread places, including the first and the last one."""
    return tuple(np.linspace(0, count - 1, width).round().astype(int).tolist())
