"""The sources of what the screens of the pod and of its resources show: loops and tasks that write to the store."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Hashable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from tui.aio.timeouts import within
from tui.console.data.store import DataSource, Store
from tui.console.data.tasks import Tasks, to_problem
from tui.pod.slice import Slice
from tui.text.printable import format_count

if TYPE_CHECKING:
    from tui.operator import CheckRow, LatestFigures, Operator, RunStatus
    from tui.pod.creation.zone_offer import ZoneOffer
    from tui.pod.resources import CloudResource
    from tui.pod.worker import Worker

SLICES: DataSource[tuple[Slice, ...]] = DataSource("slices")
OFFERS: DataSource[tuple[ZoneOffer, ...]] = DataSource("offers")
"""What the configured zones offer; empty until the form that creates slices needs it."""
RUNS: DataSource[tuple[RunStatus, ...]] = DataSource("runs")
RESOURCES: DataSource[tuple[CloudResource, ...]] = DataSource("resources")
FIGURES: DataSource[Mapping[str, LatestFigures]] = DataSource("figures")
"""The newest figures of the listed runs, by run id."""
SLICES_INTERVAL_S = 5.0
"""Seconds between two lists of slices."""
MAX_SLICES_INTERVAL_S = 60.0
"""Seconds between two tries while the source fails."""
RESOURCES_INTERVAL_S = 60.0
"""Seconds between two lists of resources; each is a request to every API."""
RUNS_INTERVAL_S = 1.0
FIRST_RUNS_COUNT = 100
"""Runs that are read and shown before all the older ones are."""
CHECKS_INTERVAL_S = 0.2
"""Seconds between two updates while checks run: a large pod answers with thousands of rows."""
FIGURES_BUDGET_S = 0.1
"""Seconds that reading the ends of logs may take at a time."""
MAX_RUNS_INTERVAL_S = 10.0
"""Seconds between two reads of the runs at most, however long one takes on a machine under load."""
RUNS_TIME_DIVISOR = 20
"""Reading the runs may take one part in this many of the loop's time; with more runs it is read less often."""


def workers_of(slice_: Slice | None) -> DataSource[tuple[Worker, ...]]:
    """Return the source of a slice's workers as reached over SSH. For no slice, it stays empty."""
    return DataSource(f"workers {slice_.path if slice_ else ''}")


def checks_of(slice_: Slice | None) -> DataSource[tuple[CheckRow, ...]]:
    """Return the source of a slice's check results. For no slice, it stays empty."""
    return DataSource(f"checks {slice_.path if slice_ else ''}")


def machines_of(slice_: Slice) -> Hashable:
    """Return a value that changes whenever a slice gets or loses machines."""
    addresses = tuple((worker.internal_ip, worker.external_ip, worker.port) for worker in slice_.workers)
    return slice_.state, slice_.created, addresses


class Pollers:
    """Starts and stops the loops and tasks. Knows no widget."""

    def __init__(self, operator: Operator, store: Store, tasks: Tasks) -> None:
        self.operator = operator
        self.store = store
        self.tasks = tasks
        self._slices_wanted = asyncio.Event()
        self._resources_wanted = asyncio.Event()
        self._answered = asyncio.Event()
        self._started = False
        self._listed: dict[str, Slice] = {}
        """Slices as they were last listed, by path."""
        self._read_statuses: dict[str, RunStatus] = {}
        """Ended runs whose figures were read, as they were then."""

    def start(self) -> None:
        """Begin to read the runs, once. Slices are listed from the first request on."""
        if not self._started:
            self._started = True
            self.tasks.start(RUNS.name, self._runs())

    def list_slices(self) -> None:
        """Begin to list the slices. A run alone needs none, and the cloud library is larger than the console."""
        if self._started and not self.tasks.is_running(SLICES.name):
            self.tasks.start(SLICES.name, self._slices())

    async def wait_for_slices(self) -> None:
        """Wait until the slices were listed once, or the attempt failed."""
        self.start()
        self.list_slices()
        await self._answered.wait()

    def refresh(self) -> None:
        """List the slices now."""
        self._slices_wanted.set()

    def refresh_resources(self) -> None:
        """List the resources now, if they are listed at all."""
        self._resources_wanted.set()

    async def _slices(self) -> None:
        pause = SLICES_INTERVAL_S
        while True:
            self.store.set_busy(SLICES, "" if self.store.get(SLICES).at else "listing…")
            try:
                listing = await self.operator.slices.list_all()
                self._drop_old_readings(listing.slices, are_all=not listing.problems)
                self.store.put(SLICES, listing.slices, listing.problems, notes=listing.notes)
                pause = SLICES_INTERVAL_S
            except Exception as error:
                self.store.fail(SLICES, to_problem(error, "listing the slices"))
                pause = min(2 * pause, MAX_SLICES_INTERVAL_S)
            self._answered.set()
            self._slices_wanted.clear()
            with contextlib.suppress(asyncio.TimeoutError):
                await within(self._slices_wanted.wait(), pause)

    async def list_resources(self) -> None:
        """List the resources again and again: while their screen is open."""
        while True:
            self._resources_wanted.clear()
            self.store.set_busy(RESOURCES, "listing…")
            try:
                listing = await self.operator.resources.list_all()
                self.store.put(RESOURCES, listing.resources, listing.problems)
            except Exception as error:
                self.store.fail(RESOURCES, to_problem(error, "listing the resources"))
            finally:
                self.store.set_busy(RESOURCES, "")
            with contextlib.suppress(asyncio.TimeoutError):
                await within(self._resources_wanted.wait(), RESOURCES_INTERVAL_S)

    def _drop_old_readings(self, slices: Sequence[Slice], *, are_all: bool) -> None:
        """Drop the readings of slices whose machines have changed and, if these are all slices, of those gone."""
        before = self._listed
        self._listed = {**({} if are_all else before), **{slice_.path: slice_ for slice_ in slices}}
        for slice_ in before.values():
            if self._is_outdated(slice_):
                for source in (workers_of(slice_), checks_of(slice_)):
                    self.tasks.cancel(source.name)
                    self.store.drop(source)

    def _is_outdated(self, slice_: Slice) -> bool:
        """Return whether a slice was last listed with other machines, or no longer."""
        listed = self._listed.get(slice_.path)
        return listed is None or machines_of(listed) != machines_of(slice_)

    async def _runs(self) -> None:
        """Read the runs in a thread, the newest ones first, then only what has changed."""
        await self._read_runs(newest=FIRST_RUNS_COUNT)
        await self._read_runs()
        while True:
            await asyncio.sleep(RUNS_INTERVAL_S)
            started_at = time.perf_counter()
            await self._read_runs()
            pause = RUNS_TIME_DIVISOR * (time.perf_counter() - started_at)
            await asyncio.sleep(max(0.0, min(pause, MAX_RUNS_INTERVAL_S) - RUNS_INTERVAL_S))

    async def _read_runs(self, newest: int | None = None) -> None:
        """Read the runs, and the newest figures of each."""
        try:
            statuses = tuple(await asyncio.to_thread(self._statuses, newest))
            self.store.put(RUNS, statuses)
        except Exception as error:
            self.store.fail(RUNS, to_problem(error, "reading the runs"))
            return
        await self._read_figures(statuses)

    def _statuses(self, newest: int | None) -> list[RunStatus]:
        """Return the states of the runs, with the exit codes that each row shows already read."""
        statuses = self.operator.runs.list_statuses(newest=newest)
        for status in statuses:
            _ = status.exit_codes
        return statuses

    async def _read_figures(self, statuses: Sequence[RunStatus]) -> None:
        """Read the newest figures of the runs in a thread."""
        try:
            previous = self.store.get(FIGURES).value or {}
            self.store.put(FIGURES, await asyncio.to_thread(self._figures, statuses, previous))
        except Exception as error:
            self.store.fail(FIGURES, to_problem(error, "reading the runs' figures"))

    def _figures(
        self, statuses: Sequence[RunStatus], previous: Mapping[str, LatestFigures]
    ) -> dict[str, LatestFigures]:
        """Return the figures of the runs, live ones first; runs for which no time is left keep theirs."""
        figures: dict[str, LatestFigures] = {}
        until = time.perf_counter() + FIGURES_BUDGET_S
        for status in sorted(statuses, key=lambda status: status.state.is_over and status.run.id in previous):
            run_id = status.run.id
            has_time = time.perf_counter() < until
            if run_id in previous and (not has_time or self._read_statuses.get(run_id) is status):
                figures[run_id] = previous[run_id]
            elif has_time:
                figures[run_id] = self.operator.runs.latest_figures(status)
                if status.state.is_over:
                    self._read_statuses[run_id] = status
        self._read_statuses = {key: status for key, status in self._read_statuses.items() if key in figures}
        return figures

    async def _workers(self, slice_: Slice) -> None:
        source = workers_of(slice_)
        self.store.set_busy(source, f"connecting to {format_count(len(slice_.workers), 'worker')}…")
        try:
            self.store.put(source, tuple(await self.operator.slices.reach_workers(slice_)))
        finally:
            self.store.set_busy(source, "")

    def check(self, slice_: Slice) -> None:
        """Connect to a slice's workers and run all checks."""
        for source, work in ((workers_of(slice_), self._workers), (checks_of(slice_), self._check)):
            self.tasks.start(source.name, work(slice_), partial(self.store.fail, source))

    async def _check(self, slice_: Slice) -> None:
        source = checks_of(slice_)
        rows: list[CheckRow] = []
        self.store.put(source, (), busy="checking… Esc cancels")
        try:
            due = 0.0
            async for row in self.operator.slices.check(slice_):
                rows.append(row)
                if (now := time.monotonic()) >= due:
                    self.store.put(source, tuple(rows), busy="checking… Esc cancels")
                    due = now + CHECKS_INTERVAL_S
        finally:
            if not self._is_outdated(slice_):
                self.store.put(source, tuple(rows))

    def cancel_checks(self) -> bool:
        """Cancel running checks; return whether there were any."""
        names = self.tasks.running("checks ") + self.tasks.running("workers ")
        return sum(self.tasks.cancel(name) for name in names) > 0
