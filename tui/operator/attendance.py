"""Whether somebody looks after a run that goes on, told when it changes. Pure, but for the clock."""

from __future__ import annotations

import time
from collections.abc import Callable

from tui.runs.directory import Attendance
from tui.runs.status import RunStatus

UNATTENDED_AFTER = 1.0
"""Seconds without a keeper after which it is told: one that just ended its work, or that hands over, is no news."""


class AttendanceWatch:
    """Looks at each status of one run. A keeper is taken to be there at first."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._alive = True
        self._missed_since: float | None = None

    def change(self, status: RunStatus) -> Attendance | None:
        """The run's attendance when it is another than the last that was told."""
        if status.attended.alive or status.state.is_over:
            self._missed_since = None
            told, self._alive = self._alive, True
            return None if told or status.state.is_over else status.attended
        if self._missed_since is None:
            self._missed_since = self._clock()
        if not self._alive or self._clock() - self._missed_since < UNATTENDED_AFTER:
            return None
        self._alive = False
        return status.attended
