"""Cores that are behind the others or slower than they, and losses that are no numbers: each told once as a note.

That it is over is told only of a core that is seen to train level with the others while these go on themselves: one
that is not among the newest lines, or whose run ends, has not recovered.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from tui.pod.run import RunState
from tui.runs.health.reachability import Reachability
from tui.runs.keeper_timeouts import KeeperTimeouts
from tui.runs.record.findings import AT_THE_END, BEHIND, LOSS, MOST_FINDINGS, OVER, SLOW, STRAGGLING
from tui.runs.record.log_mirror import record
from tui.runs.record.run_directory import RunDirectory
from tui.runs.record.run_status import status_of
from tui.text.durations import format_duration
from tui.text.ranks import format_ranks, format_workers

if TYPE_CHECKING:
    from tui.logs.snapshot import CoreRow, Snapshot
    from tui.logs.state.straggler_cost import StragglerCost

_DECIMALS = 3


class CoreWatch:
    """What one attempt's cores were found to do; goes on from what an earlier keeper has told."""

    def __init__(self, directory: RunDirectory, reachability: Reachability, timeouts: KeeperTimeouts) -> None:
        self.directory = directory
        self.reachability = reachability
        self.timeouts = timeouts
        self._behind_since: dict[int, float] = {}
        open_ones = [one for one in status_of(directory).findings if one.is_open]
        self._behind = {one.core for one in open_ones if one.is_straggling}
        self._broken = {one.core for one in open_ones if one.kind == LOSS}
        self._median: tuple[int | None, int | None] = (None, None)

    @property
    def has_stragglers(self) -> bool:
        """Whether any core was told as behind or slow and has not recovered."""
        return bool(self._behind)

    async def look(self, snapshot: Snapshot) -> None:
        """Tell what is new in a snapshot; nothing once a stop is under way, when cores end one after the other."""
        state = status_of(self.directory).state
        if state is RunState.STOPPING or state.is_over:
            return
        median = (snapshot.median_epoch, snapshot.median_step)
        goes_on, self._median = median != self._median, median
        await self._look_at_losses(snapshot)
        await self._look_at_lag(snapshot, goes_on=goes_on)

    async def conclude(self, snapshot: Snapshot | None) -> None:
        """Tell how far those were behind at the end that were never level again."""
        lagging = [] if snapshot is None else [row for row in _rows(snapshot, self._behind) if (row.lag or 0) > 0]
        rows = [row for row in lagging if row.worker is None or not self.reachability.is_unreachable(row.worker)]
        if snapshot is None or not rows:
            return
        attempt = status_of(self.directory).attempt
        when = "the run" if not self.directory.run.restarts else f"attempt {attempt + 1}"
        furthest = max(row.lag or 0 for row in rows)
        how_far = f"was {furthest}" if len(rows) == 1 else f"were up to {furthest}"
        text = f"{_named(rows)} {how_far} steps behind when {when} ended"
        await self._note(text, AT_THE_END, rows, found=_paces(rows, _costs(snapshot)))

    async def _look_at_losses(self, snapshot: Snapshot) -> None:
        """Tell the cores whose newest loss is nan or infinite, each once until it is a number again."""
        rows = _broken(snapshot)
        new = [row for row in rows if row.core not in self._broken]
        numbers = [
            row for row in self._level(snapshot, self._broken) if row.loss is not None and math.isfinite(row.loss)
        ]
        self._broken = (self._broken | {row.core for row in rows}) - {row.core for row in numbers}
        if new:
            steps = [row.step for row in new if row.step is not None]
            where = f" by step {min(steps)}" if steps else ""  # newest lines alone were looked at
            text = f"the loss is {new[0].loss} on {_named(new)}{where}{_on(new)}"
            found = [{"loss": str(row.loss), "epoch": row.epoch, "step": row.step} for row in new]
            await self._note(text, LOSS, new, found=found)
        if numbers:
            await self._over(f"{_named(numbers)}: the loss is a number again", numbers, [LOSS])

    async def _look_at_lag(self, snapshot: Snapshot, *, goes_on: bool) -> None:
        """Tell the cores that have been behind the median for long, each once until it is level again."""
        now = asyncio.get_running_loop().time()
        flagged = {row.core: row for row in self._stragglers(snapshot) if row.core is not None}
        self._behind_since = {core: self._behind_since.get(core, now) for core in flagged}
        late = {core for core, since in self._behind_since.items() if now - since >= self.timeouts.behind_after}
        new = [flagged[core] for core in sorted(late - self._behind)]
        level = [
            row for row in self._level(snapshot, self._behind) if goes_on and (row.lag, row.pace) != (None, None)
        ]
        self._behind = (self._behind | late) - {row.core for row in level}
        if new:
            await self._tell_stragglers(new, _costs(snapshot), now)
        if level:
            await self._over(f"{_named(level)}: level with the others again", level, list(STRAGGLING))

    def _stragglers(self, snapshot: Snapshot) -> list[CoreRow]:
        """Rows that are behind or slow, but for those of workers that are out of reach or have ended."""
        from tui.logs.snapshot import CoreState

        rows = (snapshot.row_at(place) for place in places_in(snapshot.state == CoreState.STRAGGLER))
        return [row for row in rows if not self._is_away(row)]

    def _level(self, snapshot: Snapshot, cores: Collection[int | None]) -> list[CoreRow]:
        """Rows of these cores that are seen to train level with the others."""
        return [row for row in _rows(snapshot, cores) if row.state == "training" and not self._is_away(row)]

    def _is_away(self, row: CoreRow) -> bool:
        worker = row.worker
        return worker is not None and (
            self.reachability.is_unreachable(worker) or self.reachability.has_ended(worker)
        )

    async def _tell_stragglers(
        self, rows: list[CoreRow], costs: Mapping[int | None, StragglerCost], now: float
    ) -> None:
        """Record those that are behind, then those that are slow though they keep step, each with for how long."""
        slow = [row for row in rows if row.core in costs and costs[row.core].reason == SLOW]
        behind = [row for row in rows if row not in slow]
        if behind:
            lag, while_ = max(row.lag or 0 for row in behind), format_duration(self.timeouts.behind_after)
            text = f"{_named(behind)}{_on(behind)}: {lag} steps behind the median for {while_}"
            await self._note(text, BEHIND, behind, found=self._with_seconds(_paces(behind, costs), behind, now))
        if slow:
            paces = [pace for row in slow if (pace := costs[row.core].pace) is not None]
            at = f" at {min(paces) * 100:.0f} % of the median pace" if paces else " slower than the others"
            text = f"{_named(slow)}{_on(slow)}:{at} for {format_duration(self.timeouts.behind_after)}"
            await self._note(text, SLOW, slow, found=self._with_seconds(_paces(slow, costs), slow, now))

    def _with_seconds(self, found: list[dict[str, Any]], rows: list[CoreRow], now: float) -> list[dict[str, Any]]:
        """Add for how many seconds each row has been a straggler."""
        since = (self._behind_since.get(row.core, now) if row.core is not None else now for row in rows)
        return [{**one, "seconds": round(now - begun, 1)} for one, begun in zip(found, since, strict=True)]

    async def _note(self, text: str, stall: str, rows: list[CoreRow], *, found: list[dict[str, Any]]) -> None:
        """Record a note about some cores, with a row for each that its finding is made of."""
        workers = sorted({row.worker for row in rows if row.worker is not None})
        told = [
            {"core": row.core, "worker": row.worker, **more}
            for row, more in zip(rows[:MOST_FINDINGS], found, strict=False)
        ]
        worker = workers[0] if len(workers) == 1 else None
        about = {"workers": workers, "cores": _numbers(rows), "found": told}
        await record(self.directory, "note", worker=worker, text=text, stall=stall, **about)

    async def _over(self, text: str, rows: list[CoreRow], kinds: list[str]) -> None:
        """Record that findings of these kinds are over."""
        cores = _numbers(rows)
        await record(self.directory, "note", text=text, stall=OVER, workers=[], cores=cores, of=kinds)


def _broken(snapshot: Snapshot) -> list[CoreRow]:
    """Rows whose newest loss is no number."""
    from tui.logs.snapshot import HAS_LOSS
    from tui.logs.vectorized.numpy_import import np

    places = places_in((snapshot.known & HAS_LOSS != 0) & ~np.isfinite(snapshot.loss))
    return [snapshot.row_at(place) for place in places]


def _rows(snapshot: Snapshot, cores: Collection[int | None]) -> list[CoreRow]:
    from tui.logs.vectorized.numpy_import import np

    listed = np.array([core for core in cores if core is not None], np.int64)
    return [snapshot.row_at(place) for place in places_in(np.isin(snapshot.core, listed))] if len(listed) else []


def _costs(snapshot: Snapshot) -> dict[int | None, StragglerCost]:
    """What each straggler of a snapshot costs, by core."""
    from tui.logs.state.straggler_cost import straggler_costs

    return {cost.core: cost for cost in straggler_costs(snapshot)}


def _paces(rows: list[CoreRow], costs: Mapping[int | None, StragglerCost]) -> list[dict[str, Any]]:
    """Of each row how far it is behind, and its speed as a share of the median's where that is known."""
    shares = [costs[row.core].pace if row.core in costs else None for row in rows]
    return [
        {"steps_behind": row.lag, "pace": None if share is None else round(share, _DECIMALS)}
        for row, share in zip(rows, shares, strict=True)
    ]


def places_in(mask: Any) -> list[int]:
    """Return the places where a mask over a snapshot's rows is set."""
    from tui.logs.vectorized.numpy_import import places_of

    places: list[int] = places_of(mask).tolist()
    return places


def _numbers(rows: Iterable[CoreRow]) -> list[int]:
    return sorted(row.core for row in rows if row.core is not None)


def _named(rows: Iterable[CoreRow]) -> str:
    known = _numbers(rows)
    if not known:
        return "the job"
    return f"core{'s' if len(known) > 1 else ''} {format_ranks(known)}"


def _on(rows: Iterable[CoreRow]) -> str:
    """An event about one worker names it already."""
    workers = {row.worker for row in rows if row.worker is not None}
    return f" ({format_workers(workers)})" if len(workers) > 1 else ""
