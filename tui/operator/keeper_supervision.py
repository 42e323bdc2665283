"""Whether a live run has a keeper, and how often one that has none may get another. Pure, but for the clock."""

from __future__ import annotations

import time
from collections.abc import Callable

from tui.runs.record.keeper_file import KeeperStatus
from tui.runs.record.run_status import RunStatus

RESTART_PAUSES_S = (0.0, 5.0, 30.0)
"""Waits before the first, second and third keeper that replaces another within `RESTART_WINDOW_S`; no fourth."""
RESTART_WINDOW_S = 3600.0
"""Time after which a keeper that ended no longer counts."""
UNATTENDED_AFTER_S = 1.0
"""Time without a keeper after which that is reported: one that just ended its work, or hands over, is no news."""


class KeeperWatch:
    """Compares the statuses of one run, one after the other; the first one is taken to have a keeper."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._alive = True
        self._reported: tuple[str, float | None] | None = None
        self._missing_since: float | None = None

    def changed(self, status: RunStatus) -> KeeperStatus | None:
        """Return whether the run has a keeper, when that has changed since it was last reported.

        An absence is reported again when a keeper came and went in between, seen or not.
        """
        if status.attended.alive or status.is_whole:
            self._missing_since = None
            was_alive, self._alive = self._alive, True
            return None if was_alive or status.is_whole else status.attended
        if self._missing_since is None:
            self._missing_since = self._clock()
        found = status.attended.state, status.attended.since
        is_known = not self._alive and found == self._reported
        if is_known or self._clock() - self._missing_since < UNATTENDED_AFTER_S:
            return None
        self._alive = False
        self._reported = found
        return status.attended


class RestartLimiter:
    """Limits how many keepers are started for one run after others have ended, and how soon."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._starts: list[float] = []

    def next_pause(self) -> float | None:
        """Return the seconds to wait before the next start, which this counts; None where too many have ended."""
        now = self._clock()
        self._starts = [moment for moment in self._starts if now - moment < RESTART_WINDOW_S]
        if len(self._starts) >= len(RESTART_PAUSES_S):
            return None
        self._starts.append(now)
        return RESTART_PAUSES_S[len(self._starts) - 1]
