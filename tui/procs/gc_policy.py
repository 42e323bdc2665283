"""Garbage collection policy for processes whose objects live until the end."""

from __future__ import annotations

import gc

_RARELY = 50_000
"""Allocations between two collections of the youngest generation: connections live as long as the process."""


def collect_rarely() -> None:
    """Collect young objects every 50,000 allocations instead of every 700."""
    gc.set_threshold(_RARELY)


def skip_final_collection() -> None:
    """Skip the collection at exit: the process ends anyway."""
    gc.freeze()
