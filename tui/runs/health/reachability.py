"""Track which workers of a run are reachable and write, and for how long to retry an unreachable one."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterable
from contextlib import suppress

from tui.aio.timeouts import within
from tui.runs.keeper_timeouts import KeeperTimeouts

RETRY_OTHERS_AFTER_S = 2.0
"""Seconds after which the other workers are retried once one is reached again: the network here may work again."""
SAME_OUTAGE_WINDOW_S = 60.0
"""Workers lost within this many seconds were lost together, perhaps because of this machine's network."""


class Reachability:
    """Tracks every worker's connection. Times are those of the event loop's clock, in seconds.

    A worker is unreachable from the first session that failed until it answers again. `limit_s` bounds every wait.
    """

    def __init__(self, timeouts: KeeperTimeouts) -> None:
        self.limit_s = math.inf
        self._gone_reason: str | None = None
        self._gone: frozenset[int] = frozenset()
        self._timeouts = timeouts
        self._last_seen: dict[int, float] = {}
        self._grown: dict[int, float] = {}
        self._out: dict[int, float] = {}
        self._ended: set[int] = set()
        self._live: set[int] = set()
        """The workers that have been reached, are not out and have not ended."""
        self._retries = 0
        """How often all lost workers were retried because another one had returned."""
        self._next_retry: asyncio.TimerHandle | None = None
        self._change = asyncio.Event()
        self._new_patience = asyncio.Event()
        """Wakes the workers that wait for a retry, of which there may be thousands, so not at every change."""

    def mark_reachable(self, worker: int) -> None:
        """Note that the worker answered, or that bytes of its log arrived."""
        self._last_seen[worker] = _now()
        if worker in self._live:
            return
        if worker not in self._ended:
            self._live.add(worker)
        if self._out.pop(worker, None) is not None:
            _wake_all(self._change)
            if self._next_retry is None:
                self._next_retry = asyncio.get_running_loop().call_later(RETRY_OTHERS_AFTER_S, self._retry_others)

    def _retry_others(self) -> None:
        self._next_retry = None
        self._retries += 1
        _wake_all(self._new_patience)

    def mark_unreachable(self, worker: int) -> bool:
        """Note that a session with the worker failed; return whether it was reachable before."""
        if worker in self._out:
            return False
        self._out[worker] = _now()
        self._live.discard(worker)
        self._notify()
        return True

    def mark_grown(self, worker: int) -> None:
        """Note that bytes of the worker's log were written to its mirror."""
        self._grown[worker] = _now()

    def mark_ended(self, worker: int) -> None:
        """Note that nothing more is expected of the worker: its part has ended, or it was given up."""
        self._ended.add(worker)
        self._live.discard(worker)
        self._notify()

    def give_up(self, why: str | None, workers: Iterable[int] = ()) -> None:
        """Note why the unreachable workers, or only those named, will never return (None: they may return)."""
        if (why, frozenset(workers)) != (self._gone_reason, self._gone):
            self._gone_reason, self._gone = why, frozenset(workers)
            _wake_all(self._new_patience)

    def gone_reason(self, worker: int) -> str | None:
        """Return why a worker will never return; None if that is not known."""
        return self._gone_reason if not self._gone or worker in self._gone else None

    def has_ended(self, worker: int) -> bool:
        """Return whether nothing more is expected of the worker."""
        return worker in self._ended

    def is_unreachable(self, worker: int) -> bool:
        """Return whether the worker cannot be reached now."""
        return worker in self._out

    def seconds_unreachable(self, worker: int) -> float:
        """Return the seconds since the worker was lost, 0 while it is reachable."""
        return _now() - self._out[worker] if worker in self._out else 0.0

    def seconds_silent(self, worker: int) -> float:
        """Return the seconds since a worker wrote or this was first called; 0 for an unreachable worker.

        The time begins anew once an unreachable worker is reached again.
        """
        now = _now()
        if self.is_unreachable(worker):
            self._grown[worker] = now
        return now - self._grown.setdefault(worker, now)

    @property
    def all_unreachable(self) -> list[int]:
        """Return the unreachable workers in the order of their loss, including those given up."""
        return sorted(self._out, key=lambda worker: self._out[worker])

    @property
    def unreachable(self) -> list[int]:
        """Return the unreachable workers that are still retried."""
        return [worker for worker in self.all_unreachable if worker not in self._ended]

    def patience_for(self, worker: int) -> float:
        """Return for how many seconds a worker may stay unreachable before it is given up.

        While the session of another worker is open, only `limit_s` counts. If others answered after this one was
        lost, so that the network here works, the limit is `gone_after`; if all were lost together, `lost_after`.
        """
        if self.gone_reason(worker) is not None:
            return 0.0
        if len(self._live) > (worker in self._live):
            return self.limit_s
        timeouts = self._timeouts
        window = min(SAME_OUTAGE_WINDOW_S, timeouts.gone_after)
        since = self._out.get(worker, math.inf)
        network_works = any(
            seen > since and not (other in self._out and abs(self._out[other] - since) < window)
            for other, seen in self._last_seen.items()
            if other != worker
        )
        return min(self.limit_s, timeouts.gone_after if network_works else timeouts.lost_after)

    async def wait_before_retry(self, worker: int, seconds: float) -> bool:
        """Wait before a lost worker is retried; return False to give it up.

        A change of the limit takes effect at once. When the limit is reached, there is one last try.
        """
        if self.seconds_unreachable(worker) >= self.patience_for(worker):
            return False
        until, retries = _now() + seconds, self._retries
        while True:
            remaining = min(until - _now(), self.patience_for(worker) - self.seconds_unreachable(worker))
            if remaining <= 0 or self._retries > retries:
                return True
            await _wait_for(self._new_patience, remaining)

    async def wait_for_change(self, timeout: float | None = None) -> None:
        """Wait until a worker is lost, comes back or ends, for at most `timeout` seconds."""
        await _wait_for(self._change, timeout)

    def _notify(self) -> None:
        """Report that a worker was lost or has ended; while others are live, that changes no patience."""
        _wake_all(self._change)
        if not self._live:
            _wake_all(self._new_patience)


async def _wait_for(change: asyncio.Event, timeout: float | None) -> None:
    """Wait until the next `_wake_all`, for at most `timeout` seconds."""
    with suppress(asyncio.TimeoutError):
        await within(change.wait(), timeout)


def _wake_all(change: asyncio.Event) -> None:
    change.set()
    change.clear()


def _now() -> float:
    return asyncio.get_running_loop().time()
