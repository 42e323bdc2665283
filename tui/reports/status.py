"""The document with a run's state and figures that `status` and `runs` print."""

from __future__ import annotations

import time
from dataclasses import asdict
from typing import Any

from tui.logs.core_row import json_figure
from tui.logs.snapshot import Snapshot
from tui.logs.state.missing_cores import MissingCores, missing_cores
from tui.reports.findings import findings_of_run, open_cores, straggler_rows
from tui.runs.record.run_status import RunStatus
from tui.runs.record.versions import all_versions


def status_document(
    status: RunStatus, snapshot: Snapshot | None, newest_arrival: float | None = None
) -> dict[str, Any]:
    """Return what `status --json` and `runs --json` print; figures are None where no log was read.

    `cores` counts what `cores_are`: `core`, or `worker` where no line names a core.
    `newest_arrival` is when the newest byte of the run's logs arrived (Unix time).
    """
    spread = snapshot.loss_spread if snapshot is not None else None
    findings = findings_of_run(status, snapshot)
    missing = missing_of_run(status, snapshot)
    return {
        "run": status.run.id,
        "slice": status.run.slice,
        "state": str(status.state),
        "attended": status.attended.alive,
        "keeper": status.attended.to_json(),
        "unreachable": unreachable(status),
        "figures_age_s": figures_age(status, newest_arrival),
        "exit_codes": list(status.exit_codes),
        "started": status.started,
        "ended": status.ended,
        "epoch": snapshot.median_epoch if snapshot is not None else None,
        "step": snapshot.median_step if snapshot is not None else None,
        "progress": _progress(status, snapshot),
        "loss": spread.to_json() if spread else None,
        "rate_total": json_figure(snapshot.rate_total) if snapshot is not None else None,
        "rate_median": json_figure(snapshot.rate_median) if snapshot is not None else None,
        "rate_unit": snapshot.rate_unit if snapshot is not None else None,
        "rate_source": snapshot.rate_source if snapshot is not None else None,
        "data_wait_share": json_figure(snapshot.data_wait_share) if snapshot is not None else None,
        "cores": len(snapshot) if snapshot is not None else None,
        "cores_are": snapshot.noun if snapshot is not None else None,
        "cores_expected": status.run.cores_expected,
        "missing_cores": list(missing.cores),
        "missing_on_workers": list(missing.workers),
        "stragglers": open_cores(findings),
        "straggler_costs": straggler_rows(findings, snapshot),
        "nan_cores": open_cores(findings, is_loss=True) if snapshot is None else list(snapshot.nan_cores),
        "findings": [finding.to_json() for finding in findings],
        "cause": status.cause,
        "remedy": status.remedy,
        "silent": list(status.silent),
        "attempt": status.attempt,
        "restarts": [asdict(restart) for restart in status.restarts],
        "versions": all_versions(status.run, status.versions),
        "spot": status.run.spot,
    }


def _progress(status: RunStatus, snapshot: Snapshot | None) -> dict[str, Any] | None:
    """Return how far the run has come, and the time that a live run needs; None if no total is known."""
    progress = None if snapshot is None else snapshot.progress
    if snapshot is None or progress is None:
        return None
    return {
        "epochs": progress.epochs,
        "steps": progress.steps,
        "share": json_figure(progress.share),
        "share_of": progress.of,
        "seconds_left": None if status.state.is_over else json_figure(snapshot.seconds_left()),
    }


def missing_of_run(status: RunStatus, snapshot: Snapshot | None) -> MissingCores:
    """Return the cores of a run's slice from which no line has come."""
    run = status.run
    if snapshot is None or not len(snapshot):
        return MissingCores()
    return missing_cores(snapshot, run.cores_expected, len(run.workers), is_over=status.state.is_over)


def unreachable(status: RunStatus) -> list[dict[str, Any]]:
    """Return the unreachable workers, each with the time its connection was lost (RFC 3339)."""
    lost = (worker for worker in status.workers if worker.link == "lost" and not worker.ended)
    return [{"worker": worker.worker, "since": worker.link_since} for worker in lost]


def figures_age(status: RunStatus, newest_arrival: float | None) -> float | None:
    """Return the seconds since the newest byte of a live run's logs; None for an ended run or empty logs."""
    if status.state.is_over or newest_arrival is None:
        return None
    return round(max(0.0, time.time() - newest_arrival), 1)
