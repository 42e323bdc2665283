"""Import libraries without optional dependencies."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from typing import cast


@contextlib.contextmanager
def without(module: str) -> Iterator[None]:
    """Hide a module from imports within the `with`, unless it is already loaded."""
    if module in sys.modules:
        yield
        return
    modules = cast("dict[str, object]", sys.modules)
    modules[module] = None  # importing it then fails, by the language reference
    try:
        yield
    finally:
        modules.pop(module, None)
