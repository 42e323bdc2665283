"""Integers from elsewhere: digits of a worker, a file or a person, read within bounds or not at all."""

from __future__ import annotations

from typing import Any, TypeGuard

MOST_INTEGER = 2**63 - 1
"""The largest number that a shell on a worker, or a file's size, can have."""
_MOST_DIGITS = len(str(MOST_INTEGER))


def parse_integer(text: str | bytes, most: int = MOST_INTEGER) -> int | None:
    """Return the integer that a text of ASCII digits means; None for any other text, and for one above `most`."""
    if not (text.isdigit() and text.isascii()) or len(text) > _MOST_DIGITS:
        return None
    value = int(text)
    return value if value <= most else None


def is_integer(value: Any, least: int = -MOST_INTEGER, most: int = MOST_INTEGER) -> TypeGuard[int]:
    """Return whether a value is an integer within bounds; a truth value is none."""
    return type(value) is int and least <= value <= most


def is_number(value: Any, least: float, most: float) -> TypeGuard[int | float]:
    """Return whether a value is a number within bounds; nan and truth values are none."""
    return type(value) in (int, float) and least <= value <= most
