"""Times of log lines: in UTC, or the date and time that a log prints without an offset."""

from __future__ import annotations

import math
from datetime import datetime, timedelta, timezone

NO_TIME, LOG_TIME, WALL_TIME = 0, 1, 2
"""Values of `Snapshot.time_kind`: unknown, the log's date and time (without an offset), or UTC seconds."""


def format_time(seconds: float, kind: int) -> str | None:
    """Format wall time as RFC 3339, and a log's date and time without an offset; None for an unknown time."""
    if kind == NO_TIME or not math.isfinite(seconds):
        return None
    try:
        moment = datetime(1970, 1, 1, tzinfo=timezone.utc) + timedelta(seconds=seconds)
    except OverflowError:
        return None
    text: str = moment.replace(tzinfo=None).isoformat(timespec="milliseconds" if moment.microsecond else "seconds")
    return text + "Z" if kind == WALL_TIME else text
