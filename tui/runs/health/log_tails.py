"""The newest lines of a run's mirrors, for a look at its cores that costs little however fast the logs grow."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress

from tui.errors import TpuTuiError
from tui.logs.demux import Demux
from tui.logs.dialects.registry import BUILT_IN
from tui.logs.dialects.user_dialects import user_dialects
from tui.logs.snapshot import Snapshot
from tui.runs.health.slice_monitor import slice_settings
from tui.runs.read.log_ranges import log_size, read_range
from tui.runs.record.run_directory import RunDirectory

SAMPLE_BYTES = 8 * 1024
LEAST_SAMPLE_BYTES = 2 * 1024
MOST_SAMPLED_BYTES = 64 * SAMPLE_BYTES
"""Bytes of a worker's newest lines that are read, some eight lines of each of eight cores; fewer in pods so large
that all together would be more. Where no fast path knows their format, a line costs twenty microseconds, in which no
other worker's lines are taken."""


class LogTails:
    """The newest whole lines of every worker's mirror, demultiplexed."""

    def __init__(self, directory: RunDirectory) -> None:
        self._directory = directory
        self._sample = max(LEAST_SAMPLE_BYTES, min(SAMPLE_BYTES, MOST_SAMPLED_BYTES // len(directory.run.workers)))
        self._demux = _open_demux(directory)
        self._read: dict[int, int] = {}
        self.cpu_s = 0.0
        """CPU time of the last reading."""

    async def snapshot(self, *, again: bool = False) -> Snapshot | None:
        """Return every core as of the newest lines; None without new lines, unless it is wanted `again`."""
        self.cpu_s = 0.0
        has_new_lines = False
        for worker in self._directory.run.workers:
            began = time.thread_time()
            data = self._new_lines(worker.index)
            if data:
                self._demux.feed(worker.index, data, now=time.time())
                has_new_lines = True
            self.cpu_s += time.thread_time() - began
            await asyncio.sleep(0)
        if not (has_new_lines or again):
            return None
        began = time.thread_time()
        try:
            return self._demux.snapshot(time.time())
        finally:
            self.cpu_s += time.thread_time() - began

    def _new_lines(self, worker: int) -> bytes:
        size, read = log_size(self._directory, worker), self._read.get(worker, 0)
        start = max(read, size - self._sample)
        if size <= start:
            return b""
        data = b""
        with suppress(OSError):
            data = read_range(self._directory.log_path(worker), start, size - start)
        begin = 0 if start == read else data.find(b"\n") + 1
        end = data.rfind(b"\n") + 1
        self._read[worker] = start + end if end else read
        return data[begin:end]


def _open_demux(directory: RunDirectory) -> Demux:
    """Return a demultiplexer for the run's logs, with the dialects and thresholds of its profile."""
    addresses = {one.index: one.internal_ip or one.external_ip for one in directory.run.workers}
    with suppress(TpuTuiError):
        settings = slice_settings(directory)
        return Demux(
            dialects=(*user_dialects(settings.dialects), *BUILT_IN),
            addresses={index: address for index, address in addresses.items() if address},
            thresholds=settings.thresholds,
        )
    return Demux(dialects=BUILT_IN)
