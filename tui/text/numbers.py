"""Parse untrusted integers within bounds, and format figures with their significant digits."""

from __future__ import annotations

import math
from typing import Any, TypeGuard

MOST_INTEGER = 2**63 - 1
"""The largest number in a worker's shell, and the largest file size."""
_MOST_DIGITS = len(str(MOST_INTEGER))
_FIGURE_DIGITS = 7
"""Significant digits of computed figures, those of the single precision in which curves are stored."""
_LARGE = 1e12


def parse_integer(text: str | bytes, most: int = MOST_INTEGER) -> int | None:
    """Parse a text of ASCII digits; None for any other text, and for a number above `most`."""
    if not (text.isdigit() and text.isascii()) or len(text) > _MOST_DIGITS:
        return None
    value = int(text)
    return value if value <= most else None


def parse_number(text: str) -> float:
    """Parse a finite number; NaN for any other text."""
    try:
        value = float(text)
    except ValueError:
        return math.nan
    return value if math.isfinite(value) else math.nan


def is_integer(value: Any, least: int = -MOST_INTEGER, most: int = MOST_INTEGER) -> TypeGuard[int]:
    """Return whether a value is an integer within bounds; a bool is not."""
    return type(value) is int and least <= value <= most


def is_number(value: Any, least: float, most: float) -> TypeGuard[int | float]:
    """Return whether a value is a number within bounds; nan and bools are not."""
    return type(value) in (int, float) and least <= value <= most


def round_figure(value: float) -> float:
    """Round to significant digits, so that binary arithmetic does not show: 748.86, not 748.8599999999999."""
    return float(f"{value:.{_FIGURE_DIGITS}g}")


def format_figure(value: float, decimals: int = 2, *, apart: bool = False) -> str:
    """Format a number with `decimals`; with `apart`, separate thousands by `,`.

    A number too small for the decimals has three digits, one from 10¹² on has seven and an exponent.
    """
    if not math.isfinite(value):
        return str(value)
    if 0 < abs(value) < 10.0 ** (1 - decimals):
        return f"{value:.3g}"
    if abs(value) >= _LARGE:
        return f"{value:.{_FIGURE_DIGITS}g}"
    return f"{value:{',' if apart else ''}.{decimals}f}"
