"""Follow a run: its events and log lines as they arrive, and whether it has a keeper or gets a new one."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

from tui.errors import TpuTuiError
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
RESTART_PAUSES_S = (0.0, 5.0, 30.0)
"""Waits before the first, second and third restart within `RESTART_WINDOW_S`; there is no fourth."""
RESTART_WINDOW_S = 3600.0
"""Time after which a restart no longer counts."""
UNATTENDED_AFTER_S = 1.0
"""Shortest absence of a keeper that is reported: it may just have finished, or be handing over to another."""


class RunAccess(Protocol):
    """What following a run needs of `Runs`."""

    def status_of(self, directory: RunDirectory) -> RunStatus:
        """Return the run's state."""

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
                status = self._runs.status_of(self._directory)
                events, offset = self._directory.events(offset)  # all that the status includes, and perhaps more
                is_last = status.is_whole or catch_up.is_complete
                yield _Poll(events, is_last)
                if is_last:
                    return
                if self._may_start_keeper:
                    if keeper := watch.take_change(status):
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


class KeeperWatch:
    """Compares successive statuses of one run; before the first, the run is assumed to have a keeper."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._alive = True
        self._reported: tuple[str, float | None] | None = None
        self._missing_since: float | None = None

    def take_change(self, status: RunStatus) -> KeeperStatus | None:
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


def _arrivals_size(directory: RunDirectory) -> int:
    """Return the size of the arrivals file, which grows with every mirrored batch."""
    try:
        return (directory.path / ARRIVALS_FILE).stat().st_size
    except FileNotFoundError:
        return 0
