"""Whether somebody looks after a run that goes on, and how often another may be asked to. Pure, but for the clock."""

from __future__ import annotations

import time
from collections.abc import Callable

from tui.runs.record.run_directory import Attendance
from tui.runs.record.run_status import RunStatus

PAUSES = (0.0, 5.0, 30.0)
"""Seconds to wait before the first, second and third keeper that is to follow another within `WHILE`; no fourth."""
WHILE = 3600.0
"""Seconds after which a keeper that ended counts no more."""
UNATTENDED_AFTER = 1.0
"""Seconds without a keeper after which it is told: one that just ended its work, or that hands over, is no news."""


class AttendanceWatch:
    """Looks at each status of one run. A keeper is taken to be there at first."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._alive = True
        self._told: tuple[str, float | None] | None = None
        self._missed_since: float | None = None

    def change(self, status: RunStatus) -> Attendance | None:
        """The run's attendance when it is another than the last that was told.

        An absence is told again when a keeper came and went in between, seen or not.
        """
        if status.attended.alive or status.is_whole:
            self._missed_since = None
            told, self._alive = self._alive, True
            return None if told or status.is_whole else status.attended
        if self._missed_since is None:
            self._missed_since = self._clock()
        found = status.attended.state, status.attended.since
        known = not self._alive and found == self._told
        if known or self._clock() - self._missed_since < UNATTENDED_AFTER:
            return None
        self._alive = False
        self._told = found
        return status.attended


class Successors:
    """The keepers that were started for one run because the one before had ended: not too many, nor too soon."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._begun: list[float] = []

    def pause(self) -> float | None:
        """Seconds to wait before the next one is started, which this counts; None: too many have ended."""
        now = self._clock()
        self._begun = [moment for moment in self._begun if now - moment < WHILE]
        if len(self._begun) >= len(PAUSES):
            return None
        self._begun.append(now)
        return PAUSES[len(self._begun) - 1]
