"""Reports: the status of a run, what happened in it, how it compares, and how runs scale."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tui.operator.connections import Connections
from tui.runs.record.run_directory import RunDirectory

if TYPE_CHECKING:
    from tui.logs.saved_log import SavedLog
    from tui.logs.snapshot import Snapshot
    from tui.operator.logs import Logs
    from tui.operator.runs import Runs
    from tui.operator.scaling import ScalingReport
    from tui.reports.summary import Summary
    from tui.runs.record.run_status import RunStatus


class Reports:
    """Sums up runs and saved logs, as documents and as files."""

    def __init__(self, connections: Connections, runs: Runs, logs: Logs) -> None:
        self._connections = connections
        self._runs = runs
        self._logs = logs

    async def read_status(self, directory: RunDirectory) -> dict[str, Any]:
        """Return the document that `status --json` prints; without figures where `dialect_problem` says why.

        Raises UsageError once the run's directory is gone.
        """
        directory.require()
        snapshot = None if self._logs.dialect_problem else await self._logs.snapshot(directory)
        return self.status_document(self._runs.status_of(directory), snapshot, directory)

    def status_document(
        self, status: RunStatus, snapshot: Snapshot | None, directory: RunDirectory | None = None
    ) -> dict[str, Any]:
        """Return a run's state with the figures of its cores; figures are null where no log was read.

        `directory` is the run's, where it is not one that was listed last.
        """
        from tui.reports.status import status_document

        if status.state.is_over:
            return status_document(status, snapshot)
        return status_document(status, snapshot, (directory or self._runs.directory_of(status)).last_arrival())

    async def summarize(self, source: RunDirectory | SavedLog) -> Summary:
        """Return all that a run's record and mirror, or a saved log, come to."""
        from tui.reports.facts import summary_of_log, summary_of_run

        if not isinstance(source, RunDirectory):
            return await asyncio.to_thread(summary_of_log, source)
        thresholds = self._connections.settings.thresholds
        summarize = partial(summary_of_run, dialects=self._logs.dialects, thresholds=thresholds)
        return await asyncio.to_thread(summarize, source)

    async def write(
        self, source: RunDirectory | SavedLog, formats: Sequence[str], out: Path | None = None, *, force: bool = False
    ) -> list[Path]:
        """Write a report's files, by default into the run's directory (a saved log's: the current one).

        In the run's own directory they are `report.<format>`, elsewhere they have the name of the run or log, and a
        file of another one is replaced with `force` only.
        """
        from tui.reports.write import OWN, stem_of, write_report

        summary = await self.summarize(source)
        own = source.path if isinstance(source, RunDirectory) else None
        folder = out or own or Path()
        stem = OWN if own is not None and folder.absolute() == own.absolute() else stem_of(summary.facts.title)
        return await asyncio.to_thread(write_report, summary, formats, folder, stem=stem, force=force)

    def check_destination(self, destination: str) -> None:
        """Raise UsageError for a destination of `upload` that is not a `gs://` URL."""
        from tui.cloud.storage.buckets import parse_url

        parse_url(destination)

    async def upload(
        self,
        source: RunDirectory | SavedLog,
        formats: Sequence[str],
        files: Sequence[Path],
        destination: str,
        *,
        force: bool = False,
    ) -> list[str]:
        """Copy a report's files into a folder of a bucket, named after the run or log; return their `gs://` URLs.

        An object that is not a report of this run or log is replaced with `force` only.
        Raises CloudError, UsageError.
        """
        from tui.cloud.storage.buckets import Buckets, parse_url
        from tui.reports.facts import source_of, title_of
        from tui.reports.write import file_names, stem_of

        self._connections.require_changes("uploading")
        folder = parse_url(destination)
        buckets = Buckets(self._connections.settings)
        try:
            names = file_names(formats, stem_of(title_of(source)))
            owner = source_of(source)
            return [
                str(await buckets.upload(path, folder / name, owner=owner, force=force))
                for path, name in zip(files, names, strict=True)
            ]
        finally:
            await buckets.close()

    async def scaling(self, refs: Sequence[str] = ()) -> ScalingReport:
        """Compare finished runs by slice size; without names all that have ended. Raises UsageError."""
        from tui.operator.scaling import report_scaling

        return await report_scaling(self._runs, self._logs, refs)
