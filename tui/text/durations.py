"""Format durations for a sentence, for a table's cell, and as a clock."""

from __future__ import annotations

UNKNOWN = "–"
"""The text for an unknown duration or figure."""
_CLOCK_DECIMALS = 3
"""Decimals to which a duration is rounded before its fraction of a second is dropped: 59.9996 s is a minute."""
_MINUTE_S, _HOUR_S, _DAY_S = 60, 3_600, 86_400


def format_duration(seconds: float) -> str:
    """Format a duration for a sentence, in one unit: `1.5 s`, `90 s`, `30 min`, `6 h`, `3 d`."""
    for unit_s, unit in ((_DAY_S, "d"), (_HOUR_S, "h"), (_MINUTE_S, "min")):
        if seconds >= 2 * unit_s:
            return f"{seconds / unit_s:.0f} {unit}"
    return f"{seconds:.1f} s" if seconds < 10 and seconds != int(seconds) else f"{seconds:.0f} s"


def format_elapsed(seconds: float | None) -> str:
    """Format a duration for a cell of a table: `42s`, `3m07s`, `2h05m`, `3d04h`; a dash if unknown."""
    if seconds is None:
        return UNKNOWN
    whole = max(0, int(seconds))
    if whole < _MINUTE_S:
        return f"{whole}s"
    if whole < _HOUR_S:
        return f"{whole // _MINUTE_S}m{whole % _MINUTE_S:02d}s"
    if whole < _DAY_S:
        return f"{whole // _HOUR_S}h{whole % _HOUR_S // _MINUTE_S:02d}m"
    return f"{whole // _DAY_S}d{whole % _DAY_S // _HOUR_S:02d}h"


def format_clock(seconds: float | None) -> str:
    """Format a duration as `1 d 02:03:04`, below a second as `0.4 s`; a dash if unknown."""
    if seconds is None:
        return UNKNOWN
    exact = round(abs(seconds), _CLOCK_DECIMALS)
    if seconds > 0 and exact < 1:
        return f"{max(seconds, 0.1):.1f} s"
    whole = int(exact)
    days, rest = divmod(whole, _DAY_S)
    clock = f"{rest // _HOUR_S:02d}:{rest % _HOUR_S // _MINUTE_S:02d}:{rest % _MINUTE_S:02d}"
    return ("-" if seconds < 0 and whole else "") + (f"{days} d " if days else "") + clock
