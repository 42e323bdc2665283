"""A few numbers as a line of blocks, scaled so that a flat series looks flat."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

BLOCKS = "▁▂▃▄▅▆▇█"
NOT_FINITE = "×"
FLAT = 0.02
"""A spread under this share of the largest value is drawn as flat: small noise must not look like a storm."""


def sparkline(values: npt.ArrayLike, width: int) -> str:
    """All values, oldest first, thinned out to `width` places and right-aligned; nan and inf show as `×`."""
    series = np.asarray(values, dtype=np.float64)
    if len(series) > width:
        series = series[np.linspace(0, len(series) - 1, width).round().astype(np.int64)]
    if not len(series):
        return " " * width
    finite = series[np.isfinite(series)]
    low, high = (float(finite.min()), float(finite.max())) if len(finite) else (0.0, 0.0)
    span = max(high - low, FLAT * max(abs(high), abs(low)), 1e-12)
    levels = np.zeros(len(series), dtype=np.int64)
    shown = np.isfinite(series)
    levels[shown] = ((series[shown] - low) / span * (len(BLOCKS) - 1)).round().astype(np.int64)
    text = "".join(BLOCKS[level] if ok else NOT_FINITE for level, ok in zip(levels, shown, strict=True))
    return text.rjust(width)
