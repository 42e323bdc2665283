"""What stragglers cost: how much faster the whole pod would be at the other cores' pace."""

from __future__ import annotations

from typing import Any, NamedTuple

from tui.logs._compat_numpy import np
from tui.logs.snapshot import Snapshot, json_figure, optional_int

RECENT = 5
"""Lines of a core that its pace is measured by."""
RECENT_STEPS = 20
"""Newest steps of the pod that the length of a step is measured by."""


class StragglerCost(NamedTuple):
    """One core that holds the others up, and what a pod that waits for it loses; None: unknown."""

    core: int | None
    worker: int | None
    address: str | None
    lag: int | None
    reason: str
    """`behind` the others, or `slow` though it keeps step."""
    steps_behind: int | None
    pace: float | None
    """Its speed as a share of the median core's."""
    share: float | None
    """The share of the pod's time that goes into waiting for it, 0 to 1."""
    seconds_per_step: float | None
    """Seconds that each step takes longer, or would if all waited for it."""

    def to_json(self) -> dict[str, Any]:
        """Return the core as `status --json` and reports print it."""
        return {name: json_figure(value) for name, value in self._asdict().items()}


def straggler_costs(snapshot: Snapshot) -> tuple[StragglerCost, ...]:
    """Return the stragglers, the most expensive first.

    A pod whose cores wait for each other runs at its slowest core's pace. A straggler's pace is its rate
    against the median of the same moments, or, where that is unknown, the lines it has printed against the
    median. Once all cores have ended, those that were stragglers then are reported.
    """
    indices = np.flatnonzero(snapshot.straggling)
    if not len(indices):
        return ()
    step, median_lines = seconds_per_step(snapshot), _median_lines(snapshot)
    costs = [_cost(snapshot, int(index), step, median_lines) for index in indices]
    return tuple(sorted(costs, key=lambda cost: (-(cost.share or 0.0), -(cost.lag or 0))))


def _cost(snapshot: Snapshot, index: int, step: float | None, median_lines: float) -> StragglerCost:
    measured = float(snapshot.pace[index])
    pace = measured if measured < 1 else _pace_by_lines(snapshot, index, median_lines)
    slower = None if pace is None or not 0 < pace < 1 else pace
    lag = float(snapshot.lag[index])
    steps = None if np.isnan(lag) else int(lag)
    is_behind = bool(snapshot.behind[index])
    return StragglerCost(
        core=optional_int(snapshot.core[index]),
        worker=optional_int(snapshot.worker[index]),
        address=snapshot.address_of(index),
        lag=steps,
        reason="behind" if is_behind else "slow",
        steps_behind=None if steps is None else max(0, steps),
        pace=pace,
        share=None if slower is None else 1 - slower,
        seconds_per_step=None if slower is None or step is None else _seconds_lost(step, slower, is_behind=is_behind),
    )


def _seconds_lost(step: float, pace: float, *, is_behind: bool) -> float:
    """Return the seconds of each step that are waited for a core; where it keeps step, they are part of the step."""
    return step * (1 / pace - 1) if is_behind else step * (1 - pace)


def _median_lines(snapshot: Snapshot) -> float:
    """Return how many lines the median core has printed, of two in the middle the one with more; 0 if unknown."""
    return float(np.sort(snapshot.history.counts[snapshot.row])[len(snapshot) // 2]) if snapshot.history else 0.0


def _pace_by_lines(snapshot: Snapshot, index: int, median: float) -> float | None:
    """Return how many lines a core has printed, as a share of the median; None where that shows nothing."""
    if snapshot.history is None or median <= 0:
        return None
    # A core that has just come (back), on another worker perhaps, has printed few lines and is not slow.
    lines = int(snapshot.history.counts[int(snapshot.row[index])])
    return lines / median if lines >= RECENT else None


def seconds_per_step(snapshot: Snapshot) -> float | None:
    """Return the seconds that the pod's newest steps took, from the first line of each step; None if unknown.

    Steps of before a restart of the job do not count: its pause took none.
    """
    if snapshot.history is None or not len(snapshot):
        return None
    pod = snapshot.history.pod(snapshot.row)
    newest = (pod.epoch == pod.epoch[-1]) & (pod.step >= 0) & (pod.time > snapshot.history.restarted)
    step, time = pod.step[newest], pod.time[newest]
    first_lines = np.flatnonzero(np.diff(step) > 0)[-RECENT_STEPS:] + 1
    if len(first_lines) < 2 or time[first_lines[-1]] <= time[first_lines[0]]:
        return None
    return float(np.ptp(time[first_lines]) / np.ptp(step[first_lines]))
