"""Watch the cores of a run: note those that are behind the others or slower, and losses that are not numbers.

A finding is over only when its core is seen to train level with the others while they make progress: a core that is
missing from the newest lines, or whose run ends, has not recovered. Only the newest lines are read, so that a check
costs little however fast the logs grow. Importing this module loads numpy.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from tui.errors import TpuTuiError
from tui.logs._compat_numpy import np, places_of
from tui.logs.core_row import HAS_LOSS, UNKNOWN, CoreRow
from tui.logs.dialects.user_dialects import user_dialects
from tui.logs.snapshot import Snapshot
from tui.logs.state.straggler_cost import StragglerCost, straggler_costs
from tui.pod.run import RunState
from tui.runs.health.reachability import Reachability
from tui.runs.health.run_slice import slice_settings
from tui.runs.keeper_timeouts import KeeperTimeouts
from tui.runs.read.sample_reader import RunReader
from tui.runs.record.findings import (
    AT_THE_END,
    BEHIND,
    LOSS,
    MOST_FINDINGS,
    OVER,
    SLOW,
    STRAGGLING,
    RowKey,
    row_key,
)
from tui.runs.record.log_mirror import record
from tui.runs.record.run_directory import RunDirectory
from tui.runs.record.run_status import status_of
from tui.text.durations import format_duration
from tui.text.printable import format_count
from tui.text.ranks import format_workers, name_ranks

SAMPLE_BYTES = 8 * 1024
_LEAST_SAMPLE_BYTES = 2 * 1024
_MOST_SAMPLED_BYTES = 64 * SAMPLE_BYTES
"""Bytes of a worker's newest lines that are read (about eight lines of each of eight cores), their minimum, and the
limit for all workers together. Where no fast path knows the format, a line costs twenty microseconds, in which the
keeper does nothing else."""
_DECIMALS = 3


@dataclass(eq=False)
class CoreWatch:
    """Watches the cores of one attempt; continues the findings of an earlier keeper.

    `settings_error` says why the dialects and thresholds of the run's profile are not used; None if they are.
    """

    directory: RunDirectory
    reachability: Reachability
    timeouts: KeeperTimeouts

    def __post_init__(self) -> None:
        self._indices = [worker.index for worker in self.directory.run.workers]
        self._sample_bytes = max(_LEAST_SAMPLE_BYTES, min(SAMPLE_BYTES, _MOST_SAMPLED_BYTES // len(self._indices)))
        self._reader, self.settings_error = _open_reader(self.directory)
        self.cpu_s = 0.0
        """Seconds of CPU time of the last check."""
        self._behind_since: dict[RowKey, float] = {}
        open_findings = [finding for finding in status_of(self.directory).findings if finding.is_open]
        self._behind = {finding.key for finding in open_findings if finding.is_straggling}
        self._broken = {finding.key for finding in open_findings if finding.kind == LOSS}
        self._median: tuple[int | None, int | None] = (None, None)

    async def check(self) -> None:
        """Read the newest lines and record new findings, also of cores that hang when all others have finished."""
        if await self._read_newest() or self._behind_since.keys() - self._behind:
            await self.check_snapshot(self._snapshot())

    async def _read_newest(self) -> bool:
        """Read each worker's newest lines, giving way to other tasks in between; return whether there were any."""
        self.cpu_s = 0.0
        has_new_lines = False
        for index in self._indices:
            began = time.thread_time()
            has_new_lines |= self._reader.poll_newest(index, self._sample_bytes)
            self.cpu_s += time.thread_time() - began
            await asyncio.sleep(0)
        return has_new_lines

    def _snapshot(self) -> Snapshot:
        began = time.thread_time()
        snapshot = self._reader.snapshot()
        self.cpu_s += time.thread_time() - began
        return snapshot

    async def check_snapshot(self, snapshot: Snapshot) -> None:
        """Record new findings, except during a stop, when cores end one after the other."""
        state = status_of(self.directory).state
        if state is RunState.STOPPING or state.is_over:
            return
        median = (snapshot.median_epoch, snapshot.median_step)
        makes_progress, self._median = median != self._median, median
        await self._check_losses(snapshot)
        await self._check_lag(snapshot, makes_progress=makes_progress)

    async def conclude(self) -> None:
        """Read the last lines, and record how far the cores that never recovered were behind at the end."""
        await self._read_newest()
        await self.conclude_with(self._snapshot())

    async def conclude_with(self, snapshot: Snapshot) -> None:
        """Record how far the cores that never recovered are behind in the last snapshot."""
        lagging = [row for row in _rows(snapshot, self._behind) if (row.lag or 0) > 0]
        rows = [row for row in lagging if row.worker is None or not self.reachability.is_unreachable(row.worker)]
        if not rows:
            return
        attempt = status_of(self.directory).attempt
        when = "the run" if not self.directory.run.job.restarts else f"attempt {attempt + 1}"
        furthest = max(row.lag or 0 for row in rows)
        were = "was" if len(rows) == 1 else "were up to"
        text = f"{_format_cores(rows)} {were} {format_count(furthest, 'step')} behind when {when} ended"
        costs = _costs(snapshot)
        await self._note(text, AT_THE_END, rows, found=[_pace(row, costs) for row in rows])

    async def _check_losses(self, snapshot: Snapshot) -> None:
        """Record cores whose newest loss is nan or infinite, each once until its loss is a number again."""
        is_broken = (snapshot.known & HAS_LOSS != 0) & ~np.isfinite(snapshot.loss)
        rows = [snapshot.row_at(index) for index in _indices_where(is_broken)]
        new = [row for row in rows if _key(row) not in self._broken]
        numbers = [
            row for row in self._level(snapshot, self._broken) if row.loss is not None and math.isfinite(row.loss)
        ]
        self._broken = (self._broken | set(map(_key, rows))) - set(map(_key, numbers))
        if new:
            steps = [row.step for row in new if row.step is not None]
            by_step = f" by step {min(steps)}" if steps else ""  # only the newest lines were read
            text = f"the loss is {new[0].loss} on {_format_cores(new)}{by_step}{_format_places(new)}"
            losses = [{"loss": str(row.loss), "epoch": row.epoch, "step": row.step} for row in new]
            await self._note(text, LOSS, new, found=losses)
        if numbers:
            await self._record_over(f"{_format_cores(numbers)}: the loss is a number again", numbers, [LOSS])

    async def _check_lag(self, snapshot: Snapshot, *, makes_progress: bool) -> None:
        """Record cores that have been stragglers for `behind_after` seconds, each once until it is level again."""
        now = asyncio.get_running_loop().time()
        stragglers = {_key(row): row for row in self._stragglers(snapshot)}
        self._behind_since = {key: self._behind_since.get(key, now) for key in stragglers}
        late = {key for key in stragglers if now - self._behind_since[key] >= self.timeouts.behind_after}
        added = late - self._behind
        new = [row for key, row in stragglers.items() if key in added]
        level = self._level(snapshot, self._behind) if makes_progress else []
        level = [row for row in level if row.lag is not None or row.pace is not None]
        self._behind = (self._behind | late) - set(map(_key, level))
        if new:
            await self._record_stragglers(new, _costs(snapshot), now)
        if level:
            verb = "has" if len(level) == 1 else "have"
            await self._record_over(f"{_format_cores(level)} {verb} caught up", level, list(STRAGGLING))

    def _stragglers(self, snapshot: Snapshot) -> list[CoreRow]:
        """Return the rows that are behind or slow, except those of workers that are unreachable or have ended."""
        rows = (snapshot.row_at(index) for index in _indices_where(snapshot.straggling))
        return [row for row in rows if not self._is_away(row)]

    def _level(self, snapshot: Snapshot, keys: Collection[RowKey]) -> list[CoreRow]:
        """Return those of these rows that train level with the others."""
        return [row for row in _rows(snapshot, keys) if row.state == "training" and not self._is_away(row)]

    def _is_away(self, row: CoreRow) -> bool:
        worker = row.worker
        return worker is not None and (
            self.reachability.is_unreachable(worker) or self.reachability.has_ended(worker)
        )

    async def _record_stragglers(
        self, rows: list[CoreRow], costs: Mapping[RowKey, StragglerCost], now: float
    ) -> None:
        """Record cores that are behind, then those that keep step but are slow."""
        slow = [row for row in rows if _key(row) in costs and costs[_key(row)].reason == SLOW]
        behind = [row for row in rows if row not in slow]
        if behind:
            lag, duration = max(row.lag or 0 for row in behind), format_duration(self.timeouts.behind_after)
            subject, steps = f"{_format_cores(behind)}{_format_places(behind)}", format_count(lag, "step")
            text = f"{subject}: {steps} behind the median for {duration}"
            await self._note(text, BEHIND, behind, found=self._paces_since(behind, costs, now))
        if slow:
            paces = [pace for row in slow if (pace := costs[_key(row)].pace) is not None]
            at = f" at {min(paces) * 100:.0f} % of the median pace" if paces else " slower than the others"
            text = (
                f"{_format_cores(slow)}{_format_places(slow)}:{at} for {format_duration(self.timeouts.behind_after)}"
            )
            await self._note(text, SLOW, slow, found=self._paces_since(slow, costs, now))

    def _paces_since(
        self, stragglers: list[CoreRow], costs: Mapping[RowKey, StragglerCost], now: float
    ) -> list[dict[str, Any]]:
        """Return the pace of each straggler, and for how many seconds it has been one."""
        return [{**_pace(row, costs), "seconds": round(now - self._behind_since[_key(row)], 1)} for row in stragglers]

    async def _note(self, text: str, stall: str, rows: list[CoreRow], *, found: list[dict[str, Any]]) -> None:
        """Record a note about some cores; `found` holds the figures of each."""
        workers = _workers(rows)
        found_rows = [{**place, **figures} for place, figures in zip(_places(rows), found, strict=False)]
        worker = workers[0] if len(workers) == 1 and _numbers(rows) else None
        fields = {"workers": workers, "cores": _numbers(rows), "found": found_rows}
        await record(self.directory, "note", worker=worker, text=text, stall=stall, **fields)

    async def _record_over(self, text: str, rows: list[CoreRow], kinds: list[str]) -> None:
        cores, found = _numbers(rows), _places(rows)
        await record(self.directory, "note", text=text, stall=OVER, workers=[], cores=cores, found=found, of=kinds)


def _open_reader(directory: RunDirectory) -> tuple[RunReader, TpuTuiError | None]:
    """Return a reader with the dialects and thresholds of the run's profile, or one without them and the error."""
    try:
        settings = slice_settings(directory)
        dialects = user_dialects(settings.dialects)
    except TpuTuiError as error:
        return RunReader(directory), error
    return RunReader(directory, dialects=dialects, thresholds=settings.thresholds), None


def _rows(snapshot: Snapshot, keys: Collection[RowKey]) -> list[CoreRow]:
    if not keys:
        return []
    by_core, by_worker = ([number for number in numbers if number is not None] for numbers in zip(*keys, strict=True))
    chosen = np.isin(snapshot.core, by_core) | (snapshot.core == UNKNOWN) & np.isin(snapshot.worker, by_worker)
    return [snapshot.row_at(index) for index in _indices_where(chosen)]


def _key(row: CoreRow | StragglerCost) -> RowKey:
    return row_key(row.core, row.worker)


def _places(rows: Iterable[CoreRow]) -> list[dict[str, Any]]:
    """Return the cores and workers of the first rows, as events name them."""
    return [{"core": row.core, "worker": row.worker} for row in islice(rows, MOST_FINDINGS)]


def _costs(snapshot: Snapshot) -> dict[RowKey, StragglerCost]:
    return {_key(cost): cost for cost in straggler_costs(snapshot)}


def _pace(row: CoreRow, costs: Mapping[RowKey, StragglerCost]) -> dict[str, Any]:
    """Return how far a core is behind, and its speed as a share of the median core's where that is known."""
    share = costs[_key(row)].pace if _key(row) in costs else None
    return {"steps_behind": row.lag, "pace": None if share is None else round(share, _DECIMALS)}


def _indices_where(mask: Any) -> list[int]:
    indices: list[int] = places_of(mask).tolist()
    return indices


def _numbers(rows: Iterable[CoreRow]) -> list[int]:
    return sorted(row.core for row in rows if row.core is not None)


def _format_cores(rows: Sequence[CoreRow]) -> str:
    """Name the rows' cores or, where lines name none, their workers."""
    numbers = _numbers(rows)
    return name_ranks("core", numbers) if numbers else format_workers(_workers(rows))


def _workers(rows: Iterable[CoreRow]) -> list[int]:
    return sorted({row.worker for row in rows if row.worker is not None})


def _format_places(rows: Sequence[CoreRow]) -> str:
    """Name the workers of the rows' cores; an event about one worker names it already."""
    workers = _workers(rows)
    return f" ({format_workers(workers)})" if len(workers) > 1 and _numbers(rows) else ""
