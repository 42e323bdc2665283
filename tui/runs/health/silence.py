"""For how long each worker of a run has written nothing."""

from __future__ import annotations

import asyncio

from tui.runs.health.reachability import Reachability
from tui.runs.read.log_ranges import log_size
from tui.runs.record.run_directory import RunDirectory


class SilenceTimer:
    """Measures each worker's silence by the length of its mirror, while the worker is reachable."""

    def __init__(self, directory: RunDirectory, reachability: Reachability) -> None:
        self._directory = directory
        self._reachability = reachability
        self._sizes: dict[int, int] = {}
        self._since: dict[int, float] = {}

    def measure(self) -> dict[int, float]:
        """Return the seconds of silence by worker, without the workers whose parts have ended."""
        now = asyncio.get_running_loop().time()
        silence = {}
        for index in (worker.index for worker in self._directory.run.workers):
            size = log_size(self._directory, index)
            if size != self._sizes.get(index) or self._reachability.is_unreachable(index):
                self._sizes[index] = size
                self._since[index] = now
            if not self._reachability.has_ended(index):
                silence[index] = now - self._since[index]
        return silence
