"""Pace the polls of a resource in the cloud that changes, and report its states with the elapsed time."""

from __future__ import annotations

import asyncio

from tui.cloud.retries import OUTAGE_S
from tui.errors import TpuTuiError
from tui.text.durations import format_duration

_FIRST_POLL_S = 0.25
_LONGEST_POLL_S = 5.0
_POLL_GROWTH = 1.5
_REPEAT_S = 15.0
"""A state that lasts is reported again after this time, with its age."""


class StateReports:
    """Paces the polls of a resource that changes, and formats lines about its states."""

    def __init__(self) -> None:
        self._clock = asyncio.get_running_loop().time
        self._began = self._reported_at = self._answered_at = self._clock()
        self._pause = _FIRST_POLL_S
        self._last: str | None = None

    async def pause(self) -> None:
        """Wait until the next poll; the pauses grow."""
        await asyncio.sleep(self._pause)
        self._pause = min(self._pause * _POLL_GROWTH, _LONGEST_POLL_S)

    def report(self, state: str | None, reason: str | None = None) -> str | None:
        """Return a line with state, elapsed time and reason if the state is new, or has lasted; else None."""
        self._answered_at = self._clock()
        return self._line(state, reason)

    def report_outage(self, service: str, error: TpuTuiError) -> str | None:
        """Return such a line about a poll without an answer. Raises its error after `OUTAGE_S` without any."""
        if self._clock() - self._answered_at > OUTAGE_S:
            raise error
        return self._line(f"no answer from {service}", error.why)

    def _line(self, state: str | None, reason: str | None) -> str | None:
        if not state or (state == self._last and self._clock() - self._reported_at < _REPEAT_S):
            return None
        self._last, self._reported_at = state, self._clock()
        line = f"{state}, {format_duration(int(self._clock() - self._began))}"
        return f"{line}: {reason}" if reason else line
