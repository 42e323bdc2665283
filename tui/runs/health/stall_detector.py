"""Detect live runs without progress: silent workers, cores behind the others, losses that are not numbers.

A finding becomes a `note` event with the field `stall`: `silent`, `behind`, `slow` or `loss`, and `over` when it has
passed; `workers` and `cores` list those affected. Followers report whenever a mirror grows, which shows the silent
workers. The cores' figures are read from the newest lines of each worker only (`core_watch`), every
`POLL_INTERVAL_S`.
"""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tui.procs.python_env import explain_import_error
from tui.runs.health.reachability import Reachability
from tui.runs.keeper_timeouts import KeeperTimeouts
from tui.runs.record.log_mirror import record
from tui.runs.record.run_directory import RunDirectory
from tui.runs.record.run_status import status_of
from tui.text.durations import format_duration
from tui.text.ranks import format_workers

if TYPE_CHECKING:
    from tui.runs.health.core_watch import CoreWatch

POLL_INTERVAL_S = 10.0
"""Seconds between two checks; fewer if a threshold is only a few times as long."""
LOAD_DELAY_S = 3.0
"""Seconds before the modules that read logs are loaded; a run that ends sooner does not load them."""
_POLLS_PER_THRESHOLD = 4
_SHORTEST_POLL_INTERVAL_S = 0.1
_CPU_SHARE = 0.005
"""Share of a CPU that checks may take: if they take more, their interval grows, up to `_MOST_STRETCHED` times."""
_MOST_STRETCHED = 6
_CORE_WATCH = "tui.runs.health.core_watch"
_LATE_PARSER = "tui.logs.dialects.grammar.names_and_values"
"""A module that only later lines may need; by then tpu-tui may have been replaced on disk."""


@dataclass(eq=False)
class StallDetector:
    """Watches one attempt's mirrors while its task runs."""

    directory: RunDirectory
    reachability: Reachability
    timeouts: KeeperTimeouts

    def __post_init__(self) -> None:
        self._silent: set[int] = set()
        self._cores: CoreWatch | None = None
        self._checking = asyncio.Lock()
        self._concluded = False

    async def run(self) -> None:
        """Check repeatedly until the attempt is concluded."""
        shortest = min(self.timeouts.stalled_after, self.timeouts.behind_after) / _POLLS_PER_THRESHOLD
        await asyncio.sleep(min(LOAD_DELAY_S, max(_SHORTEST_POLL_INTERVAL_S, shortest)))
        await self._load_core_watch()
        while not self._concluded:
            cpu_s = self._cores.cpu_s if self._cores is not None else 0.0
            interval = max(POLL_INTERVAL_S, min(cpu_s / _CPU_SHARE, _MOST_STRETCHED * POLL_INTERVAL_S))
            await asyncio.sleep(max(_SHORTEST_POLL_INTERVAL_S, min(interval, shortest)))
            await self._check_silence()
            async with self._checking:
                if self._cores is not None and not self._concluded:
                    await self._cores.check()

    async def conclude(self) -> None:
        """Record the state at the attempt's end, once its logs are complete; nothing is checked after that."""
        async with self._checking:
            self._concluded = True
            if any(finding.is_open and finding.is_straggling for finding in status_of(self.directory).findings):
                await self._load_core_watch()
                if self._cores is not None:
                    await self._cores.conclude()

    async def _load_core_watch(self) -> None:
        """Load, in a thread, the modules that read logs: this takes 0.2 s of CPU while lines keep arriving."""
        if self._cores is not None:
            return
        try:
            await asyncio.to_thread(importlib.import_module, _LATE_PARSER)
            module = await asyncio.to_thread(importlib.import_module, _CORE_WATCH)
        except ImportError as error:
            text = f"the cores are not watched for stalls: {explain_import_error(error)}"
            await record(self.directory, "note", text=text)
            return
        self._cores = cores = module.CoreWatch(self.directory, self.reachability, self.timeouts)
        if cores.settings_error is not None:
            text = f"the cores are watched with default dialects and thresholds: {cores.settings_error.sentence}"
            await record(self.directory, "note", text=text)

    async def _check_silence(self) -> None:
        limit = self.timeouts.stalled_after
        alive = [
            worker.index for worker in self.directory.run.workers if not self.reachability.has_ended(worker.index)
        ]
        silent = {worker for worker in alive if self.reachability.seconds_silent(worker) >= limit}
        newly_silent, writing_again = silent - self._silent, self._silent - silent
        self._silent = silent
        if newly_silent:
            is_everyone = silent == set(alive) and len(alive) > 1
            have = "no worker has written anything" if is_everyone else f"{_have(newly_silent)} written nothing"
            await self._record(f"{have} for {format_duration(limit)}: hanging?", "silent", newly_silent)
        back = [worker for worker in writing_again if not self.reachability.has_ended(worker)]
        if back:
            text = "writes again" if len(back) == 1 else f"{format_workers(back)} write again"
            await self._record(text, "over", back)

    async def _record(self, text: str, stall: str, workers: Iterable[int]) -> None:
        listed = sorted(workers)
        worker = listed[0] if len(listed) == 1 else None
        await record(self.directory, "note", worker=worker, text=text, stall=stall, workers=listed, cores=[])


def _have(workers: set[int]) -> str:
    """Name workers as a subject; an event about one worker names it already."""
    return "has" if len(workers) == 1 else f"{format_workers(workers)} have"
