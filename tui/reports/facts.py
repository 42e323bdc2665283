"""Collect the facts of a run or of a saved log for its summary."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import PurePosixPath

from tui.logs.dialects.dialect import Dialect
from tui.logs.saved_log import SavedLog
from tui.reports.summary import RunFacts, Summary, WorkerSummary, summarize
from tui.runs.read.sample_reader import RunReader
from tui.runs.record.run_directory import RunDirectory
from tui.runs.record.run_status import RunStatus, status_of
from tui.runs.record.versions import RUNTIME


def facts_of_run(status: RunStatus) -> RunFacts:
    """Return the facts in the run's record, without its logs."""
    run = status.run
    statuses = {worker.worker: worker for worker in status.workers}
    workers = tuple(
        WorkerSummary(
            worker=worker.index,
            hostname=worker.hostname,
            address=worker.internal_ip or worker.external_ip,
            exit_code=statuses[worker.index].exit_code,
            signal=statuses[worker.index].signal,
            ended=statuses[worker.index].ended,
            detail=statuses[worker.index].exit_cause or statuses[worker.index].stop_detail,
        )
        for worker in run.workers
        if worker.index in statuses
    )
    return RunFacts(
        title=run.id,
        slice=run.slice,
        zone=run.zone,
        accelerator_type=run.accelerator_type,
        runtime_version=run.versions.get(RUNTIME),
        versions=status.versions,
        spot=run.spot,
        argv=run.job.argv,
        env=run.job.env,
        code_hash=run.code_hash,
        state=str(status.state),
        cause=status.cause,
        attempt=status.attempt,
        restarts=status.restarts,
        started=status.started,
        ended=status.ended,
        workers=workers,
        notes=status.notes_without_findings,
        cores_expected=run.cores_expected,
        findings=status.findings,
        first_failure=status.first_failure,
    )


def summary_of_run(
    directory: RunDirectory, *, dialects: Sequence[Dialect] = (), thresholds: Mapping[str, float] | None = None
) -> Summary:
    """Read a run's record and logs and summarize them; `dialects` are the user's own."""
    reader = RunReader(directory, dialects=dialects, thresholds=thresholds, steps=True)
    while reader.poll():
        pass
    return summarize(facts_of_run(status_of(directory)), reader.snapshot())


def title_of(source: RunDirectory | SavedLog) -> str:
    """Return the title of a report: the run's ID, or the log's file name."""
    return source.id if isinstance(source, RunDirectory) else PurePosixPath(source.name).name


def source_of(source: RunDirectory | SavedLog) -> str:
    """Return what identifies a report's source: the run's ID, or a log's name with a hash of its path."""
    if isinstance(source, RunDirectory):
        return source.id
    location = source.name if source.name.startswith("gs://") else str(source.path.resolve())
    return f"{title_of(source)}:{hashlib.sha256(location.encode()).hexdigest()[:12]}"


def summary_of_log(log: SavedLog) -> Summary:
    """Summarize the readable part of a saved log; a read problem becomes a remark."""
    snapshot = log.snapshot(steps=True)
    summary = summarize(RunFacts(title=title_of(log), is_run=False, source=source_of(log)), snapshot)
    if log.problem is None:
        return summary
    return replace(summary, remarks=(f"{log.problem.sentence}.", *summary.remarks))
