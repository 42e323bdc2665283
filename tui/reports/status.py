"""A run's state and figures in one document: what `status` and `runs` print."""

from __future__ import annotations

from typing import Any

from tui.logs.costs import straggler_costs
from tui.logs.snapshot import Snapshot, json_figure
from tui.reports.summary import told_loss
from tui.runs.status import RunStatus


def status_document(status: RunStatus, snapshot: Snapshot | None) -> dict[str, Any]:
    """The names that `status --json` and `runs --json` print; figures are None where no log was read."""
    spread = told_loss(snapshot) if snapshot is not None else None
    return {
        "run": status.run.id,
        "slice": status.run.slice,
        "state": str(status.state),
        "attended": status.attended.alive,
        "exit_codes": list(status.exit_codes),
        "started": status.started,
        "ended": status.ended,
        "epoch": snapshot.median_epoch if snapshot is not None else None,
        "step": snapshot.median_step if snapshot is not None else None,
        "loss": spread.to_json() if spread else None,
        "rate_total": json_figure(snapshot.rate_total) if snapshot is not None else None,
        "cores": len(snapshot) if snapshot is not None else None,
        "stragglers": list(snapshot.stragglers) if snapshot is not None else [],
        "straggler_costs": [cost.to_json() for cost in straggler_costs(snapshot)] if snapshot is not None else [],
        "cause": status.cause,
        "remedy": status.remedy,
        "silent": list(status.silent),
        "attempt": status.attempt,
    }
