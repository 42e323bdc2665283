"""Runs: list, find, follow, stop and delete them."""

from __future__ import annotations

import asyncio
import contextlib
import shlex
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tui.cloud.hosts_file import read_hosts
from tui.errors import TpuTuiError, UsageError
from tui.operator.connections import Connections
from tui.operator.run_watcher import RunWatcher
from tui.pod.log_refs import names_a_log, path_of
from tui.pod.run import Run, is_run_id
from tui.pod.slice import Slice
from tui.runs.keeper_timeouts import KeeperTimeouts
from tui.runs.read.latest_figures import FiguresCache, LatestFigures
from tui.runs.record.damaged_record import NoRecordError
from tui.runs.record.run_directory import RunDirectory
from tui.runs.record.run_index import NoSuchRunError, RunListing, resolve, run_paths
from tui.runs.record.run_status import RunStatus, status_of
from tui.settings import Settings
from tui.text.printable import format_count

if TYPE_CHECKING:
    from tui.logs.saved_log import SavedLog
    from tui.operator.logs import Logs
    from tui.runs.deletion import DeleteAnswer
    from tui.runs.worker.stop import StopAnswer
    from tui.ssh.fleet import Fleet

SLICES_AT_ONCE = 4
"""Most slices that are queried for their runs at a time; each takes logins to many workers."""
REFRESH_TIMEOUT_S = 5.0
"""How long a command waits for a mirror to catch up before it answers with the bytes that it has."""


class Runs:
    """The runs of this machine, and those that only their workers know."""

    def __init__(self, connections: Connections, logs: Callable[[], Logs]) -> None:
        self._connections = connections
        self._logs = logs
        """Called when logs are read: their dialects take a while to load."""
        self._listing = RunListing(connections.settings.runs_home)
        self._figures: FiguresCache | None = None
        self._known: dict[Path, RunDirectory] = {}

    # ── list and find ────────────────────────────────────────────────────────────────────────────

    def list_statuses(
        self, slice_name: str | None = None, problems: list[NoRecordError] | None = None, *, newest: int | None = None
    ) -> list[RunStatus]:
        """Return the runs of this home, newest first, or only the `newest` N; unreadable records go to `problems`.

        Further calls read only what has changed. This reads files and may run in a thread.
        """
        statuses = self._listing.read_statuses(problems, newest=newest)
        return [status for status in statuses if slice_name in (None, status.run.slice)]

    @property
    def scope(self) -> RunScope:
        """The runs that these settings cover; a hosts file is read again."""
        return RunScope(self._connections.settings)

    def is_known(self, run: str) -> bool:
        """Return whether this home has a directory for the run with that ID."""
        return (self._connections.settings.runs_home / run).is_dir()

    def open(self, ref: str) -> RunDirectory:
        """Open a run by its ID, a unique part of it, `last`, or its directory. Raises UsageError."""
        return resolve(self._connections.settings.runs_home, ref)

    async def find(self, ref: str) -> RunDirectory:
        """Open a run as `open` does; look for it on the workers where this home does not know it."""
        try:
            return self.open(ref)
        except NoSuchRunError:
            if names_a_log(ref):
                raise _not_a_run(ref) from None
            if not is_run_id(ref):
                raise
            return await self._find_elsewhere(ref)

    async def _find_elsewhere(self, ref: str) -> RunDirectory:
        """Open a run of another machine. The error for an unknown run says which workers did not answer."""
        try:
            problems = await self.discover(only=ref)
        except TpuTuiError as error:
            problems = [error]
        try:
            return self.open(ref)
        except UsageError as unknown:
            if problems:
                unknown.why = f"not all workers could be asked for it: {problems[0].sentence}"
            raise

    async def find_source(
        self, ref: str, *, offline: bool = False, note: Callable[[str], None] = lambda _: None
    ) -> RunDirectory | SavedLog:
        """Open a run, or a saved log where `ref` is a file's path, `gs://bucket/object` or `-` for stdin.

        With `offline`, no bucket is queried for a newer log; `note` receives a line before a long wait. Raises
        UsageError, and CloudError for a bucket that cannot or must not be read.
        """
        path = path_of(ref)
        if names_a_log(ref):
            return await self._logs().open(ref, offline=offline, note=note)
        is_path = path.exists() or "/" in ref
        try:
            return self.open(ref) if is_path else await self.find(ref)
        except UsageError as error:
            if is_path:
                return await self._logs().open(ref)
            if isinstance(error, NoSuchRunError):
                raise UsageError(f"no run or file {ref!r}", remedy=error.remedy) from None
            raise

    async def discover(self, slices: Sequence[Slice] | None = None, *, only: str | None = None) -> list[TpuTuiError]:
        """Create directories here for runs that only the workers know; return the errors of those that failed.

        Queries the given slices, else all that are ready, for the run `only`, else for the newest runs; older runs
        are counted. A run found this way has no keeper until `ensure_keeper`.
        """
        problems: list[TpuTuiError] = []
        if slices is None:
            listing = await self._connections.inventory.slices()
            problems += listing.problems
            slices = [slice_ for slice_ in listing.slices if slice_.is_ready and slice_.workers]
        turns = asyncio.Semaphore(SLICES_AT_ONCE)

        async def discover_on(slice_: Slice) -> list[TpuTuiError]:
            async with turns:
                return await self._discover_on(slice_, only)

        for slice_, slice_problems in zip(slices, await asyncio.gather(*map(discover_on, slices)), strict=True):
            for problem in slice_problems:
                if problem.worker is not None and len(slices) > 1:
                    problem.worker = f"{problem.worker} of {slice_.name}"
            problems += slice_problems
        return problems

    async def _discover_on(self, slice_: Slice, only: str | None) -> list[TpuTuiError]:
        from tui.runs.discovery import RunsLeftOutError, discover, import_run

        settings = self._connections.settings
        problems: list[TpuTuiError] = []
        with _collecting(problems):
            fleet = await self._connections.fleet(slice_)
            known = {path.name for path in run_paths(settings.runs_home)}
            discovery = await discover(fleet, settings.run_root, slice_name=slice_.name, known=known, only=only)
            problems += discovery.problems
            if discovery.left_out:
                problems.append(RunsLeftOutError(discovery.left_out, slice_.name))
            for run in discovery.runs:
                with _collecting(problems):
                    import_run(run, settings.runs_home, profile=settings.profile)
        return problems

    async def live_on_workers(self, slice_: Slice) -> list[str]:
        """Return the IDs of the live runs on a slice's workers, including those launched from other machines.

        Raises what prevented a worker from answering.
        """
        from tui.runs.discovery import discover

        fleet = await self._connections.fleet(slice_)
        discovery = await discover(fleet, self._connections.settings.run_root, slice_name=slice_.name)
        live = [run.run.id for run in discovery.runs if run.is_alive]
        if discovery.problems and not live:
            raise discovery.problems[0]
        return live

    # ── state and figures ────────────────────────────────────────────────────────────────────────

    def status_of(self, directory: RunDirectory) -> RunStatus:
        """Return the run's state from its events alone; further calls read only newer events."""
        first = self._known.setdefault(directory.path, directory)
        if first.run != directory.run:
            first = self._known[directory.path] = directory
        return status_of(first)  # the first object for a directory remembers what was already read

    def directory_of(self, status: RunStatus) -> RunDirectory:
        """Return the directory of a run of the last listing, also after it was renamed."""
        return self._listing.directory(status.run.id)

    def latest_figures(self, status: RunStatus) -> LatestFigures:
        """Return the newest figures of a listed run. This reads files and may run in a thread."""
        if self._figures is None:
            logs = self._logs()
            self._figures = FiguresCache(() if logs.dialect_problem else logs.dialects)
        return self._figures.get(self.directory_of(status))

    # ── follow ───────────────────────────────────────────────────────────────────────────────────

    def watch(self, directory: RunDirectory) -> RunWatcher:
        """Return what yields the run's events, its log lines or both until the run is over."""
        return RunWatcher(self, directory, may_start_keeper=self._may_act)

    @property
    def _may_act(self) -> bool:
        return not self._connections.settings.read_only

    async def ensure_keeper(self, directory: RunDirectory) -> bool:
        """Start a keeper for a run that has none and still needs one; return whether one was started.

        A keeper applies the run's policies, so with read-only settings the mirror is only brought up to date.
        """
        directory.require_own()
        if not self._may_act:
            await self.refresh(directory)
            return False
        from tui.runs.keeper.start import ensure_keeper

        timeouts = KeeperTimeouts.from_thresholds(self._connections.settings.thresholds)
        return await ensure_keeper(directory, await self._connections.access(), timeouts=timeouts)

    async def refresh(self, directory: RunDirectory, fleet: Fleet | None = None) -> TpuTuiError | None:
        """Bring the mirror up to date within `REFRESH_TIMEOUT_S`; return what prevented it, if anything did.

        A run that was given up as lost is tried again, because its workers may be reachable by now; a foreign run is
        not refreshed. `fleet` holds open connections to the run's workers, if there are any.
        """
        from tui.runs.follow.catch_up import catch_up

        if directory.foreign is not None:
            return None
        status = self.status_of(directory)
        may_come_back = status.was_given_up and not status.slice_is_gone
        if status.attended.alive or (status.is_whole and not may_come_back):
            return None
        try:
            if fleet is not None:
                await catch_up(directory, fleet, timeout=REFRESH_TIMEOUT_S)
            else:
                async with await self.connect(directory) as fleet:
                    await catch_up(directory, fleet, timeout=REFRESH_TIMEOUT_S)
        except TpuTuiError as error:
            return error
        except OSError as error:
            why = f"{error.filename or directory.path}: {error.strerror or error}"
            return TpuTuiError(f"the local copy of {directory.id} cannot be brought up to date", why=why)
        return None

    async def connect(self, directory: RunDirectory, *, asks: bool = False) -> Fleet:
        """Return connections to a run's workers, opened as needed; the caller closes them.

        With `asks`, the user may be prompted, e.g. for unknown host keys. Raises ForeignRunError for a foreign run:
        anyone may have written the machines into its record.
        """
        from tui.ssh.fleet import Fleet

        directory.require_own()
        prompter = self._connections.prompter if asks else None
        return Fleet(directory.run.workers, await self._connections.access(), prompter=prompter)

    # ── stop and delete ──────────────────────────────────────────────────────────────────────────

    async def stop(self, directory: RunDirectory, grace: float = 30.0) -> AsyncIterator[StopAnswer]:
        """Stop the run on every worker; yield each one's answer, confirmed once nothing of the run is left there."""
        from tui.runs.worker.stop import stop_run

        self._connections.require_changes("stopping")
        directory.require_own()
        access, prompter = await self._connections.access(), self._connections.prompter
        async for answer in stop_run(directory, access, grace=grace, prompter=prompter):
            yield answer
        with contextlib.suppress(TpuTuiError):
            await self.ensure_keeper(directory)

    async def sync_from_workers(self, directory: RunDirectory) -> None:
        """Record what the workers report about a run that has no keeper here."""
        from tui.runs.follow.sync_from_workers import query_workers, record_worker_answers

        async with await self.connect(directory, asks=True) as fleet:
            record_worker_answers(directory, await query_workers(directory.run, fleet))

    async def delete_on_workers(self, directory: RunDirectory) -> AsyncIterator[DeleteAnswer]:
        """Delete an ended run on its workers; yield an answer from each. A live process prevents it."""
        from tui.runs.deletion import delete_on_workers

        async with await self.connect(directory, asks=True) as fleet:
            async for answer in delete_on_workers(directory.run, fleet):
                yield answer

    def delete_here(self, directory: RunDirectory) -> None:
        """Delete an ended run on this machine. Raises UsageError for a live one."""
        from tui.runs.deletion import delete_here

        delete_here(directory)

    def delete_unreadable(self, damaged: NoRecordError, *, anyway: bool) -> None:
        """Delete a run's directory here that has no readable record.

        Raises UsageError for a live run and, without `anyway`, for one that may be live.
        """
        from tui.runs.deletion import delete_unreadable

        delete_unreadable(damaged, self._connections.settings.runs_home, anyway=anyway)


@contextlib.contextmanager
def _collecting(problems: list[TpuTuiError]) -> Iterator[None]:
    """Append an error to the problems and continue."""
    try:
        yield
    except TpuTuiError as error:
        problems.append(error)


def _not_a_run(ref: str) -> UsageError:
    quoted = shlex.quote(ref)
    return UsageError(
        f"{ref!r} is a saved log, not a run",
        remedy=f"open it with tpu-tui replay {quoted}; cores, logs and report also read it",
    )


class RunScope:
    """Decides which runs of this machine the settings cover; when in doubt, it includes a run."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._machines = _machines(settings)

    def includes(self, run: Run) -> bool:
        """Return whether the settings cover a run. A run of the Cloud TPU API has a zone."""
        if self._settings.hosts:
            return run.zone is None and self._is_on_machines(run)
        if self._settings.project is None:
            return True
        return run.zone is not None and run.project in (None, self._settings.project)

    def _is_on_machines(self, run: Run) -> bool:
        machines = self._machines
        if machines is None or run.slice == machines.name:
            return True
        hosts = {worker.internal_ip or worker.external_ip or worker.hostname for worker in machines.workers}
        return any((worker.internal_ip or worker.external_ip or worker.hostname) in hosts for worker in run.workers)


def _machines(settings: Settings) -> Slice | None:
    if settings.hosts:
        with contextlib.suppress(TpuTuiError, OSError):
            return read_hosts(settings.hosts)
    return None


def hidden_note(count: int, shown_by: str) -> str:
    """Return how many runs are hidden and how to show them; empty where none are."""
    return f"{format_count(count, 'run')} of other projects hidden: {shown_by}" if count else ""
