"""Who holds the others up: cores that are behind, and slow ones that keep step with the others all the same."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tui.logs._compat_numpy import Bools, Floats, Ints, np, places_of
from tui.logs.history.history import median_of
from tui.logs.state.rate_kinds import Kinds, compares
from tui.logs.state.recent_rates import Rates, RecentRates

LASTING = 2.0
"""Seconds that a core is behind at least: workers' lines come in turns, and between them many seem late."""

PACE_SAMPLES = 5
"""Newest samples that a core's pace is the median of: one slow one among them does not change it."""

_LEAST = 2
"""Cores that make a median to compare one of them with."""


@dataclass(frozen=True)
class CoreThresholds:
    """When a core counts as behind, slow or silent."""

    straggler: float = 3.0
    """Lines behind the median core, if they take at least `LASTING` seconds at its pace."""
    slow_pace: float = 0.8
    """Share of the median core's rate: one that is no faster for `slow_samples` is slow."""
    slow_samples: float = 20.0
    """Samples in a row for which a core has to be slow."""
    silent: float = 120.0
    """Seconds without a line of its own; where a core's lines are rarer, a few of them."""

    @classmethod
    def from_settings(cls, values: Mapping[str, float]) -> CoreThresholds:
        """Return the profile's `[thresholds]`; names of other parts are left aside."""
        return cls(**{name: float(values[name]) for name in cls.__dataclass_fields__ if name in values})


def behind(lag: Floats, usual: float, smallest_step: int, thresholds: CoreThresholds) -> Bools:
    """Return which cores are more than `straggler` lines, and at least `LASTING` seconds, behind the median core.

    `usual` are the seconds that lie between two lines of a core (NaN unknown), `lag` is in steps.
    """
    lines = lag / max(1, smallest_step)
    late: Bools = lines > thresholds.straggler
    if usual > 0:
        late &= lines * usual >= LASTING
    return late


def paces(
    recent: RecentRates, rows: Ints, kinds: Kinds, counting: Bools, thresholds: CoreThresholds
) -> tuple[Floats, Bools]:
    """Return each core's own rate as a share of the median core's (NaN unknown), and which cores are slow.

    Compared are the newest samples of each, one by one back in time, so that a pause of all for an evaluation, or a
    compilation, slows no core. `counting` says which rows make the median; rates of different kinds have one each.
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
    """Return rates (a row for each moment) as shares of the median of each moment; NaN where there is none.

    Of two in the middle the faster one is the median: between them would be a pace that no core has.
    """
    among = rates[:, counting]
    medians = median_of(among, of_two_higher=True)
    medians[(np.count_nonzero(np.isfinite(among), axis=1) < _LEAST) | ~(medians > 0)] = np.nan
    ratios: Floats = rates / medians[:, None]
    return ratios
