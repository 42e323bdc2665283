"""When to try again: waits that grow, and that differ between workers."""

from __future__ import annotations

import random
from collections.abc import Iterator

FIRST_WAIT_S = 0.5
LONGEST_WAIT_S = 30.0
_GROWTH = 2.0


def backoff(
    first: float = FIRST_WAIT_S, longest: float = LONGEST_WAIT_S, rng: random.Random | None = None
) -> Iterator[float]:
    """Seconds to wait before each further attempt, without end.

    Exponential with full jitter above half (so between half and all of 0.5, 1, 2, … 30 s): a pod whose workers all
    lost their connection at once does not come back at once.
    """
    rng = rng or random.Random()
    wait = first
    while True:
        yield wait * (0.5 + 0.5 * rng.random())
        wait = min(wait * _GROWTH, longest)
