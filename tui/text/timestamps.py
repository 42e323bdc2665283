"""Parse times as the project and Google's APIs write them, and count the seconds since."""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime, timezone


def parse_time(text: str | None) -> datetime | None:
    """Parse an RFC 3339 time, also without an offset; None for no time or an invalid one."""
    try:
        return datetime.fromisoformat((text or "").replace("Z", "+00:00"))  # Python 3.10 reads no Z
    except ValueError:
        return None


def to_utc(time: object) -> str | None:
    """Return a time, also an RFC 3339 text (without an offset: UTC), in UTC to the second; None for anything else."""
    moment = _in_utc(time if isinstance(time, (str, datetime)) else None)
    return f"{moment:%Y-%m-%dT%H:%M:%SZ}" if moment else None


def format_utc(text: str | None) -> str | None:
    """Format an RFC 3339 time (without an offset: UTC) in UTC, to the second; return other text unchanged."""
    moment = _in_utc(text)
    return f"{moment:%Y-%m-%d %H:%M:%SZ}" if moment else text


def _in_utc(time: str | datetime | None) -> datetime | None:
    moment = time if isinstance(time, datetime) else parse_time(time)
    if moment is not None:
        with suppress(OverflowError):
            return moment.replace(tzinfo=moment.tzinfo or timezone.utc).astimezone(timezone.utc)
    return None


def seconds_since(text: str | None, now: datetime | None = None) -> int | None:
    """Return the whole seconds since an RFC 3339 time, at least 0; None if it is unknown or has no offset."""
    moment = parse_time(text)
    if moment is None or moment.tzinfo is None:
        return None
    return max(0, int(((now or datetime.now(timezone.utc)) - moment).total_seconds()))
