"""Time limits and pauses for repeating requests to Google's APIs and for waiting for their operations."""

from __future__ import annotations

from collections.abc import Iterator

from tui.aio.backoff import backoff

RETRY_S = 20.0
"""How long one request is repeated."""
LOCAL_RETRY_S = 4.0
"""The same for a local pod, which is either up or not; on a busy machine its answer may take longer."""
LEAST_TIMEOUT_S = 1.0
"""How long the last attempt may take at least."""
LISTING_RESTARTS = 2
"""How often a list whose page token expires between two pages is read again from its beginning."""
OUTAGE_S = 600.0
"""How long an API may be unavailable during a wait for an operation or a queued resource."""
GONE_TIMEOUT_S = 600.0
"""How long a deletion may take, and how long a deleted resource may still be listed."""
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.2, 4.0


def retry_limits(patience: float | None, *, is_local: bool) -> tuple[float, float]:
    """Return for how many seconds a request is repeated, and how many an attempt may take at least."""
    if is_local and patience is None:
        return LOCAL_RETRY_S, RETRY_S
    return patience or RETRY_S, LEAST_TIMEOUT_S


def pauses() -> Iterator[float]:
    """Yield the seconds before each further attempt; the API may ask for a longer pause."""
    return backoff(_FIRST_PAUSE_S, _LONGEST_PAUSE_S)
