"""Garbage collection without visible pauses."""

from __future__ import annotations

import gc
from collections.abc import Mapping
from typing import Any

SETTLING_COLLECTIONS = 2
"""Full collections after which what was loaded late, the charts' library and numpy, is there too."""


def freeze_loaded_objects(settled: int = SETTLING_COLLECTIONS) -> None:
    """Leave what is loaded, and what outlives the next few full collections, out of all later ones.

    A full collection over every loaded module stops the screen for a tenth of a second; over what comes and goes,
    for some milliseconds. What comes later, such as screens that are opened and closed, is collected as ever.
    """
    left = settled
    gc.freeze()

    def after(phase: str, facts: Mapping[str, Any]) -> None:
        nonlocal left
        if phase == "stop" and facts["generation"] == len(gc.get_count()) - 1:
            gc.freeze()
            left -= 1
            if left <= 0:
                gc.callbacks.remove(after)

    gc.callbacks.append(after)
