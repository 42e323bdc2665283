"""The cost of stragglers: how much faster the whole pod would be at the pace of the other cores."""

from __future__ import annotations

from typing import Any, NamedTuple

from tui.logs._compat_numpy import np
from tui.logs.core_row import json_figure, optional_int
from tui.logs.snapshot import Snapshot
from tui.logs.state.progress import newest_count

AS_FAST = 0.95
"""Share of the median pace from which a core that is behind has no slower steps: it stopped, or ended earlier."""
LEAST_LINES = 5
"""Fewest lines of a core from which its pace is measured."""
RECENT_STEPS = 20
"""Newest steps of the pod from which the length of a step is measured."""


class StragglerCost(NamedTuple):
    """A core that holds the others up, and what the pod loses by waiting for it; None: unknown."""

    core: int | None
    worker: int | None
    address: str | None
    lag: int | None
    reason: str
    """`behind` the others, or `slow` although it keeps step."""
    steps_behind: int | None
    pace: float | None
    """Its speed as a share of the median core's."""
    share: float | None
    """The share of the pod's time that is spent waiting for it, or would be if all cores waited for it, 0 to 1."""
    seconds_per_step: float | None
    """Seconds by which each step is longer, or would be if all cores waited for it."""

    def to_json(self) -> dict[str, Any]:
        """Return the core as `status --json` and reports print it."""
        return {name: json_figure(value) for name, value in self._asdict().items()}


def straggler_costs(snapshot: Snapshot) -> tuple[StragglerCost, ...]:
    """Return the stragglers, the most expensive first.

    A pod whose cores wait for each other runs at the pace of its slowest core. A straggler's pace is its rate as a
    share of the median at the same moments or, if that is unknown or shows no slow core, its lines as a share of the
    median core's. Once all cores have ended, the stragglers at the end are reported.
    """
    indices = np.flatnonzero(snapshot.straggling)
    if not len(indices):
        return ()
    step, median_lines = seconds_per_step(snapshot), _median_lines(snapshot)
    costs = [_cost(snapshot, int(index), step, median_lines) for index in indices]
    return tuple(sorted(costs, key=lambda cost: (-(cost.share or 0.0), -(cost.lag or 0))))


def _cost(snapshot: Snapshot, index: int, step: float | None, median_lines: float) -> StragglerCost:
    measured = float(snapshot.pace[index])
    pace = measured if measured < AS_FAST else _pace_by_lines(snapshot, index, median_lines)
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
    """Return the seconds per step spent waiting for a core; if it keeps step, the steps already include them."""
    return step * (1 / pace - 1) if is_behind else step * (1 - pace)


def _median_lines(snapshot: Snapshot) -> float:
    """Return the number of lines of the median core, of two in the middle the larger; 0 if unknown."""
    return float(np.sort(snapshot.history.counts[snapshot.row])[len(snapshot) // 2]) if snapshot.history else 0.0


def _pace_by_lines(snapshot: Snapshot, index: int, median: float) -> float | None:
    """Return the number of a core's lines as a share of the median; None if that shows nothing."""
    if snapshot.history is None or median <= 0:
        return None
    # A core that has just appeared, or reappeared on another worker, has few lines but is not slow.
    lines = int(snapshot.history.counts[int(snapshot.row[index])])
    return lines / median if lines >= LEAST_LINES else None


def seconds_per_step(snapshot: Snapshot) -> float | None:
    """Return the seconds that the pod's newest steps took, from the first line of each step; None if unknown.

    Steps before a restart of the job do not count, so that its pause is no part of a step; nor do those of earlier
    epochs, which have numbers or end with a step that is never exceeded.
    """
    if snapshot.history is None or not len(snapshot):
        return None
    pod = snapshot.history.pod(snapshot.row)
    newest = (pod.epoch == pod.epoch[-1]) & (pod.step >= 0) & (pod.time > snapshot.history.restarted)
    step, time = pod.step[newest], pod.time[newest]
    if pod.epoch[-1] < 0:
        begin = newest_count(step)
        step, time = step[begin:], time[begin:]
    first_lines = np.flatnonzero(np.diff(step) > 0)[-RECENT_STEPS:] + 1
    if len(first_lines) < 2 or time[first_lines[-1]] <= time[first_lines[0]]:
        return None
    return float(np.ptp(time[first_lines]) / np.ptp(step[first_lines]))
