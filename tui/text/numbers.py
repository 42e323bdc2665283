"""Parse untrusted integers within bounds."""

from __future__ import annotations

from typing import Any, TypeGuard

MOST_INTEGER = 2**63 - 1
"""The largest number of a worker's shell, and the largest file size."""
_MOST_DIGITS = len(str(MOST_INTEGER))


def parse_integer(text: str | bytes, most: int = MOST_INTEGER) -> int | None:
    """Parse a text of ASCII digits; None for any other text, and for a number above `most`."""
    if not (text.isdigit() and text.isascii()) or len(text) > _MOST_DIGITS:
        return None
    value = int(text)
    return value if value <= most else None


def is_integer(value: Any, least: int = -MOST_INTEGER, most: int = MOST_INTEGER) -> TypeGuard[int]:
    """Return whether a value is an integer within bounds; a bool is not."""
    return type(value) is int and least <= value <= most


def is_number(value: Any, least: float, most: float) -> TypeGuard[int | float]:
    """Return whether a value is a number within bounds; nan and bools are not."""
    return type(value) in (int, float) and least <= value <= most
