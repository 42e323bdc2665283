"""Measure the duration of a run by this machine's uptime, so that setting its clock does not distort it."""

from __future__ import annotations

import time
from datetime import datetime, timedelta
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tui.runs.record.event_log import Event

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_BOOT_LENGTH = 8
_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
"""A clock that also counts while a laptop sleeps."""
CLOCK_TOLERANCE_S = 5.0
"""Seconds by which the two clocks may disagree before the wall clock counts as having been set."""


def uptime() -> dict[str, Any]:
    """Return the fields of an event for its time since boot: the boot's id, and the seconds.

    Empty where boots cannot be distinguished.
    """
    boot = _boot()
    return {"boot": boot, "up": round(time.clock_gettime(_CLOCK), 3)} if boot else {}


@cache
def _boot() -> str:
    try:
        return _BOOT_ID.read_text()[:_BOOT_LENGTH]
    except OSError:
        return ""


def time_of_end(started: str | None, begun: Event | None, end: Event) -> str:
    """Return when a run ended, by the clock of its start (RFC 3339).

    `begun` is the event of that start. If both events were written during the same boot of one machine and the clock
    was set in between, the elapsed uptime counts.
    """
    if started is None or begun is None or not begun.get("boot") or begun.get("boot") != end.get("boot"):
        return end.time
    try:
        first, last = datetime.fromisoformat(started), datetime.fromisoformat(end.time)
        passed = float(end.get("up")) - float(begun.get("up"))
        if passed < 0 or abs((last - first).total_seconds() - passed) < CLOCK_TOLERANCE_S:
            return end.time
        return (first + timedelta(seconds=passed)).isoformat(timespec="microseconds")
    except (TypeError, ValueError, OverflowError):
        return end.time
