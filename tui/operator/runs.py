"""Runs: list, look into, stop and report them, and read saved logs the same way."""

from __future__ import annotations

import asyncio
import contextlib
import shlex
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from datetime import datetime, timezone
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tui.errors import TpuTuiError, UsageError
from tui.operator.launches import Launching
from tui.operator.run_scope import Belonging
from tui.pod.log_refs import names_a_log, path_of
from tui.pod.run import is_run_id
from tui.pod.slice import Slice
from tui.runs.record.run_directory import RunDirectory
from tui.runs.record.run_index import NoSuchRunError, resolve
from tui.runs.record.run_listing import Overview
from tui.runs.record.run_status import RunStatus

if TYPE_CHECKING:
    from tui.logs.dialects.registry import Dialect
    from tui.logs.saved_log import SavedLog
    from tui.logs.snapshot import Snapshot
    from tui.reports.summary import Summary
    from tui.runs.discovery import DeleteAnswer
    from tui.runs.read.latest_figures import Glance, Glances
    from tui.runs.record.damaged_record import NoRecordError
    from tui.runs.worker.stop import StopAnswer
    from tui.settings import Settings
    from tui.ssh.config.access import Prompter

SLICES_AT_ONCE = 4
"""Slices that are asked for their runs side by side; each logs in to many workers at once."""


def rfc3339(moment: float) -> str:
    """A Unix time as RFC 3339 in UTC, to the second."""
    return datetime.fromtimestamp(moment, timezone.utc).isoformat(timespec="seconds").replace("+00:00", "Z")


@contextlib.contextmanager
def telling(problems: list[TpuTuiError]) -> Iterator[None]:
    """Put an error among the problems, so that one thing that cannot be done hinders no other."""
    try:
        yield
    except TpuTuiError as error:
        problems.append(error)


def _no_run_but_a_log(ref: str) -> UsageError:
    word = shlex.quote(ref)
    return UsageError(
        f"{ref!r} is no run but a saved log",
        remedy=f"tpu-tui replay {word} opens the console on it; cores, logs and report read it too",
    )


class Operator(Launching):
    """Everything tpu-tui can do: what reaches slices and workers, and the runs on this machine."""

    def __init__(self, settings: Settings, *, prompter: Prompter | None = None) -> None:
        super().__init__(settings, prompter=prompter)
        self._glances: Glances | None = None
        self._overview = Overview(settings.runs_home)

    # ── runs ─────────────────────────────────────────────────────────────────────────────────────

    def runs(
        self, slice_name: str | None = None, problems: list[NoRecordError] | None = None, *, newest: int | None = None
    ) -> list[RunStatus]:
        """The runs in this home, or the newest so many, newest first; unreadable records are told in `problems`.

        Asked again, it reads only what has changed. For a thread, too: it reads files.
        """
        statuses = self._overview.look(problems, newest=newest)
        return [status for status in statuses if slice_name in (None, status.run.slice)]

    @property
    def belonging(self) -> Belonging:
        """What tells the runs on these settings' slices from others of this machine; a hosts file is read anew."""
        return Belonging(self.settings)

    def has_run(self, run: str) -> bool:
        """Whether there is a directory for the run of that id here."""
        return (self.settings.runs_home / run).is_dir()

    def open_run(self, ref: str) -> RunDirectory:
        """The run that an id, a unique part of one, `last` or a directory means. Raises UsageError."""
        return resolve(self.settings.runs_home, ref)

    async def discover(self, slices: Sequence[Slice] | None = None) -> list[TpuTuiError]:
        """Make the runs that the workers know and this home does not into runs here; what could not be asked.

        Asks the slices given, else all that are ready. A run so found has no keeper yet: `attend` gives it one.
        """
        problems: list[TpuTuiError] = []
        if slices is None:
            listing = await self.slices()
            problems += listing.problems
            slices = [slice_ for slice_ in listing.slices if slice_.is_ready and slice_.workers]
        turns = asyncio.Semaphore(SLICES_AT_ONCE)

        async def asked(slice_: Slice) -> list[TpuTuiError]:
            async with turns:
                return await self._discover_on(slice_)

        for slice_, met in zip(slices, await asyncio.gather(*map(asked, slices)), strict=True):
            for problem in met:
                if problem.worker is not None and len(slices) > 1:
                    problem.worker = f"{problem.worker} of {slice_.name}"
            problems += met
        return problems

    async def _discover_on(self, slice_: Slice) -> list[TpuTuiError]:
        from tui.runs.discovery import adopt, discover

        problems: list[TpuTuiError] = []
        with telling(problems):
            fleet = await self.fleet(slice_)
            found = await discover(fleet, self.settings.run_root, slice_name=slice_.name)
            problems += found.problems
            for run in found.runs:
                with telling(problems):
                    adopt(run, self.settings.runs_home, profile=self.settings.profile)
        return problems

    async def find_run(self, ref: str) -> RunDirectory:
        """The run that `open_run` would open, looked for on the workers where this home does not know it."""
        try:
            return self.open_run(ref)
        except NoSuchRunError:
            if names_a_log(ref):
                raise _no_run_but_a_log(ref) from None
            if not is_run_id(ref):
                raise
            return await self._found_elsewhere(ref)

    async def _found_elsewhere(self, ref: str) -> RunDirectory:
        """A run that another machine launched, from its workers; who could not be asked is told where it is not."""
        try:
            problems = await self.discover()
        except TpuTuiError as error:
            problems = [error]
        try:
            return self.open_run(ref)
        except UsageError as unknown:
            if problems:
                unknown.why = f"and not all workers could be asked for it: {problems[0].sentence}"
            raise

    def glance(self, status: RunStatus) -> Glance:
        """The newest figures of a run that `runs` listed, from the ends of its logs; for a thread, it reads files."""
        if self._glances is None:
            from tui.runs.read.latest_figures import Glances

            self._glances = Glances(() if self.dialect_problem else self.dialects)
        return self._glances.of(self.directory_of(status))

    def directory_of(self, status: RunStatus) -> RunDirectory:
        """The directory of a run that `runs` listed last, whatever it is called by now."""
        return self._overview.directory(status.run.id)

    async def attend(self, directory: RunDirectory) -> bool:
        """Give the run a keeper if it has none and still needs one; whether one was started.

        A keeper acts on the run's policies: one who may only look on has the mirror brought up to date instead.
        """
        if self.settings.read_only:
            await self.refresh(directory)
            return False
        from tui.runs.keeper.start import ensure_keeper
        from tui.runs.keeper_timeouts import KeeperTimeouts

        timeouts = KeeperTimeouts.from_thresholds(self.settings.thresholds)
        return await ensure_keeper(directory, await self.access(), timeouts=timeouts)

    async def open_source(
        self, ref: str, *, offline: bool = False, note: Callable[[str], None] = lambda _: None
    ) -> RunDirectory | SavedLog:
        """A run, or a saved log where the text is a file's path, `gs://bucket/object` or `-` for what is piped in.

        Raises UsageError, and CloudError for a bucket that cannot or may not be read. `offline` asks no bucket for a
        newer log; `note` is told when there is something to wait for.
        """
        path = path_of(ref)
        if names_a_log(ref):
            return await self.open_log(ref, offline=offline, note=note)
        try:
            return self.open_run(ref) if path.exists() or "/" in ref else await self.find_run(ref)
        except UsageError as error:
            if path.exists() or "/" in ref:
                return await self.open_log(ref)
            if isinstance(error, NoSuchRunError):
                raise UsageError(f"no run and no file {ref!r}", remedy=error.remedy) from None
            raise

    async def open_log(
        self, ref: str, *, offline: bool = False, note: Callable[[str], None] = lambda _: None
    ) -> SavedLog:
        """The saved log at a path, at `gs://bucket/object` or piped in (`-`); the profile's dialects hold too."""
        if ref.startswith("gs://"):
            from tui.operator.bucket_logs import BucketLogs

            logs = BucketLogs(self.settings)
            return await logs.open(ref, dialects=self.dialects, offline=offline, note=note)
        from tui.logs.saved_log import open_log

        return open_log(path_of(ref), dialects=self.dialects)

    @property
    def dialects(self) -> tuple[Dialect, ...]:
        """The profile's own dialects. Raises UsageError for one that is none."""
        return self._read_dialects()

    @cached_property
    def dialect_problem(self) -> UsageError | None:
        """What is wrong with the profile's own dialects: without them a run's state is known, its figures are not."""
        if self.settings.dialects:
            try:
                self._read_dialects()
            except UsageError as error:
                return error
        return None

    def _read_dialects(self) -> tuple[Dialect, ...]:
        from tui.logs.dialects.registry import user_dialects

        return user_dialects(self.settings.dialects)

    async def snapshot(self, source: RunDirectory | SavedLog) -> Snapshot:
        """The per-core state of all that a run's mirror or a saved log holds."""
        if not isinstance(source, RunDirectory):
            return source.snapshot()
        from tui.runs.read.sample_reader import RunReader

        reader = RunReader(source, dialects=self.dialects, thresholds=self.settings.thresholds)
        more = True
        while more:
            more = reader.poll()
            await asyncio.sleep(0)
        return reader.snapshot()

    async def core_rows(
        self, source: RunDirectory | SavedLog, by: str = "core", *, reverse: bool = False
    ) -> list[dict[str, Any]]:
        """The rows that `cores --json` prints; a saved log's are remembered until it changes."""
        if not isinstance(source, RunDirectory):
            return source.core_rows(by=by, reverse=reverse, cache=self.settings.home / "cache")
        snapshot = (await self.snapshot(source)).sorted(by, reverse)
        return [row.to_json() for row in snapshot.rows()]

    async def status(self, directory: RunDirectory) -> dict[str, Any]:
        """The document that `status --json` prints; without figures where `dialect_problem` says why.

        Raises UsageError once the run's directory is gone.
        """
        directory.require()
        snapshot = None if self.dialect_problem else await self.snapshot(directory)
        return self.status_document(self.status_of(directory), snapshot, directory)

    def status_document(
        self, status: RunStatus, snapshot: Snapshot | None, directory: RunDirectory | None = None
    ) -> dict[str, Any]:
        """A run's state with the figures of its cores; figures are null where no log was read.

        `directory` is the run's, where it is not one that `runs` listed last.
        """
        from tui.reports.status import status_document

        if status.state.is_over:
            return status_document(status, snapshot)
        return status_document(status, snapshot, (directory or self.directory_of(status)).last_arrival())

    async def report(
        self, source: RunDirectory | SavedLog, formats: Sequence[str], out: Path | None = None, *, force: bool = False
    ) -> list[Path]:
        """Write a report's files, into the run's directory (a saved log's: the current one) unless told.

        In the run's own directory they are `report.<format>`, elsewhere they have the name of the run or log, and a
        file of another one is replaced with `force` only.
        """
        from tui.reports.write import OWN, stem_of, write_report

        summary = await self.summary(source)
        own = source.path if isinstance(source, RunDirectory) else None
        folder = out or own or Path()
        stem = OWN if own is not None and folder.absolute() == own.absolute() else stem_of(summary.facts.title)
        return await asyncio.to_thread(write_report, summary, formats, folder, stem=stem, force=force)

    async def summary(self, source: RunDirectory | SavedLog) -> Summary:
        """All that a run's record and mirror, or a saved log, come to."""
        from tui.reports.facts import summary_of_log, summary_of_run

        if not isinstance(source, RunDirectory):
            return await asyncio.to_thread(summary_of_log, source)
        told = partial(summary_of_run, dialects=self.dialects, thresholds=self.settings.thresholds)
        return await asyncio.to_thread(told, source)

    async def upload_report(
        self,
        source: RunDirectory | SavedLog,
        formats: Sequence[str],
        files: Sequence[Path],
        destination: str,
        *,
        force: bool = False,
    ) -> list[str]:
        """Copy a report's files into a folder of a bucket, by the run's or log's name; their `gs://` URLs.

        An object that is no report of this run or log is replaced with `force` only. Raises CloudError, UsageError.
        """
        from tui.cloud.storage.buckets import Buckets, parse_url
        from tui.reports.facts import source_of, title_of
        from tui.reports.write import file_names, stem_of

        if self.settings.read_only:
            raise UsageError("uploading is refused by --read-only")
        folder = parse_url(destination)
        buckets = Buckets(self.settings)
        try:
            names = file_names(formats, stem_of(title_of(source)))
            owner = source_of(source)
            return [
                str(await buckets.upload(path, folder / name, owner=owner, force=force))
                for path, name in zip(files, names, strict=True)
            ]
        finally:
            await buckets.close()

    async def stop(self, directory: RunDirectory, grace: float = 30.0) -> AsyncIterator[StopAnswer]:
        """Stop the run on every worker; an answer for each, confirmed only when nothing of it is left there."""
        from tui.runs.worker.stop import stop_run

        if self.settings.read_only:
            raise UsageError("stopping is refused by --read-only")
        async for answer in stop_run(directory, await self.access(), grace=grace, prompter=self.prompter):
            yield answer
        with contextlib.suppress(TpuTuiError):
            await self.attend(directory)

    async def ask_workers(self, directory: RunDirectory) -> None:
        """Let the workers tell what became of a run that nobody keeps here; its status then says so."""
        from tui.runs.follow.sync_from_workers import answers_about, note_told
        from tui.ssh.fleet import Fleet

        async with Fleet(directory.run.workers, await self.access(), prompter=self.prompter) as fleet:
            note_told(directory, await answers_about(directory.run, fleet))

    async def delete_on_workers(self, directory: RunDirectory) -> AsyncIterator[DeleteAnswer]:
        """Remove what the workers hold of an ended run; an answer from each, and what is alive stays."""
        from tui.runs.discovery import delete_on_workers
        from tui.ssh.fleet import Fleet

        async with Fleet(directory.run.workers, await self.access(), prompter=self.prompter) as fleet:
            async for answer in delete_on_workers(directory.run, fleet):
                yield answer

    def delete_here(self, directory: RunDirectory) -> None:
        """Remove an ended run from this machine. Raises UsageError for a live one."""
        from tui.runs.discovery import delete_here

        delete_here(directory)

    def delete_unreadable(self, damaged: NoRecordError, *, anyway: bool) -> None:
        """Remove a run's directory here without its record. Raises UsageError where it goes on, or may (`anyway`)."""
        from tui.runs.discovery import delete_unreadable

        delete_unreadable(damaged, self.settings.runs_home, anyway=anyway)
