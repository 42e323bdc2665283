"""Exponential back-off with jitter."""

from __future__ import annotations

import random
from collections.abc import Iterator

FIRST_WAIT_S = 0.5
LONGEST_WAIT_S = 30.0
_GROWTH = 2.0


def backoff(first: float = FIRST_WAIT_S, longest: float = LONGEST_WAIT_S) -> Iterator[float]:
    """Yield the seconds to wait before each further attempt, without end.

    Each is between half and all of 0.5, 1, 2, … 30 s, so that workers that lost their connections at the same moment
    do not all reconnect at the same moment.
    """
    wait = first
    while True:
        yield wait * random.uniform(0.5, 1.0)
        wait = min(wait * _GROWTH, longest)
