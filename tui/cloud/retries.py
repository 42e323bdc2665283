"""How long, and after which pauses, requests to Google's APIs are repeated while a service is unavailable."""

from __future__ import annotations

from collections.abc import Iterator

from tui.aio.backoff import backoff

RETRY_S = 20.0
"""How long one request is repeated."""
LOCAL_RETRY_S = 4.0
"""The same for a local pod, which is either up or not."""
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.2, 4.0


def pauses() -> Iterator[float]:
    """Yield the seconds before each further attempt; the API may ask for a longer pause."""
    return backoff(_FIRST_PAUSE_S, _LONGEST_PAUSE_S)
