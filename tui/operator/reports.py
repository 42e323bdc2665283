"""Reports: status documents, summaries and report files of runs and logs, and how runs scale."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from tui.cloud.storage.buckets import Buckets, parse_url
from tui.logs.saved_log import SavedLog
from tui.logs.snapshot import Snapshot
from tui.operator.connections import Connections
from tui.operator.logs import Logs
from tui.operator.runs import Runs
from tui.planning.scaling_ladder import FinishedRun, Ladder, is_comparable, make_ladders
from tui.pod.run import Run, RunState, is_rehearsal_command
from tui.reports.comparison import Compared, compare
from tui.reports.curves import chart_of
from tui.reports.facts import source_of, summary_of_log, summary_of_run, title_of
from tui.reports.rates import rate_over_run
from tui.reports.status import status_document
from tui.reports.summary import Summary
from tui.reports.worker_logs import worker_logs, write_worker_logs
from tui.reports.write import OWN, stem_of, uploaded_name, write_report
from tui.runs.record.run_directory import RunDirectory
from tui.runs.record.run_status import RunStatus


@dataclass(frozen=True)
class ScalingReport:
    """The scaling ladders, and the runs that are on none, each with the reason."""

    ladders: tuple[Ladder, ...]
    left_out: tuple[tuple[str, str], ...]


class Reports:
    """Summarizes runs and saved logs, as documents and as files."""

    def __init__(self, connections: Connections, runs: Runs, logs: Logs) -> None:
        self._connections = connections
        self._runs = runs
        self._logs = logs

    async def read_status(self, directory: RunDirectory) -> dict[str, Any]:
        """Return the document that `status --json` prints; without figures where there is a `dialect_problem`.

        Raises UsageError once the run's directory is gone.
        """
        directory.require()
        snapshot = None if self._logs.dialect_problem else await self._logs.snapshot(directory)
        return self.status_document(self._runs.status_of(directory), snapshot, directory)

    def status_document(
        self, status: RunStatus, snapshot: Snapshot | None, directory: RunDirectory | None = None
    ) -> dict[str, Any]:
        """Return a run's state with the figures of its cores; figures are null where no log was read.

        `directory` is the run's directory; by default it is that of the newest listing.
        """
        if status.state.is_over:
            return status_document(status, snapshot)
        return status_document(status, snapshot, (directory or self._runs.directory_of(status)).last_arrival())

    async def summarize(self, source: RunDirectory | SavedLog) -> Summary:
        """Return the summary of a run's record and mirror, or of a saved log."""
        if not isinstance(source, RunDirectory):
            return await asyncio.to_thread(summary_of_log, source)
        thresholds = self._connections.settings.thresholds
        summarize = partial(summary_of_run, dialects=self._logs.dialects, thresholds=thresholds)
        return await asyncio.to_thread(summarize, source)

    async def compare(self, sources: Sequence[RunDirectory | SavedLog]) -> tuple[Compared, ...]:
        """Compare runs and saved logs; the first one is the baseline."""
        return compare([await self.summarize(source) for source in sources])

    async def write(
        self,
        source: RunDirectory | SavedLog,
        formats: Sequence[str],
        out: Path | None = None,
        *,
        logs: bool = False,
        force: bool = False,
    ) -> list[Path]:
        """Write a report's files, with `logs` also each worker's log; return their paths.

        The default directory is the run's own, or for a saved log or a foreign run the current one. In the run's own
        directory the files are called `report.<format>`; elsewhere they are named after the run or log, and a file of
        another run or log is replaced with `force` only.
        """
        if logs:
            await asyncio.to_thread(worker_logs, source)
        summary = await self.summarize(source)
        run_path = source.path if isinstance(source, RunDirectory) and source.foreign is None else None
        folder = out or run_path or Path()
        is_own = run_path is not None and folder.absolute() == run_path.absolute()
        stem = OWN if is_own else stem_of(summary.facts.title)
        files = await asyncio.to_thread(write_report, summary, formats, folder, stem=stem, force=force)
        if logs:
            files += await asyncio.to_thread(write_worker_logs, source, folder, stem=stem, force=force)
        return files

    def check_destination(self, destination: str) -> None:
        """Raise UsageError for a destination of `upload` that is not a `gs://` URL."""
        parse_url(destination)

    async def upload(
        self,
        source: RunDirectory | SavedLog,
        files: Sequence[Path],
        destination: str,
        *,
        force: bool = False,
    ) -> list[str]:
        """Copy a report's files into a folder of a bucket, named after the run or log; return their `gs://` URLs.

        An object that is not a report of this run or log is replaced with `force` only.
        Raises CloudError, UsageError.
        """
        self._connections.require_changes("uploading")
        folder, stem, owner = parse_url(destination), stem_of(title_of(source)), source_of(source)
        async with Buckets(self._connections.settings) as buckets:
            return [
                str(await buckets.upload(path, folder / uploaded_name(path.name, stem), owner=owner, force=force))
                for path in files
            ]

    async def scaling(self, refs: Sequence[str] = ()) -> ScalingReport:
        """Compare runs by slice size; without `refs`, all that have ended. Raises UsageError for an unknown run.

        Of rates in several units, those in the most common one are compared.
        """
        named = [await self._runs.find(ref) for ref in refs]
        directories = named or [self._runs.directory_of(status) for status in reversed(self._runs.list_statuses())]
        finished: list[tuple[FinishedRun, str | None]] = []
        left_out: list[tuple[str, str]] = []
        for directory in directories:
            state = self._runs.status_of(directory).state
            if not state.is_over:
                left_out.append((directory.id, "it has not ended"))
                continue
            snapshot = await self._logs.snapshot(directory)
            run = _finished_run(directory.run, state, snapshot)
            if is_comparable(run):
                finished.append((run, snapshot.rate_unit if run.rate_total else None))
            else:
                left_out.append((run.run, "its number of cores is unknown"))
        units = Counter(unit for _, unit in finished if unit is not None)
        usual = max(units, key=lambda unit: units[unit], default=None)
        others = [
            (run.run, f"its rate is in {unit}, not {usual}") for run, unit in finished if unit not in (None, usual)
        ]
        ladders = make_ladders(run for run, unit in finished if unit in (None, usual))
        return ScalingReport(ladders, (*left_out, *others))


def _finished_run(run: Run, state: RunState, snapshot: Snapshot) -> FinishedRun:
    cores = run.cores_per_worker
    counted = len(snapshot) if snapshot.noun == "core" else 0
    return FinishedRun(
        run.id,
        run.accelerator_type,
        state is RunState.SUCCEEDED,
        _measured_rate(snapshot),
        (cores * len(run.workers) if cores else counted) or None,
        is_rehearsal_command(run.job.argv),
    )


def _measured_rate(snapshot: Snapshot) -> float | None:
    """Return the rate of the whole slice over the run, as `compare` measures it; None where it is unknown."""
    newest = snapshot.rate_total
    return None if newest is None else rate_over_run(newest, (point.rate for point in chart_of(snapshot)))
