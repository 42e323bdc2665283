"""Runs that live and get nowhere: silent workers, cores behind the others, losses that are no numbers.

What is seen becomes a `note` event with the field `stall`: `silent`, `behind` or `loss`, and `over` when it passed;
`workers` and `cores` list whom it is about. Cheap by design: silence is read off the mirrors' lengths, and of what
was written only the last `SAMPLE` bytes of each worker are looked into, every `LOOK` seconds.
"""

from __future__ import annotations

import asyncio
import dis
import importlib.abc
import importlib.util
import os
import sys
import time
from collections.abc import Iterable
from contextlib import suppress
from types import CodeType
from typing import TYPE_CHECKING

from tui.errors import TpuTuiError
from tui.runs.health.core_watch import CoreWatch
from tui.runs.health.reachability import Reachability
from tui.runs.health.slice_monitor import slice_settings
from tui.runs.keeper.packet_batching import PAUSE
from tui.runs.keeper_timeouts import KeeperTimeouts
from tui.runs.record.log_mirror import record
from tui.runs.record.run_directory import RunDirectory
from tui.text.durations import format_duration
from tui.text.ranks import format_workers

if TYPE_CHECKING:
    from tui.logs.demux import Demux
    from tui.logs.snapshot import Snapshot

LOOK = 10.0
"""Seconds between two looks, fewer where a threshold is shorter than some of them."""
_LOOKS = 4
"""Looks within the shortest threshold."""
_SHORTEST_LOOK = 0.1
_SHARE = 0.005
"""Of a core: looks that take more are farther apart, up to so many times as far, and as the thresholds allow."""
_FARTHEST = 6
_READS_LOGS = "tui.logs"
SAMPLE = 8 * 1024
LEAST_SAMPLE = 2 * 1024
MOST_SAMPLED = 64 * SAMPLE
"""Bytes of a worker's newest lines that are looked into, some eight lines of each of eight cores; fewer in pods so
large that it would be more of all together. Where no fast path knows their format, a line costs twenty microseconds,
in which no other worker's lines are taken."""


class StallDetector:
    """Watches one attempt's mirrors for as long as its task lives."""

    def __init__(self, directory: RunDirectory, reachability: Reachability, timeouts: KeeperTimeouts) -> None:
        self.directory = directory
        self.reachability = reachability
        self.timeouts = timeouts
        self._silence = _Silence(directory, reachability)
        self._tails = _Tails(directory)
        self._silent: set[int] = set()
        self._cores = CoreWatch(directory, reachability, timeouts)
        self._looking = asyncio.Lock()
        self._concluded = False

    async def run(self) -> None:
        """Look again and again."""
        shortest = min(self.timeouts.stalled_after, self.timeouts.behind_after) / _LOOKS
        while not self._concluded:
            wanted = max(LOOK, min(self._tails.spent / _SHARE, _FARTHEST * LOOK))
            await asyncio.sleep(max(_SHORTEST_LOOK, min(wanted, shortest)))
            await self._look_at_silence()
            await self._look_at_cores()

    async def _look_at_cores(self) -> None:
        async with self._looking:
            snapshot = None if self._concluded else await self._tails.snapshot()
            if snapshot is not None:
                await self._cores.look(snapshot)

    async def conclude(self) -> None:
        """Tell what stands at the attempt's end, once its logs are complete; nothing is looked at after that."""
        async with self._looking:
            self._concluded = True
            if self._cores.has_stragglers:  # else nothing is to be read, nor to be loaded for it
                await self._cores.conclude(await self._tails.snapshot(again=True))

    async def _look_at_silence(self) -> None:
        limit = self.timeouts.stalled_after
        silent = {worker for worker, seconds in self._silence.look().items() if seconds >= limit}
        new, heard = silent - self._silent, self._silent - silent
        self._silent = silent
        alive = [one.index for one in self.directory.run.workers if not self.reachability.has_ended(one.index)]
        if new:
            everybody = silent == set(alive) and len(alive) > 1
            have = "no worker has written anything" if everybody else f"{_have(new)} written nothing"
            await self._tell(f"{have} for {format_duration(limit)}: hanging?", "silent", new)
        back = [worker for worker in heard if not self.reachability.has_ended(worker)]
        if back:
            await self._tell(
                "writes again" if len(back) == 1 else f"{format_workers(back)} write again", "over", back
            )

    async def _tell(self, text: str, stall: str, workers: Iterable[int]) -> None:
        listed = sorted(workers)
        worker = listed[0] if len(listed) == 1 else None
        await record(self.directory, "note", worker=worker, text=text, stall=stall, workers=listed, cores=[])


class _Silence:
    """For how long each worker has written nothing, while it could be heard."""

    def __init__(self, directory: RunDirectory, reachability: Reachability) -> None:
        self._directory = directory
        self._reachability = reachability
        self._sizes: dict[int, int] = {}
        self._since: dict[int, float] = {}

    def look(self) -> dict[int, float]:
        """Seconds of silence by worker; those that have ended are left out."""
        now = asyncio.get_running_loop().time()
        silence = {}
        for index in (worker.index for worker in self._directory.run.workers):
            size = _size(self._directory, index)
            if size != self._sizes.get(index) or self._reachability.is_unreachable(index):
                self._sizes[index] = size
                self._since[index] = now
            if not self._reachability.has_ended(index):
                silence[index] = now - self._since[index]
        return silence


class _Tails:
    """The newest whole lines of every worker, demultiplexed."""

    def __init__(self, directory: RunDirectory) -> None:
        self._directory = directory
        self._sample = max(LEAST_SAMPLE, min(SAMPLE, MOST_SAMPLED // len(directory.run.workers)))
        self._demux: Demux | None = None
        self._read: dict[int, int] = {}
        self.spent = 0.0
        """CPU seconds that reading took the last time."""

    async def snapshot(self, *, again: bool = False) -> Snapshot | None:
        """Every core as of the newest lines; None where none were written since, unless it is wanted `again`."""
        demux, self.spent = self._demux, 0.0
        fed = False
        for worker in self._directory.run.workers:
            began = time.thread_time()
            data = self._new_lines(worker.index)
            if data:
                if demux is None:
                    await load_apart(f"{_READS_LOGS}.demux")
                    demux, began = self._open(), time.thread_time()
                demux.feed(worker.index, data, now=time.time())
                fed = True
            self.spent += time.thread_time() - began
            await asyncio.sleep(0)
        if demux is None or not (fed or again):
            return None
        began = time.thread_time()
        try:
            return demux.snapshot(time.time())
        finally:
            self.spent += time.thread_time() - began

    def _new_lines(self, worker: int) -> bytes:
        size, read = _size(self._directory, worker), self._read.get(worker, 0)
        start = max(read, size - self._sample)
        if size <= start:
            return b""
        data = _bytes(self._directory, worker, start, size - start)
        begin = 0 if start == read else data.find(b"\n") + 1
        end = data.rfind(b"\n") + 1
        self._read[worker] = start + end if end else read
        return data[begin:end]

    def _open(self) -> Demux:
        from tui.logs.demux import Demux
        from tui.logs.dialects.registry import BUILT_IN, user_dialects

        run = self._directory.run
        addresses = {one.index: one.internal_ip or one.external_ip for one in run.workers}
        self._demux = Demux(dialects=BUILT_IN)
        with suppress(TpuTuiError):
            settings = slice_settings(self._directory)
            self._demux = Demux(
                dialects=(*user_dialects(settings.dialects), *BUILT_IN),
                addresses={index: address for index, address in addresses.items() if address},
                thresholds=settings.thresholds,
            )
        return self._demux


async def load_apart(name: str, begun: set[str] | None = None) -> None:
    """Load a module, and first, each by itself, what it needs of those that read logs.

    All at once would keep the workers' lines waiting for a quarter of a second.
    """
    begun = set() if begun is None else begun
    if name in sys.modules or name in begun:
        return
    begun.add(name)
    for needed in _named_in(name):
        await load_apart(needed, begun)
    importlib.import_module(name)
    await asyncio.sleep(PAUSE)


def _named_in(name: str) -> list[str]:
    """The modules that read logs, of those that a module's own code imports: `import a.b`, `from a import b`."""
    spec = importlib.util.find_spec(name)
    code = spec.loader.get_code(name) if spec and isinstance(spec.loader, importlib.abc.InspectLoader) else None
    words = _imported_by(code) if code else []
    beside = [f"{_READS_LOGS}.{word}" for word in words if _READS_LOGS in words and "." not in word]
    named = [word for word in (*words, *beside) if word.startswith(f"{_READS_LOGS}.")]
    return [module for module in named if importlib.util.find_spec(module)]


def _imported_by(code: CodeType) -> list[str]:
    """The names in a module's imports, but for those that only a type checker runs."""
    names: list[str] = []
    goes_on, last = 0, ""
    for instruction in dis.get_instructions(code):
        if instruction.offset < goes_on:
            continue
        if instruction.opname.endswith("IF_FALSE") and last == "TYPE_CHECKING":
            goes_on = int(instruction.argval)
        if instruction.opname.startswith("IMPORT_"):
            names.append(str(instruction.argval))
        if instruction.opname.startswith("LOAD_"):
            last = str(instruction.argval)
    return names


def _size(directory: RunDirectory, worker: int) -> int:
    try:
        return directory.log_path(worker).stat().st_size
    except OSError:
        return 0


def _bytes(directory: RunDirectory, worker: int, start: int, size: int) -> bytes:
    try:
        descriptor = os.open(directory.log_path(worker), os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        return os.pread(descriptor, size, start)
    finally:
        os.close(descriptor)


def _have(workers: set[int]) -> str:
    """An event about one worker names it already."""
    return "has" if len(workers) == 1 else f"{format_workers(workers)} have"
