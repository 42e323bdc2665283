"""How runs scale over slice sizes, from the runs that this home knows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tui.logs.snapshot import Snapshot
from tui.operator.logs import Logs
from tui.operator.runs import Runs
from tui.planning.scaling_ladder import Finished, Ladder, is_comparable, ladders
from tui.pod.run import RunState
from tui.runs.record.run_directory import RunDirectory


@dataclass(frozen=True)
class ScalingReport:
    """The scaling ladders, and the runs that are on none, each with the reason."""

    ladders: tuple[Ladder, ...]
    left_out: tuple[tuple[str, str], ...]


async def report_scaling(runs: Runs, logs: Logs, refs: Sequence[str]) -> ScalingReport:
    """Compare runs by slice size; without `refs`, all that have ended. Raises UsageError for an unknown run."""
    named = [await runs.find(ref) for ref in refs]
    directories = named or [runs.directory_of(status) for status in reversed(runs.list_statuses())]
    finished: list[Finished] = []
    left_out: list[tuple[str, str]] = []
    for directory in directories:
        state = runs.status_of(directory).state
        if not state.is_over:
            left_out.append((directory.id, "it has not ended"))
            continue
        run = await _finished(directory, state, logs)
        if is_comparable(run):
            finished.append(run)
        else:
            left_out.append((run.run, "its number of cores is unknown"))
    return ScalingReport(ladders(finished), tuple(left_out))


async def _finished(directory: RunDirectory, state: RunState, logs: Logs) -> Finished:
    run = directory.run
    snapshot = await logs.snapshot(directory)
    each = run.cores_per_worker
    return Finished(
        run.id,
        run.accelerator_type,
        state is RunState.SUCCEEDED,
        steady_rate(snapshot),
        each * len(run.workers) if each else len(snapshot) or None,
    )


def steady_rate(snapshot: Snapshot) -> float | None:
    """Return the rate of the whole slice (examples/s), averaged over as long a time as the log allows.

    That is the job's own average where it printed one, else the cores' averages since their epoch began, else the
    sum of their newest rates.
    """
    average = snapshot.facts.get("average_global_rate")
    if average is not None:
        return float(average)
    averages = snapshot.global_rate[~np.isnan(snapshot.global_rate)]
    if len(averages) and len(averages) == len(snapshot):
        return float(averages.sum())
    return snapshot.rate_total
