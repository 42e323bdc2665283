"""The ladder of slice sizes, from the runs that this home knows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tui.pod.run import RunState

if TYPE_CHECKING:
    from tui.logs.snapshot import Snapshot
    from tui.operator.runs import Operator
    from tui.planning.scaling_ladder import Finished, Ladder
    from tui.runs.record.run_directory import RunDirectory


@dataclass(frozen=True)
class Climb:
    """The ladders, and the runs that stand on none with the reason why."""

    ladders: tuple[Ladder, ...]
    left_out: tuple[tuple[str, str], ...]


async def climb(operator: Operator, refs: Sequence[str] = ()) -> Climb:
    """Hold the runs against each other by slice size; without names all that have ended.

    Raises UsageError for a name that means no run.
    """
    from tui.planning.scaling_ladder import is_comparable, ladders

    directories = [await operator.find_run(ref) for ref in refs]
    named = directories or [operator.directory_of(status) for status in reversed(operator.runs())]
    finished: list[Finished] = []
    left_out: list[tuple[str, str]] = []
    for directory in named:
        if not operator.status_of(directory).state.is_over:
            left_out.append((directory.id, "it has not ended"))
            continue
        run = await _finished(operator, directory)
        if is_comparable(run):
            finished.append(run)
        else:
            left_out.append((run.run, "how many cores it had is not known"))
    return Climb(ladders(finished), tuple(left_out))


async def _finished(operator: Operator, directory: RunDirectory) -> Finished:
    from tui.planning.scaling_ladder import Finished

    run = directory.run
    snapshot = await operator.snapshot(directory)
    each = run.cores_per_worker
    return Finished(
        run.id,
        run.accelerator_type,
        operator.status_of(directory).state is RunState.SUCCEEDED,
        steady_rate(snapshot),
        each * len(run.workers) if each else len(snapshot) or None,
    )


def steady_rate(snapshot: Snapshot) -> float | None:
    """Examples/s of the whole slice over as long a time as the job tells of: a last step's rate says little.

    The job's own average where it told one, else the cores' averages since their epoch began, else their rates.
    """
    told = snapshot.facts.get("average_global_rate")
    if told is not None:
        return float(told)
    averages = snapshot.global_rate[~np.isnan(snapshot.global_rate)]
    if len(averages) and len(averages) == len(snapshot):
        return float(averages.sum())
    return snapshot.rate_total
