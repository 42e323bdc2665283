"""Watch whether a live run has a keeper, and limit how often it gets a new one. Pure, except for the clock."""

from __future__ import annotations

import time
from collections.abc import Callable

from tui.runs.record.keeper_file import KeeperStatus
from tui.runs.record.run_status import RunStatus

RESTART_PAUSES_S = (0.0, 5.0, 30.0)
"""Waits before the first, second and third restart within `RESTART_WINDOW_S`; there is no fourth."""
RESTART_WINDOW_S = 3600.0
"""Time after which a restart no longer counts."""
UNATTENDED_AFTER_S = 1.0
"""Shortest absence of a keeper that is reported: it may just have finished, or be handing over to another."""


class KeeperWatch:
    """Compares successive statuses of one run; before the first, the run is assumed to have a keeper."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._alive = True
        self._reported: tuple[str, float | None] | None = None
        self._missing_since: float | None = None

    def changed(self, status: RunStatus) -> KeeperStatus | None:
        """Return the keeper's status if it has changed since the last report, else None.

        An absence is reported again if a keeper came and went in between, seen or not.
        """
        if status.attended.alive or status.is_whole:
            self._missing_since = None
            was_alive, self._alive = self._alive, True
            return None if was_alive or status.is_whole else status.attended
        if self._missing_since is None:
            self._missing_since = self._clock()
        absence = status.attended.state, status.attended.since
        is_known = not self._alive and absence == self._reported
        if is_known or self._clock() - self._missing_since < UNATTENDED_AFTER_S:
            return None
        self._alive = False
        self._reported = absence
        return status.attended


class RestartLimiter:
    """Limits how often, and how soon, a new keeper is started for one run."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._starts: list[float] = []

    def next_pause(self) -> float | None:
        """Count a restart and return the seconds to wait before it; None after too many."""
        now = self._clock()
        self._starts = [moment for moment in self._starts if now - moment < RESTART_WINDOW_S]
        if len(self._starts) >= len(RESTART_PAUSES_S):
            return None
        self._starts.append(now)
        return RESTART_PAUSES_S[len(self._starts) - 1]
