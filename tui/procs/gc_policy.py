"""When Python's cyclic garbage collector runs, for processes whose objects live as long as they do."""

from __future__ import annotations

import gc

_RARELY = 50_000
"""Allocations between two collections of the youngest generation: objects of connections live as long as the run."""


def collect_rarely() -> None:
    """Collect young objects every 50,000 allocations instead of every 700: most are connections' and stay."""
    gc.set_threshold(_RARELY)


def skip_final_collection() -> None:
    """Exempt everything from the collection at the exit of the process, which ends with its memory anyway."""
    gc.freeze()
