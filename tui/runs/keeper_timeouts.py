"""Timeouts of a run's keeper."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

_LONGEST_PAUSE_S = 300.0
_MOST_DOUBLINGS = 16
_SECONDS = "_seconds"


@dataclass(frozen=True)
class KeeperTimeouts:
    """Timeouts of a keeper in seconds, not counting the time that its machine is suspended.

    A profile's `[thresholds]` sets each by its name and `_seconds`: `lost_after_seconds = 3600`.
    """

    drain: float = 5.0
    """Wait after the first failure that is seen: news of an earlier one may still arrive."""
    lost_after: float = 6 * 3600.0
    """A worker that is unreachable for so long is given up as lost while no other worker of the run is reachable."""
    gone_after: float = 1800.0
    """The same if other workers were reached later (so the network here works) and all of them have ended."""
    answer: float = 5.0
    """Wait beyond a launch's lease for a worker's last answer."""
    restart_pause: float = 5.0
    """Pause before the first restart; it doubles with each further one, up to five minutes."""
    ask_after: float = 10.0
    """After so long without a worker, the keeper queries the Cloud TPU API for the state of the slice."""
    stalled_after: float = 600.0
    """A worker that writes nothing for so long is reported as silent: it may hang."""
    behind_after: float = 120.0
    """A core that is behind the others (threshold `straggler`) for so long is reported."""
    newer_acts: float = 180.0
    """A newer keeper on another machine has so long to act on a failure, the grace of its stop included."""

    @classmethod
    def from_thresholds(cls, values: Mapping[str, float]) -> KeeperTimeouts:
        """Return the timeouts that a profile's thresholds set."""
        return cls(
            **{name: values[name + _SECONDS] for name in cls.__dataclass_fields__ if name + _SECONDS in values}
        )

    def pause_before(self, attempt: int) -> float:
        """Return the pause before that attempt (the first restart is attempt 1)."""
        return float(min(self.restart_pause * 2 ** min(attempt - 1, _MOST_DOUBLINGS), _LONGEST_PAUSE_S))
