"""Loading libraries without what they can do without."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from typing import cast


@contextlib.contextmanager
def without(module: str) -> Iterator[None]:
    """What is imported here does not find that module, unless it is there already; others find it afterwards."""
    if module in sys.modules:
        yield
        return
    modules = cast("dict[str, object]", sys.modules)
    modules[module] = None  # by the language's reference, an import of it then fails
    try:
        yield
    finally:
        modules.pop(module, None)
