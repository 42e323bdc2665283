"""Runs as they go on: their events and their lines, and whether they have a keeper."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from tui.errors import TpuTuiError
from tui.operator.keeper_supervision import KeeperWatch
from tui.runs.record.event_log import Event, utc_now
from tui.runs.record.keeper_file import KeeperStatus
from tui.runs.record.run_directory import ARRIVALS_FILE, RunDirectory

if TYPE_CHECKING:
    from tui.operator.runs import Runs
    from tui.runs.read.line_reader import LineReader, LogLine
    from tui.runs.record.run_status import RunStatus
    from tui.ssh.fleet import Fleet

WATCH_INTERVAL_S = 0.1
"""Time between two polls of a run directory: what a person reads as at once."""
CATCH_UP_INTERVAL_S, CATCH_UP_SHARE = 2.0, 10
"""Time between two refreshes of a mirror without a keeper, which take at most one part in so many of the time."""


class _Poll(NamedTuple):
    """What one poll of a run directory finds: the events since the one before, and whether the run is over."""

    events: list[Event]
    is_last: bool


class RunWatcher:
    """Polls a run directory until its run is over.

    Between events and lines it yields whether the run has a keeper, whenever that changes. Who may start no keeper
    (`--read-only`) has the mirror refreshed instead.
    """

    def __init__(self, runs: Runs, directory: RunDirectory, *, may_start_keeper: bool) -> None:
        self._runs = runs
        self._directory = directory
        self._may_start_keeper = may_start_keeper

    async def events(self) -> AsyncIterator[Event | KeeperStatus]:
        """Yield the run's events from the first one on, as they are written."""
        async for poll in self._polls():
            if isinstance(poll, KeeperStatus):
                yield poll
                continue
            for event in poll.events:
                yield event

    async def everything(self) -> AsyncIterator[Event | LogLine | KeeperStatus]:
        """Yield events and log lines in order of arrival, from the first byte on."""
        reader = self._line_reader()
        async for poll in self._polls():
            if isinstance(poll, KeeperStatus):
                yield poll
                continue
            for line in reader.poll(final=poll.is_last, events=poll.events):
                yield line
            for event in poll.events:
                yield event

    async def lines(
        self, *, workers: Sequence[int] | None, core: int | None, fresh_only: bool
    ) -> AsyncIterator[LogLine | KeeperStatus]:
        """Yield the run's lines in order of arrival; `fresh_only` leaves out what is there already."""
        reader = self._line_reader(workers, core)
        if fresh_only:
            for _ in reader.poll(budget_bytes=sys.maxsize):
                pass
        async for poll in self._polls():
            if isinstance(poll, KeeperStatus):
                yield poll
                continue
            for line in reader.poll(final=poll.is_last, events=poll.events):
                yield line

    def _line_reader(self, workers: Sequence[int] | None = None, core: int | None = None) -> LineReader:
        from tui.runs.read.line_reader import LineReader

        return LineReader(self._directory, workers=workers, core=core)

    async def _polls(self) -> AsyncIterator[_Poll | KeeperStatus]:
        """Yield what is new at each poll, the last one when the run is over, and changes of its keeper in between.

        Raises what keeps a reader that may start no keeper from the end of an ended run, and UsageError once the
        directory is gone.
        """
        watch = KeeperWatch()
        offset = 0
        reported: TpuTuiError | None = None
        async with MirrorCatchUp(self._runs, self._directory) as catch_up:
            while True:
                self._directory.require()
                status, events, offset = self._runs.status_and_events(self._directory, offset)
                is_last = status.is_whole or catch_up.is_complete
                yield _Poll(events, is_last)
                if is_last:
                    return
                if self._may_start_keeper:
                    if keeper := watch.changed(status):
                        yield keeper
                elif await catch_up.poll(status):
                    error = catch_up.error
                    if error is not None and status.state.is_over:
                        raise error
                    if error is not None and (reported is None or reported.sentence != error.sentence):
                        yield _Poll([Event(utc_now(), "note", fields={"text": error.sentence})], False)
                    reported = error
                await asyncio.sleep(WATCH_INTERVAL_S)


class MirrorCatchUp:
    """Refreshes the mirror of a run that has no keeper for as long as someone watches who may start none."""

    def __init__(self, runs: Runs, directory: RunDirectory) -> None:
        self._runs = runs
        self._directory = directory
        self._fleet: Fleet | None = None
        self._due = 0.0
        self.problem: TpuTuiError | None = None
        """What prevented the last refresh, if anything did."""
        self.error: TpuTuiError | None = None
        """The same, where the refresh brought nothing."""
        self.is_complete = False
        """Whether the mirror of an ended run is complete."""

    async def poll(self, status: RunStatus) -> bool:
        """Refresh the mirror when it is time to and the run has no keeper; return whether that was so."""
        if status.attended.alive or time.monotonic() < self._due:
            return False
        if self._fleet is None:
            self._fleet = await self._runs.connect(self._directory)
        began, before = time.monotonic(), _arrivals_size(self._directory)
        self.problem = await self._runs.refresh(self._directory, self._fleet)
        now = time.monotonic()
        self._due = now + max(CATCH_UP_INTERVAL_S, CATCH_UP_SHARE * (now - began))
        self.is_complete = status.state.is_over and self.problem is None
        self.error = None if _arrivals_size(self._directory) > before else self.problem
        return True

    async def __aenter__(self) -> MirrorCatchUp:
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close connections."""
        if self._fleet is not None:
            await self._fleet.close()


def _arrivals_size(directory: RunDirectory) -> int:
    """Return what grows with every batch of a log that is mirrored."""
    try:
        return (directory.path / ARRIVALS_FILE).stat().st_size
    except FileNotFoundError:
        return 0
