"""Everything tpu-tui can do, in one place: the console and the commands both call this, and nothing below it."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tui.errors import OutOfReachError, TpuTuiError, UsageError
from tui.pod.slice import Slice
from tui.pod.worker import Worker
from tui.runs.directory import Event, RunDirectory, list_runs, resolve
from tui.runs.request import LaunchRequest, check_request, run_from
from tui.runs.status import RunStatus, status_of

if TYPE_CHECKING:
    from tui.checks.row import CheckRow
    from tui.cloud.inventory import Inventory, Listing
    from tui.logs.archive import SavedLog
    from tui.logs.dialects import Dialect
    from tui.logs.snapshot import Snapshot
    from tui.runs.launch import LaunchSpec
    from tui.runs.reader import LogLine
    from tui.runs.stop import StopAnswer
    from tui.settings import Settings
    from tui.ssh.access import Access, Prompter
    from tui.ssh.fleet import Completed, Fleet
    from tui.ssh.transfer import SyncResult

REACH_TIMEOUT = 10.0
"""Seconds a worker has to answer when somebody looks at the list of workers."""
WATCH_INTERVAL = 0.1
"""Seconds between two looks at a run directory: what a person reads as at once."""
REFRESH_TIMEOUT = 5.0
"""Seconds a command waits for a mirror to catch up before it answers with what there is."""


def rfc3339(moment: float) -> str:
    """A Unix time as RFC 3339 in UTC, to the second."""
    return datetime.fromtimestamp(moment, timezone.utc).isoformat(timespec="seconds").replace("+00:00", "Z")


class Operator:
    """One person's reach: their settings, the inventory, live connections and the runs on this machine.

    Everything is asynchronous and cancellable; nothing prints. Errors are `TpuTuiError`s.
    """

    def __init__(self, settings: Settings, *, prompter: Prompter | None = None) -> None:
        self.settings = settings
        self.prompter = prompter
        self._inventory: Inventory | None = None
        self._access: Access | None = None
        self._fleets: dict[str, tuple[Slice, Fleet]] = {}
        self._lock = asyncio.Lock()
        self._statuses: dict[Path, tuple[int, RunStatus]] = {}

    async def close(self) -> None:
        """Close connections; runs go on."""
        fleets, self._fleets = self._fleets, {}
        for _slice, fleet in fleets.values():
            await fleet.close()
        if self._inventory is not None:
            await self._inventory.close()
            self._inventory = None

    # ── see ──────────────────────────────────────────────────────────────────────────────────────

    @property
    def where(self) -> str:
        """Where slices are looked for, in words."""
        if self.settings.hosts:
            return str(self.settings.hosts)
        zones = ", ".join(self.settings.zones) or "any zone"
        return f"project {self.settings.project}, {zones}"

    @property
    def inventory(self) -> Inventory:
        """The source of slices that the settings name, opened when first asked."""
        if self._inventory is None:
            from tui.cloud.inventory import open_inventory

            self._inventory = open_inventory(self.settings)
        return self._inventory

    async def slices(self) -> Listing:
        """Every slice of every zone asked for; zones that failed are among `problems`."""
        return await self.inventory.slices()

    async def slice(self, ref: str) -> Slice:
        """The slice that `name` or `zone/name` means.

        Raises UsageError (unknown or ambiguous, with the candidates) and CloudError.
        """
        zone, slash, name = ref.rpartition("/")
        if slash:
            return await self.inventory.get(name, zone)
        if len(self.settings.zones) == 1:
            return await self.inventory.get(name, self.settings.zones[0])
        listing = await self.slices()
        found = [slice_ for slice_ in listing.slices if slice_.name == name]
        if len(found) > 1:
            candidates = ", ".join(slice_.path for slice_ in found)
            raise UsageError(f"{name} is in more than one zone", remedy=f"say which: {candidates}")
        if found:
            return found[0]
        if listing.problems:
            raise listing.problems[0]
        return await self.inventory.get(name, None)

    async def workers(self, slice_: Slice) -> list[Worker]:
        """The slice's workers, each tried over SSH: `reachable` and, where it is not, the sentence why."""
        fleet = await self.fleet(slice_)

        async def tried(worker: Worker) -> Worker:
            reach = await fleet.reach(worker.index, REACH_TIMEOUT)
            return replace(worker, reachable=reach.ok, error=reach.error.sentence if reach.error else None)

        known, _ = self._fleets[slice_.path]
        return list(await asyncio.gather(*(tried(worker) for worker in known.workers)))

    async def fleet(self, slice_: Slice) -> Fleet:
        """Live connections to the slice's workers, kept until `close`; made anew when its addresses changed."""
        self._require_workers(slice_)
        async with self._lock:
            held = self._fleets.get(slice_.path)
            if held and _addresses(held[0]) == _addresses(slice_):
                return held[1]
            if held:
                await held[1].close()
            from tui.ssh.fleet import Fleet

            known = await self.inventory.host_keys(slice_)
            fleet = Fleet(known.workers, await self.access(), prompter=self.prompter)
            self._fleets[slice_.path] = (known, fleet)
            return fleet

    async def access(self) -> Access:
        """What it takes to log in: keys loaded, a passphrase asked once."""
        if self._access is None:
            from tui.ssh.access import access_from
            from tui.ssh.keys import unlock

            self._access = await unlock(access_from(self.settings), self.prompter)
        return self._access

    @staticmethod
    def _require_workers(slice_: Slice) -> None:
        if slice_.is_ready and slice_.workers:
            return
        state = slice_.state or "without workers"
        raise OutOfReachError(
            f"{slice_.name} is {state}",
            why="its workers cannot be reached" if slice_.workers else "it has no workers yet",
            remedy="tpu-tui slices shows its state; wait until it is READY"
            if state in ("CREATING", "STARTING", "RESTARTING", "REPAIRING")
            else f"tpu-tui slices start {slice_.name}, or create it again",
        )

    # ── the life of a slice ──────────────────────────────────────────────────────────────────────

    def create_slice(
        self, ref: str, accelerator_type: str, runtime_version: str, *, spot: bool = False
    ) -> AsyncIterator[str]:
        """Make a slice (`name`, or `zone/name` where several zones are configured); yields its progress."""
        zone, _, name = ref.rpartition("/")
        if not zone and len(self.settings.zones) != 1:
            raise UsageError("which zone?", remedy=f"--zone ZONE, or tpu-tui slices create ZONE/{name}")
        where = zone or self.settings.zones[0]
        steps: AsyncIterator[str] = self._tpu_api().create(where, name, accelerator_type, runtime_version, spot=spot)
        return steps

    def change_slice(self, slice_: Slice, action: str) -> AsyncIterator[str]:
        """Delete, start or stop a slice; yields its progress."""
        api = self._tpu_api()
        change = {"delete": api.delete, "start": api.start, "stop": api.stop}[action]
        steps: AsyncIterator[str] = change(slice_.zone, slice_.name)
        return steps

    def _tpu_api(self) -> Any:
        if self.settings.read_only:
            raise UsageError("changing slices is refused by --read-only")
        if self.settings.hosts:
            raise UsageError("a hosts file's machines are not made or deleted here", remedy="leave --hosts out")
        return self.inventory

    # ── check and exec ───────────────────────────────────────────────────────────────────────────

    async def check(self, slice_: Slice, ports: Sequence[int] = ()) -> AsyncIterator[CheckRow]:
        """Every check of a slice, a row as soon as it is known."""
        from tui.checks import run_checks, slice_rows

        for row in slice_rows(slice_):
            yield row
        if not (slice_.is_ready and slice_.workers):
            return
        fleet = await self.fleet(slice_)
        async for row in run_checks(self._fleets[slice_.path][0], fleet, ports):
            yield row

    async def exec(
        self, slice_: Slice, argv: Sequence[str], ranks: Sequence[int] | None = None, timeout: float | None = None
    ) -> AsyncIterator[Completed | TpuTuiError]:
        """Run one command on many workers; yields as they finish, an error for a worker that cannot be reached."""
        import shlex

        fleet = await self.fleet(slice_)
        chosen = range(len(slice_.workers)) if ranks is None else ranks
        async for answer in fleet.run_all(chosen, shlex.join(argv), timeout=timeout):
            yield answer

    async def sync(self, slice_: Slice, directory: Path) -> AsyncIterator[SyncResult | TpuTuiError]:
        """Copy a working tree to every worker; yields as they have it, an error for one that could not."""
        from tui.ssh.transfer import sync_tree

        if self.settings.read_only:
            raise UsageError("copying to workers is refused by --read-only")
        if not directory.is_dir():
            raise UsageError(f"{directory} is no directory", remedy="name the directory to copy")
        fleet = await self.fleet(slice_)
        ranks = range(len(slice_.workers))
        async for answer in sync_tree(fleet, ranks, directory, run_root=self.settings.run_root):
            yield answer

    async def shell_command(self, slice_: Slice, worker: int) -> list[str]:
        """The `ssh` command line that leads to one worker, host key checked as here."""
        from tui.ssh.shell import shell_command

        self._require_workers(slice_)
        known = await self.inventory.host_keys(slice_)
        return shell_command(known.workers[worker], await self.access())

    # ── launch ───────────────────────────────────────────────────────────────────────────────────

    async def plan_launch(self, request: LaunchRequest) -> LaunchSpec:
        """Everything a keeper needs, with all questions to the person asked; nothing is started.

        Raises UsageError for what no worker could run, OutOfReachError for a slice that is not ready.
        """
        from tui.runs.launch import LaunchSpec, check_spec

        check_request(request)
        self._require_workers(request.slice_)
        access = await self.access()
        known = await self.inventory.host_keys(request.slice_)
        spec = LaunchSpec(run_from(request, known, self.settings), dict(request.env), access, request.sync)
        check_spec(spec)
        return spec

    def dry_run(self, spec: LaunchSpec) -> str:
        """Exactly what would run, on which workers, secrets masked."""
        from tui.runs.launch import dry_run

        return dry_run(spec)

    async def launch(self, spec: LaunchSpec) -> RunDirectory:
        """Make the run directory and give the run to its keeper; what follows is in its events.

        Unknown host keys are asked about first, for a keeper can ask nobody.
        """
        from tui.runs.keeper import start_keeper

        if self.settings.read_only:
            raise UsageError("launching is refused by --read-only")
        if self.prompter is not None:
            spec = await self._with_questions_asked(spec)
        directory = RunDirectory.create(self.settings.runs_home, spec.run)
        await asyncio.to_thread(start_keeper, directory, spec)
        return directory

    async def _with_questions_asked(self, spec: LaunchSpec) -> LaunchSpec:
        """Log in once to workers whose host key nobody vouches for; what was answered goes to the keeper."""
        from tui.ssh.fleet import Fleet

        strangers = [worker.index for worker in spec.run.workers if not worker.host_keys]
        async with Fleet(spec.run.workers, spec.access, prompter=self.prompter) as fleet:
            await asyncio.gather(*(fleet.connect(index) for index in strangers))
            return replace(spec, access=fleet.access)

    # ── runs ─────────────────────────────────────────────────────────────────────────────────────

    def runs(self, slice_name: str | None = None) -> list[RunStatus]:
        """The runs in this home, newest first."""
        statuses = [self.status_of(directory) for directory in list_runs(self.settings.runs_home)]
        return [status for status in statuses if slice_name in (None, status.run.slice)]

    def open_run(self, ref: str) -> RunDirectory:
        """The run that an id, a unique part of one, `last` or a directory means. Raises UsageError."""
        return resolve(self.settings.runs_home, ref)

    def status_of(self, directory: RunDirectory) -> RunStatus:
        """The run's state, from its events alone; they are read again only when there are more of them."""
        size = directory.events_size()
        known = self._statuses.get(directory.path)
        if known is None or known[0] != size:
            known = self._statuses[directory.path] = (size, status_of(directory))
        return replace(known[1], attended=directory.attended())

    async def attend(self, directory: RunDirectory) -> bool:
        """Give the run a keeper if it has none and still needs one; whether one was started."""
        from tui.runs.keeper import attend

        return await attend(directory, await self.access())

    async def refresh(self, directory: RunDirectory) -> TpuTuiError | None:
        """Bring the mirror up to date within `REFRESH_TIMEOUT`; what hindered it, if anything did."""
        from tui.runs.follow import catch_up

        if self.status_of(directory).state.is_over or directory.attended().alive:
            return None
        try:
            await catch_up(directory, await self.access(), timeout=REFRESH_TIMEOUT)
        except TpuTuiError as error:
            return error
        return None

    def open_source(self, ref: str) -> RunDirectory | SavedLog:
        """A run, or a saved log where the text is a file's path. Raises UsageError."""
        from tui.logs.archive import open_log

        path = Path(ref).expanduser()
        if path.is_file():
            return open_log(path, dialects=self.dialects)
        try:
            return self.open_run(ref)
        except UsageError:
            if path.exists() or "/" in ref:
                return open_log(path, dialects=self.dialects)
            raise

    @property
    def dialects(self) -> tuple[Dialect, ...]:
        """The profile's own dialects. Raises UsageError for one that is none."""
        from tui.logs.dialects import user_dialects

        return user_dialects(self.settings.dialects)

    async def snapshot(self, source: RunDirectory | SavedLog) -> Snapshot:
        """The per-core state of all that a run's mirror or a saved log holds."""
        if not isinstance(source, RunDirectory):
            return source.snapshot()
        from tui.runs.reader import RunReader

        reader = RunReader(source, dialects=self.dialects, thresholds=self.settings.thresholds)
        more = True
        while more:
            more = reader.poll()
            await asyncio.sleep(0)
        return reader.snapshot()

    async def status(self, directory: RunDirectory) -> dict[str, Any]:
        """The document that `status --json` prints."""
        return self.status_document(self.status_of(directory), await self.snapshot(directory))

    def status_document(self, status: RunStatus, snapshot: Snapshot | None) -> dict[str, Any]:
        """A run's state with the figures of its cores; figures are null where no log was read."""
        from tui.reports.status import status_document

        return status_document(status, snapshot)

    async def report(
        self, source: RunDirectory | SavedLog, formats: Sequence[str], out: Path | None = None
    ) -> list[Path]:
        """Write `report.<format>` files, into the run's directory (a saved log's: the current one) unless told."""
        from tui.reports.facts import summary_of_log, summary_of_run
        from tui.reports.write import write_report

        def written() -> list[Path]:
            if isinstance(source, RunDirectory):
                return write_report(summary_of_run(source), formats, out or source.path)
            return write_report(summary_of_log(source), formats, out or Path())

        return await asyncio.to_thread(written)

    async def upload(self, files: Sequence[Path], destination: str) -> list[str]:
        """Copy files into a folder of a bucket; their `gs://` URLs. Raises CloudError, UsageError."""
        from tui.cloud.buckets import Buckets, parse_url

        folder = parse_url(destination)
        buckets = Buckets(self.settings)
        try:
            return [str(await buckets.upload(path, folder / path.name)) for path in files]
        finally:
            await buckets.close()

    async def events(self, directory: RunDirectory) -> AsyncIterator[Event]:
        """The run's events from the first one on, as they are written; ends with the run or its last keeper."""
        offset = 0
        while True:
            over = self.status_of(directory).state.is_over
            fresh, offset = directory.events(offset)
            for event in fresh:
                yield event
            if over:
                return
            await asyncio.sleep(WATCH_INTERVAL)

    async def watch(self, directory: RunDirectory) -> AsyncIterator[Event | LogLine]:
        """Events and log lines in order of arrival, from the first byte until the run has ended."""
        from tui.runs.reader import LineReader

        offset = 0
        lines = LineReader(directory)
        while True:
            over = self.status_of(directory).state.is_over
            fresh, offset = directory.events(offset)
            for line in lines.poll(final=over):
                yield line
            for event in fresh:
                yield event
            if over:
                return
            await asyncio.sleep(WATCH_INTERVAL)

    async def lines(
        self,
        directory: RunDirectory,
        *,
        workers: Sequence[int] | None = None,
        core: int | None = None,
        fresh_only: bool = False,
    ) -> AsyncIterator[LogLine]:
        """The run's lines in order of arrival until it has ended; `fresh_only` leaves out what is there already."""
        from tui.runs.reader import LineReader

        reader = LineReader(directory, workers=workers, core=core)
        if fresh_only:
            for _ in reader.poll(budget_bytes=sys.maxsize):
                pass
        while True:
            over = self.status_of(directory).state.is_over
            for line in reader.poll(final=over):
                yield line
            if over:
                return
            await asyncio.sleep(WATCH_INTERVAL)

    async def stop(self, directory: RunDirectory, grace: float = 30.0) -> AsyncIterator[StopAnswer]:
        """Stop the run on every worker; an answer for each, confirmed only when nothing of it is left there."""
        from tui.runs.stop import stop_run

        if self.settings.read_only:
            raise UsageError("stopping is refused by --read-only")
        async for answer in stop_run(directory, await self.access(), grace=grace, prompter=self.prompter):
            yield answer
        with contextlib.suppress(TpuTuiError):
            await self.attend(directory)


def _addresses(slice_: Slice) -> list[tuple[str | None, str | None, int]]:
    return [(worker.internal_ip, worker.external_ip, worker.port) for worker in slice_.workers]


__all__ = ["LaunchRequest", "Operator", "rfc3339"]
