"""gcloud's notation of lists, pairs, disks, durations and times. Pure; what cannot be parsed raises ValueError."""

from __future__ import annotations

import re
from datetime import datetime, timezone

from tui.pod.creation.slice_request import READ_ONLY, READ_WRITE, DataDisk

_OTHER_DELIMITER = re.compile(r"\^(?P<delimiter>[^^]+)\^")
"""`^:^a:b,c` is split at colons (`gcloud topic escaping`)."""
_DURATION = re.compile(
    r"(?:(?P<weeks>\d+)w)?(?:(?P<days>\d+)d)?t?(?:(?P<hours>\d+)h)?(?:(?P<minutes>\d+)m)?(?:(?P<seconds>\d+)s?)?"
)
_UNITS_S = {"weeks": 604_800, "days": 86_400, "hours": 3_600, "minutes": 60, "seconds": 1}
_MONTHS = re.compile(r"p[^t]*m", re.IGNORECASE)
_MAX_DIGITS = 9
_LONGEST_YEARS = 100
"""Limit of a duration. The end of a much longer one would be later than any time that can be represented."""


def parse_items(text: str) -> tuple[str, ...]:
    """Parse `a,b`, or `^:^a:b` with another delimiter."""
    delimiter, rest = ",", text
    if match := _OTHER_DELIMITER.match(text):
        delimiter, rest = match["delimiter"], text[match.end() :]
    items = tuple(rest.split(delimiter))
    if not all(items):
        raise ValueError(f"must be a list without empty items, not {text!r}")
    return items


def parse_pairs(text: str) -> dict[str, str]:
    """Parse `key=value,other=value`."""
    pairs: dict[str, str] = {}
    for item in parse_items(text):
        key, equals, value = item.partition("=")
        if not (key and equals):
            raise ValueError(f"must be KEY=VALUE, not {item!r}; for values with commas: ^:^K=V:K=V")
        if key in pairs:
            raise ValueError(f"has the key {key} twice")
        pairs[key] = value
    return pairs


def parse_disk(text: str) -> DataDisk:
    """Parse `source=PATH,mode=read-only`; the mode is by default `read-write`."""
    pairs = parse_pairs(text)
    mode = pairs.pop("mode", READ_WRITE)
    source = pairs.pop("source", "")
    if pairs or not source or mode not in (READ_WRITE, READ_ONLY):
        raise ValueError(f"must be source=PATH[,mode={READ_WRITE}|{READ_ONLY}], not {text!r}")
    return DataDisk(source, mode)


def parse_duration(text: str) -> int:
    """Parse `6h`, `1d12h`, `90m`, `3600s` or an ISO 8601 duration without months to seconds."""
    lower = text.lower()
    match = _DURATION.fullmatch(lower.removeprefix("p"))
    digits = re.findall(r"\d+", lower)
    if not match or not digits or _MONTHS.match(lower) or max(map(len, digits)) > _MAX_DIGITS:
        raise ValueError(f"must be a duration, e.g. 90m, 6h or 1d12h, not {text!r}")
    duration_s = sum(int(match[unit] or 0) * seconds for unit, seconds in _UNITS_S.items())
    if duration_s > _LONGEST_YEARS * 365 * _UNITS_S["days"]:
        raise ValueError(f"must be at most {_LONGEST_YEARS} years, not {text!r}")
    return duration_s


def parse_moment(text: str) -> datetime:
    """Parse an RFC 3339 time, which must have a time zone and be representable in UTC."""
    try:
        parsed = datetime.fromisoformat(text.upper().replace("Z", "+00:00"))
        parsed.astimezone(timezone.utc)
    except (ValueError, OverflowError):
        raise ValueError(f"must be a time, e.g. 2026-01-31T18:00:00Z, not {text!r}") from None
    if parsed.tzinfo is None:
        raise ValueError(f"{text!r} has no time zone: add Z for UTC, or e.g. +01:00")
    return parsed
