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
    """Wait after a failure is first seen: the report of an earlier one may still arrive."""
    lost_after: float = 6 * 3600.0
    """A worker that is unreachable for this long while no other one is reachable is given up as lost."""
    gone_after: float = 1800.0
    """The same if others were reached after it was lost (so the network here works) and all of them have ended."""
    answer: float = 5.0
    """Wait beyond a launch's lease for a worker's last answer."""
    restart_pause: float = 5.0
    """Pause before the first restart; it doubles with each further one, up to five minutes."""
    ask_after: float = 10.0
    """Once a worker is unreachable for this long, the keeper queries the Cloud TPU API for the state of the slice."""
    stalled_after: float = 600.0
    """A worker that writes nothing for this long is reported as silent: it may hang."""
    behind_after: float = 120.0
    """A core that is behind the others (threshold `straggler`) for this long is reported."""
    newer_acts: float = 180.0
    """Time for a newer keeper on another machine to act on a failure, the grace of its stop included."""

    @classmethod
    def from_thresholds(cls, values: Mapping[str, float]) -> KeeperTimeouts:
        """Return the defaults with the timeouts that a profile's thresholds set."""
        return cls(
            **{name: values[name + _SECONDS] for name in cls.__dataclass_fields__ if name + _SECONDS in values}
        )

    def pause_before(self, attempt: int) -> float:
        """Return the pause in seconds before an attempt (the first restart is attempt 1)."""
        return float(min(self.restart_pause * 2 ** min(attempt - 1, _MOST_DOUBLINGS), _LONGEST_PAUSE_S))
