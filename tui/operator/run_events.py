"""Follow a run: its events and log lines as they arrive, and whether it has a keeper."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

from tui.errors import TpuTuiError
from tui.operator.keeper_supervision import KeeperWatch
from tui.runs.read.line_reader import LineReader, LogLine
from tui.runs.record.event_log import Event, utc_now
from tui.runs.record.keeper_file import KeeperStatus
from tui.runs.record.run_directory import ARRIVALS_FILE, RunDirectory
from tui.runs.record.run_status import RunStatus

if TYPE_CHECKING:
    from tui.ssh.fleet import Fleet

WATCH_INTERVAL_S = 0.1
"""Time between two polls of a run directory."""
CATCH_UP_INTERVAL_S, CATCH_UP_SHARE = 2.0, 10
"""Least time between two refreshes of a mirror without a keeper; they take at most 1/`CATCH_UP_SHARE` of it."""


class RunAccess(Protocol):
    """What following a run needs of `Runs`."""

    def status_and_events(self, directory: RunDirectory, offset: int) -> tuple[RunStatus, list[Event], int]:
        """Return the run's state, its events from an offset on, and the offset behind them."""

    async def connect(self, directory: RunDirectory) -> Fleet:
        """Return connections to the run's workers."""

    async def refresh(self, directory: RunDirectory, fleet: Fleet | None = None) -> TpuTuiError | None:
        """Bring the mirror up to date; return what prevented it, if anything did."""


class _Poll(NamedTuple):
    """The result of one poll of a run directory: what happened since the last one, and whether the run is over."""

    news: Sequence[Event | KeeperStatus]
    is_last: bool = False


class RunWatcher:
    """Polls a run directory until its run is over.

    Besides events and lines it yields the keeper's status whenever that changes. A watcher that must not start a
    keeper (`--read-only`) refreshes the mirror instead.
    """

    def __init__(self, runs: RunAccess, directory: RunDirectory, *, may_start_keeper: bool) -> None:
        self._runs = runs
        self._directory = directory
        self._may_start_keeper = may_start_keeper

    async def events(self) -> AsyncIterator[Event | KeeperStatus]:
        """Yield the run's events from the first one on, as they are written."""
        async for poll in self._polls():
            for item in poll.news:
                yield item

    async def everything(self) -> AsyncIterator[Event | LogLine | KeeperStatus]:
        """Yield events and log lines in order of arrival, from the first byte on."""
        reader = LineReader(self._directory)
        async for poll in self._polls():
            for line in reader.poll(final=poll.is_last):
                yield line
            for item in poll.news:
                yield item

    async def lines(
        self, *, workers: Sequence[int] | None, core: int | None, tail: int | None
    ) -> AsyncIterator[LogLine | KeeperStatus]:
        """Yield the run's lines in order of arrival; of those so far only the last `tail`."""
        reader = LineReader(self._directory, workers=workers, core=core, tail=tail)
        async for poll in self._polls():
            for line in reader.poll(final=poll.is_last):
                yield line
            for item in poll.news:
                if isinstance(item, KeeperStatus):
                    yield item

    async def _polls(self) -> AsyncIterator[_Poll]:
        """Yield the news of each poll, including changes of the keeper's status, until the run is over.

        Raises UsageError once the directory is gone. Where no keeper may be started, also raises the error that
        prevents the mirror of an ended run from becoming complete.
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
                        yield _Poll([keeper])
                elif await catch_up.poll(status):
                    error = catch_up.error
                    if error is not None and status.state.is_over:
                        raise error
                    if error is not None and (reported is None or reported.sentence != error.sentence):
                        yield _Poll([Event(utc_now(), "note", fields={"text": error.sentence})])
                    reported = error
                await asyncio.sleep(WATCH_INTERVAL_S)


class MirrorCatchUp:
    """Refreshes the mirror of a run that has no keeper, for a reader that must not start one."""

    def __init__(self, runs: RunAccess, directory: RunDirectory) -> None:
        self._runs = runs
        self._directory = directory
        self._fleet: Fleet | None = None
        self._due = 0.0
        self.problem: TpuTuiError | None = None
        """What prevented the last refresh, if anything did."""
        self.error: TpuTuiError | None = None
        """The same error, if the refresh brought no bytes either."""
        self.is_complete = False
        """Whether the mirror of an ended run is complete."""

    async def poll(self, status: RunStatus) -> bool:
        """Refresh the mirror if it is due and the run has no keeper; return whether it was refreshed."""
        if status.attended.alive or time.monotonic() < self._due:
            return False
        if self._fleet is None:
            self._fleet = await self._runs.connect(self._directory)
        started_at, before = time.monotonic(), _arrivals_size(self._directory)
        self.problem = await self._runs.refresh(self._directory, self._fleet)
        now = time.monotonic()
        self._due = now + max(CATCH_UP_INTERVAL_S, CATCH_UP_SHARE * (now - started_at))
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
    """Return the size of the arrivals file, which grows with every mirrored batch."""
    try:
        return (directory.path / ARRIVALS_FILE).stat().st_size
    except FileNotFoundError:
        return 0
