"""Runs as they go on: their state, their events and their lines, as one who looks on is told of them."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tui.operator.attendance import AttendanceWatch
from tui.operator.reach import Reach
from tui.runs.directory import Attendance, Event, RunDirectory
from tui.runs.status import RunStatus, status_of

if TYPE_CHECKING:
    from tui.runs.lines import LogLine
    from tui.settings import Settings
    from tui.ssh.access import Prompter

WATCH_INTERVAL = 0.1
"""Seconds between two looks at a run directory: what a person reads as at once."""


class Following(Reach):
    """Looks at run directories, again and again; what follows a run ends with it.

    Between events and lines comes whether a keeper looks after the run, whenever that changes.
    """

    def __init__(self, settings: Settings, *, prompter: Prompter | None = None) -> None:
        super().__init__(settings, prompter=prompter)
        self._known: dict[Path, RunDirectory] = {}

    def status_of(self, directory: RunDirectory) -> RunStatus:
        """The run's state, from its events alone; only those are read that came since somebody asked last."""
        known = self._known.setdefault(directory.path, directory)
        if known.run != directory.run:
            known = self._known[directory.path] = directory
        return status_of(known)

    async def events(self, directory: RunDirectory) -> AsyncIterator[Event | Attendance]:
        """The run's events from the first one on, as they are written."""
        offset = 0
        async for status in self._looks(directory):
            if isinstance(status, Attendance):
                yield status
                continue
            fresh, offset = directory.events(offset)
            for event in fresh:
                yield event

    async def watch(self, directory: RunDirectory) -> AsyncIterator[Event | LogLine | Attendance]:
        """Events and log lines in order of arrival, from the first byte on."""
        from tui.runs.lines import LineReader

        offset, reader = 0, LineReader(directory)
        async for status in self._looks(directory):
            if isinstance(status, Attendance):
                yield status
                continue
            fresh, offset = directory.events(offset)
            for line in reader.poll(final=status.state.is_over):
                yield line
            for event in fresh:
                yield event

    async def lines(
        self,
        directory: RunDirectory,
        *,
        workers: Sequence[int] | None = None,
        core: int | None = None,
        fresh_only: bool = False,
    ) -> AsyncIterator[LogLine | Attendance]:
        """The run's lines in order of arrival; `fresh_only` leaves out what is there already."""
        from tui.runs.lines import LineReader

        reader = LineReader(directory, workers=workers, core=core)
        if fresh_only:
            for _ in reader.poll(budget_bytes=sys.maxsize):
                pass
        async for status in self._looks(directory):
            if isinstance(status, Attendance):
                yield status
                continue
            for line in reader.poll(final=status.state.is_over):
                yield line

    async def _looks(self, directory: RunDirectory) -> AsyncIterator[RunStatus | Attendance]:
        """The run's state every little while, the last time when it is over, and its attendance between."""
        watch = AttendanceWatch()
        while True:
            status = self.status_of(directory)
            yield status
            if status.state.is_over:
                return
            if changed := watch.change(status):
                yield changed
            await asyncio.sleep(WATCH_INTERVAL)
