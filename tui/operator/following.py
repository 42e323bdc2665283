"""Runs as they go on: their state, their events and their lines, as one who looks on is told of them."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from tui.operator.attendance import AttendanceWatch
from tui.operator.reach import Reach
from tui.runs.directory import Attendance, Event, RunDirectory
from tui.runs.status import RunStatus, status_and_events, status_of

if TYPE_CHECKING:
    from tui.runs.lines import LogLine
    from tui.settings import Settings
    from tui.ssh.access import Prompter

WATCH_INTERVAL = 0.1
"""Seconds between two looks at a run directory: what a person reads as at once."""


class _Look(NamedTuple):
    """What one look at a run directory finds: the events since the one before, and whether the run is over."""

    fresh: list[Event]
    is_last: bool


class Following(Reach):
    """Looks at run directories, again and again; what follows a run ends with it.

    Between events and lines comes whether a keeper looks after the run, whenever that changes.
    """

    def __init__(self, settings: Settings, *, prompter: Prompter | None = None) -> None:
        super().__init__(settings, prompter=prompter)
        self._known: dict[Path, RunDirectory] = {}

    def status_of(self, directory: RunDirectory) -> RunStatus:
        """The run's state, from its events alone; only those are read that came since somebody asked last."""
        return status_of(self._known_as(directory))

    def _known_as(self, directory: RunDirectory) -> RunDirectory:
        """The object by which a directory was asked about before: what was read of it is remembered with that one."""
        known = self._known.setdefault(directory.path, directory)
        if known.run != directory.run:
            known = self._known[directory.path] = directory
        return known

    async def events(self, directory: RunDirectory) -> AsyncIterator[Event | Attendance]:
        """The run's events from the first one on, as they are written."""
        async for look in self._looks(directory):
            if isinstance(look, Attendance):
                yield look
                continue
            for event in look.fresh:
                yield event

    async def watch(self, directory: RunDirectory) -> AsyncIterator[Event | LogLine | Attendance]:
        """Events and log lines in order of arrival, from the first byte on."""
        from tui.runs.lines import LineReader

        reader = LineReader(directory)
        async for look in self._looks(directory):
            if isinstance(look, Attendance):
                yield look
                continue
            for line in reader.poll(final=look.is_last, events=look.fresh):
                yield line
            for event in look.fresh:
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
        async for look in self._looks(directory):
            if isinstance(look, Attendance):
                yield look
                continue
            for line in reader.poll(final=look.is_last, events=look.fresh):
                yield line

    async def _looks(self, directory: RunDirectory) -> AsyncIterator[_Look | Attendance]:
        """What is new every little while, the last time when the run is over, and its attendance between."""
        watch = AttendanceWatch()
        offset = 0
        while True:
            status, fresh, offset = status_and_events(self._known_as(directory), offset)
            yield _Look(fresh, status.state.is_over)
            if status.state.is_over:
                return
            if changed := watch.change(status):
                yield changed
            await asyncio.sleep(WATCH_INTERVAL)
