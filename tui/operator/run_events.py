"""Runs as they go on: their state, their events and their lines, as one who looks on is told of them."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from tui.errors import TpuTuiError
from tui.operator.keeper_supervision import AttendanceWatch
from tui.operator.slices import Reach
from tui.runs.record.event_log import utc_now
from tui.runs.record.run_directory import ARRIVALS_FILE, Attendance, Event, RunDirectory
from tui.runs.record.run_status import RunStatus, status_and_events, status_of

if TYPE_CHECKING:
    from tui.runs.read.line_reader import LogLine
    from tui.settings import Settings
    from tui.ssh.config.access import Prompter
    from tui.ssh.fleet import Fleet

WATCH_INTERVAL = 0.1
"""Seconds between two looks at a run directory: what a person reads as at once."""
REFRESH_TIMEOUT = 5.0
"""Seconds a command waits for a mirror to catch up before it answers with what there is."""
CATCH_UP_EVERY, CATCH_UP_SHARE = 2.0, 10
"""Seconds between two times that a mirror is caught up with for one who may start no keeper, who spends at most one
part in so many of the time on it."""


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
        from tui.runs.read.line_reader import LineReader

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
        from tui.runs.read.line_reader import LineReader

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

    async def refresh(self, directory: RunDirectory, fleet: Fleet | None = None) -> TpuTuiError | None:
        """Bring the mirror up to date within `REFRESH_TIMEOUT`; what hindered it, if anything did.

        Of a run that was given up as lost its workers are asked again: they may be in reach by now.
        `fleet` are connections to the run's workers, where there are some already.
        """
        from tui.runs.follow.follower import catch_up

        status = self.status_of(directory)
        may_come_back = status.was_given_up and not status.slice_is_gone
        if status.attended.alive or (status.is_whole and not may_come_back):
            return None
        try:
            if fleet is not None:
                await catch_up(directory, fleet, timeout=REFRESH_TIMEOUT)
            else:
                async with await self._fleet_of(directory) as fleet:
                    await catch_up(directory, fleet, timeout=REFRESH_TIMEOUT)
        except TpuTuiError as error:
            return error
        except OSError as error:
            why = f"{error.filename or directory.path}: {error.strerror or error}"
            return TpuTuiError(f"what is known here of {directory.id} cannot be brought up to date", why=why)
        return None

    async def _fleet_of(self, directory: RunDirectory) -> Fleet:
        """Connections to a run's workers, made as they are needed."""
        from tui.ssh.fleet import Fleet

        return Fleet(directory.run.workers, await self.access())

    async def _looks(self, directory: RunDirectory) -> AsyncIterator[_Look | Attendance]:
        """What is new every little while, the last time when the run is over, and its attendance between.

        Raises what hinders one who may start no keeper from reading an ended run to its end, and UsageError once the
        directory is gone.
        """
        watch = AttendanceWatch()
        offset = 0
        told: TpuTuiError | None = None
        async with CatchingUp(self, directory) as catching_up:
            while True:
                directory.require()
                status, fresh, offset = status_and_events(self._known_as(directory), offset)
                is_last = status.is_whole or catching_up.has_all
                yield _Look(fresh, is_last)
                if is_last:
                    return
                if not self.settings.read_only:
                    if changed := watch.change(status):
                        yield changed
                elif await catching_up.look(status):
                    stuck = catching_up.stuck
                    if stuck is not None and status.state.is_over:
                        raise stuck
                    if stuck is not None and (told is None or told.sentence != stuck.sentence):
                        yield _Look([Event(utc_now(), "note", fields={"text": stuck.sentence})], False)
                    told = stuck
                await asyncio.sleep(WATCH_INTERVAL)


class CatchingUp:
    """Keeps a mirror up to date for as long as somebody watches who may start no keeper."""

    def __init__(self, following: Following, directory: RunDirectory) -> None:
        self._following = following
        self._directory = directory
        self._fleet: Fleet | None = None
        self._due = 0.0
        self.problem: TpuTuiError | None = None
        """What hindered it the last time, if anything did."""
        self.stuck: TpuTuiError | None = None
        """The same, where nothing came for all that."""
        self.has_all = False
        """Whether all is here of a run whose workers say that it is over."""

    async def look(self, status: RunStatus) -> bool:
        """Catch up when it is time to and no keeper does; whether that was so."""
        if status.attended.alive or time.monotonic() < self._due:
            return False
        if self._fleet is None:
            self._fleet = await self._following._fleet_of(self._directory)
        began, before = time.monotonic(), _arrived(self._directory)
        self.problem = await self._following.refresh(self._directory, self._fleet)
        now = time.monotonic()
        self._due = now + max(CATCH_UP_EVERY, CATCH_UP_SHARE * (now - began))
        self.has_all = status.state.is_over and self.problem is None
        self.stuck = None if _arrived(self._directory) > before else self.problem
        return True

    async def __aenter__(self) -> CatchingUp:
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close connections."""
        if self._fleet is not None:
            await self._fleet.close()


def _arrived(directory: RunDirectory) -> int:
    """What grows with every batch of a log that is mirrored."""
    try:
        return (directory.path / ARRIVALS_FILE).stat().st_size
    except FileNotFoundError:
        return 0
