"""Find the cores that hold the others up: those behind, and slow ones that still keep step with the others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tui.logs._compat_numpy import Bools, Floats, Ints, np, places_of
from tui.logs.history.history import median_of
from tui.logs.state.rate_kinds import Kinds, compares
from tui.logs.state.recent_rates import Rates, RecentRates

LASTING_S = 2.0
"""Least seconds by which a core is behind: the lines of workers arrive in turns, and in between many seem late."""

PACE_SAMPLES = 5
"""Newest samples whose median is a core's pace, so that a single slow one does not change it."""

_LEAST = 2
"""Fewest cores whose median one of them is compared with."""


@dataclass(frozen=True)
class CoreThresholds:
    """When a core counts as behind, slow or silent."""

    straggler: float = 3.0
    """Lines behind the median core, if these take at least `LASTING_S` seconds."""
    slow_pace: float = 0.8
    """Share of the median core's rate; a core at or below it for `slow_samples` is slow."""
    slow_samples: float = 20.0
    """Consecutive samples for which a core must be slow."""
    silent: float = 120.0
    """Seconds without a line of the core, or a few usual intervals between its lines if that is longer."""

    @classmethod
    def from_settings(cls, values: Mapping[str, float]) -> CoreThresholds:
        """Return the thresholds of a profile's `[thresholds]`, which also holds others."""
        return cls(**{name: float(values[name]) for name in cls.__dataclass_fields__ if name in values})


def find_behind(lag: Floats, usual: float, stride: int, thresholds: CoreThresholds) -> Bools:
    """Return which cores are more than `straggler` lines, and at least `LASTING_S` seconds, behind the median core.

    `usual` is the usual number of seconds between two lines of a core (NaN unknown), `stride` their steps.
    """
    lines = lag / stride
    late: Bools = lines > thresholds.straggler
    if usual > 0:
        late &= lines * usual >= LASTING_S
    return late


def measure_paces(
    recent: RecentRates, rows: Ints, kinds: Kinds, counting: Bools, thresholds: CoreThresholds
) -> tuple[Floats, Bools]:
    """Return each core's rate as a share of the median core's (NaN unknown), and which cores are slow.

    The newest samples of the cores are compared one by one back in time, so that a pause of all, for an evaluation or
    a compilation, makes no core slow. The median is over the `counting` rows, separately for each kind of rate.
    """
    pace, slow = np.full(len(rows), np.nan), np.zeros(len(rows), bool)
    for kind in sorted(set(kinds[compares(kinds)].tolist())):
        indices = places_of(kinds == kind)
        mine, counts = rows[indices], counting[indices]
        medians = median_of(_ratios(recent.newest(mine, PACE_SAMPLES), counts).T)
        pace[indices] = medians
        if (medians <= thresholds.slow_pace).any():
            ratios = _ratios(recent.newest(mine, recent.depth), counts)
            slow[indices] = (ratios <= thresholds.slow_pace).all(axis=0)
    return pace, slow


def _ratios(rates: Rates, counting: Bools) -> Floats:
    """Return rates, one line for each moment, as shares of the median at that moment; NaN without a median.

    Of two in the middle, the faster is the median: no core has a pace between them.
    """
    among = rates[:, counting]
    medians = median_of(among, of_two_higher=True)
    medians[(np.count_nonzero(np.isfinite(among), axis=1) < _LEAST) | ~(medians > 0)] = np.nan
    ratios: Floats = rates / medians[:, None]
    return ratios
