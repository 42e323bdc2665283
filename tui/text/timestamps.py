"""Parse times as the project and Google's APIs write them."""

from __future__ import annotations

from datetime import datetime


def parse_time(text: str | None) -> datetime | None:
    """Parse an RFC 3339 time, also without an offset; None for no time or an invalid one."""
    try:
        return datetime.fromisoformat((text or "").replace("Z", "+00:00"))  # Python 3.10 reads no Z
    except ValueError:
        return None
