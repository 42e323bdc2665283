"""Check the workers at the beginning of a launch, over the connections that the launch then uses."""

from __future__ import annotations

from collections.abc import Sequence

from tui.checks.before_launch import before_launch
from tui.checks.grouped_rows import CheckFinding, digest
from tui.checks.workers.check_facts import Ask, Facts
from tui.errors import LaunchError
from tui.runs.launch.job_script import job_text
from tui.runs.launch.launch_spec import LaunchSpec, Preflight
from tui.runs.record.run_directory import RunDirectory
from tui.runs.worker.version_query import record_versions
from tui.ssh.fleet import Fleet


async def run_preflight(directory: RunDirectory, spec: LaunchSpec, wanted: Preflight, fleet: Fleet, ask: Ask) -> None:
    """Check that the launch can work; record warnings and failures as notes. Raises LaunchError when a check fails.

    `ask` makes a call on a worker, in the session in which its launch then continues.
    """
    run = spec.run
    by_index = {worker.index: worker for worker in run.workers}
    facts: list[Facts] = []
    checks = before_launch(
        wanted.slice_of(run),
        fleet,
        thresholds=wanted.thresholds,
        run_root=run.run_root,
        runtime=run.job.runtime,
        job=(lambda index: job_text(run, by_index[index], spec.env)) if wanted.versions else None,
        ask=ask,
        collected=facts,
    )
    rows = [row async for row in checks if row.prevents_launch or row.status == "warn"]
    record_versions(directory, facts)
    if not rows:
        return
    summary = digest(rows)
    for finding in summary.findings:
        directory.append_event("note", text=finding.sentence, remedy=finding.remedy)
    for row in rows:
        if row.prevents_launch and row.worker is not None:
            detail = f"{row.check}: {row.detail}"
            remedy = row.remedy or ""
            directory.append_event(
                "phase", worker=row.worker, phase="check", status="failed", detail=detail, remedy=remedy
            )
    if not summary.ok:
        raise failed_checks_error(summary.findings)


def failed_checks_error(findings: Sequence[CheckFinding]) -> LaunchError:
    """Return the error of a launch that is refused: the findings, the worst first."""
    failed = sum(finding.status == "fail" for finding in findings)
    conflicts = [finding for finding in findings if finding.status == "fail" and finding.check in ("runs", "device")]
    return LaunchError(
        "a check of the launch failed" if failed == 1 else f"{failed} checks of the launch failed",
        why=findings[0].sentence,
        # Without checks, a worker whose chips are in use refuses the launch, too.
        remedy=(conflicts[0].remedy or "fix that") if conflicts else "fix that, or launch anyway with --skip-checks",
    )
