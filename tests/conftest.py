"""In which order the tests run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

LONGEST = ("runs", "cli", "localpod", "console")
"""Packages whose files take minutes of waiting: begun last, one of them would hold up the end by itself."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest first; otherwise as collected."""
    items.sort(key=lambda item: _place(item.path.parts))


def _place(parts: Sequence[str]) -> int:
    package = parts[len(Path(__file__).parent.parts)]
    return LONGEST.index(package) if package in LONGEST else len(LONGEST)
