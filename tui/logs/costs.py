"""What stragglers cost: how much faster the whole pod would be at everybody else's pace."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tui.logs.arrays import np
from tui.logs.series import History, median_of
from tui.logs.snapshot import CoreState, Snapshot, json_figure, optional_int

RECENT = 5
"""Points of a core's history that tell its present pace: one slow sample among them does not change their median."""


@dataclass(frozen=True, slots=True)
class StragglerCost:
    """One core that is behind, and what a pod that waits for it loses; None where the log does not tell."""

    core: int | None
    worker: int | None
    address: str | None
    lag: int | None
    pace: float | None
    """Its speed as a share of the median core's."""
    share: float | None
    """The share of the pod's time that goes into waiting for it, 0 to 1."""
    seconds_per_step: float | None
    """Seconds more that every step takes because of it."""

    def to_json(self) -> dict[str, Any]:
        """The core as `status --json` and reports print it."""
        return {name: json_figure(getattr(self, name)) for name in self.__slots__}


def straggler_costs(snapshot: Snapshot) -> tuple[StragglerCost, ...]:
    """The stragglers, the dearest first.

    A pod whose cores wait for each other runs at its slowest core's pace. Where they do, nobody's own rate shows it
    and nobody falls behind; a core that does fall behind tells its pace by its rate against the median of the same
    moments, or, where it prints no rate, by how many lines it has printed against the median.
    """
    behind = np.flatnonzero(snapshot.state == CoreState.STRAGGLER)
    if not len(behind):
        return ()
    step, median = seconds_per_step(snapshot), _Median(snapshot)
    costs = [_cost(snapshot, int(place), step, median) for place in behind]
    return tuple(sorted(costs, key=lambda cost: (-(cost.share or 0.0), -(cost.lag or 0))))


def _cost(snapshot: Snapshot, place: int, step: float | None, median: _Median) -> StragglerCost:
    pace = median.pace(place)
    slower = None if pace is None or not 0 < pace < 1 else pace
    lag = float(snapshot.lag[place])
    return StragglerCost(
        core=optional_int(snapshot.core[place]),
        worker=optional_int(snapshot.worker[place]),
        address=snapshot.address_of(place),
        lag=None if np.isnan(lag) else int(lag),
        pace=pace,
        share=None if slower is None else 1 - slower,
        seconds_per_step=None if slower is None or step is None else step * (1 / slower - 1),
    )


class _Median:
    """The median core of a snapshot, to compare others with."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._history = snapshot.history
        self._rows = snapshot.row

    def pace(self, place: int) -> float | None:
        """How fast one of the snapshot's rows is, as a share of the median; None where nothing tells it."""
        if self._history is None:
            return None
        row = int(self._rows[place])
        return self._by_rate(self._history, row) or self._by_lines(self._history, row)

    def _by_rate(self, history: History, row: int) -> float | None:
        # The very first sample holds the compilation, which every core pays differently.
        own, others = history.recent_rates(row, self._rows, RECENT)
        median = median_of(others)
        known = np.isfinite(own) & np.isfinite(median) & (median > 0)
        pace = float(np.median(own[known] / median[known])) if known.any() else 1.0
        return pace if pace < 1 else None

    def _by_lines(self, history: History, row: int) -> float | None:
        rows = self._rows[self._rows < len(history.counts)]
        median = float(np.median(history.counts[rows])) if len(rows) else 0.0
        # A core that has just come (back), on another worker perhaps, has printed few lines and is not slow.
        told = int(history.counts[row]) if row < len(history.counts) else 0
        return told / median if median > 0 and told >= RECENT else None


def seconds_per_step(snapshot: Snapshot) -> float | None:
    """Seconds that the pod's newest steps took, from the times of its lines; None where they tell none."""
    if snapshot.history is None or not len(snapshot):
        return None
    pod = snapshot.history.pod(snapshot.row)
    steps, seconds = np.diff(pod.step), np.diff(pod.time)
    good = (np.diff(pod.epoch) == 0) & (steps > 0) & (seconds > 0) & (pod.step[:-1] >= 0)
    if not good.any():
        return None
    return float(seconds[good][-RECENT:].sum() / steps[good][-RECENT:].sum())
