"""Runs that live and get nowhere: silent workers, cores behind the others, losses that are no numbers.

What is seen becomes a `note` event with the field `stall`: `silent`, `behind` or `loss`, and `over` when it passed;
`workers` and `cores` list whom it is about. Cheap by design: silence is read off the mirrors' lengths, and of what
was written only the last `SAMPLE` bytes of each worker are looked into, every `LOOK` seconds.
"""

from __future__ import annotations

import asyncio
import importlib.abc
import importlib.util
import math
import os
import sys
import time
from collections.abc import Iterable
from contextlib import suppress
from typing import TYPE_CHECKING

from tui.errors import TpuTuiError
from tui.pod.ranks import format_ranks
from tui.runs.contact import Contact
from tui.runs.directory import RunDirectory
from tui.runs.mirror import record
from tui.runs.policies import Patience, in_time, names_of
from tui.runs.slice_watch import settings_of
from tui.runs.unhurried import PAUSE

if TYPE_CHECKING:
    from tui.logs.demux import Demux
    from tui.logs.snapshot import CoreRow, Snapshot

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


class Watcher:
    """Watches one attempt's mirrors for as long as its task lives."""

    def __init__(self, directory: RunDirectory, contact: Contact, patience: Patience) -> None:
        self.directory = directory
        self.contact = contact
        self.patience = patience
        self._silence = _Silence(directory, contact)
        self._tails = _Tails(directory)
        self._silent: set[int] = set()
        self._behind_since: dict[int, float] = {}
        self._behind: set[int] = set()
        self._broken: set[int] = set()

    async def run(self) -> None:
        """Look again and again."""
        shortest = min(self.patience.stalled_after, self.patience.behind_after) / _LOOKS
        while True:
            wanted = max(LOOK, min(self._tails.spent / _SHARE, _FARTHEST * LOOK))
            await asyncio.sleep(max(_SHORTEST_LOOK, min(wanted, shortest)))
            await self._look_at_silence()
            snapshot = await self._tails.snapshot()
            if snapshot is not None:
                rows = _worth_telling(snapshot)
                await self._look_at_losses(rows)
                await self._look_at_lag(rows)

    async def _look_at_silence(self) -> None:
        limit = self.patience.stalled_after
        silent = {worker for worker, seconds in self._silence.look().items() if seconds >= limit}
        new, heard = silent - self._silent, self._silent - silent
        self._silent = silent
        alive = [one.index for one in self.directory.run.workers if not self.contact.has_ended(one.index)]
        if new:
            everybody = silent == set(alive) and len(alive) > 1
            have = "no worker has written anything" if everybody else f"{_have(new)} written nothing"
            await self._tell(f"{have} for {in_time(limit)}: hanging?", "silent", new)
        back = [worker for worker in heard if not self.contact.has_ended(worker)]
        if back:
            await self._tell("writes again" if len(back) == 1 else f"{names_of(back)} write again", "over", back)

    async def _look_at_losses(self, known: list[CoreRow]) -> None:
        """Tell the cores whose newest loss is nan or infinite, each once until it is a number again."""
        rows = [row for row in known if row.loss is not None and not math.isfinite(row.loss)]
        broken = {-1 if row.core is None else row.core for row in rows}
        new = [row for row in rows if (-1 if row.core is None else row.core) not in self._broken]
        self._broken = broken
        if new:
            first = new[0]
            steps = [row.step for row in new if row.step is not None]
            where = f" by step {min(steps)}" if steps else ""  # newest lines alone were looked at
            whose = _cores([row.core for row in new])
            workers = {row.worker for row in new if row.worker is not None}
            text = f"the loss is {first.loss} on {whose}{where}{_on(workers)}"
            await self._tell(text, "loss", workers, [row.core for row in new if row.core is not None])

    async def _look_at_lag(self, known: list[CoreRow]) -> None:
        """Tell the cores that have been behind the median for long, each once until it has caught up."""
        now = asyncio.get_running_loop().time()
        behind = {row.core: row for row in known if row.core is not None and row.state == "straggler"}
        self._behind_since = {core: self._behind_since.get(core, now) for core in behind}
        late = {core for core, since in self._behind_since.items() if now - since >= self.patience.behind_after}
        new, level = late - self._behind, self._behind - set(behind)
        self._behind = (self._behind | late) - level
        if new:
            workers = {worker for core in new if (worker := behind[core].worker) is not None}
            lag = max(behind[core].lag or 0 for core in new)
            text = f"{_cores(sorted(new))}{_on(workers)}: {lag} steps behind the median"
            await self._tell(f"{text} for {in_time(self.patience.behind_after)}", "behind", workers, sorted(new))
        if level:
            await self._tell(f"{_cores(sorted(level))}: level with the others again", "over", (), sorted(level))

    async def _tell(self, text: str, stall: str, workers: Iterable[int], cores: Iterable[int] = ()) -> None:
        listed = sorted(workers)
        worker = listed[0] if len(listed) == 1 else None
        await record(self.directory, "note", worker=worker, text=text, stall=stall, workers=listed, cores=list(cores))


class _Silence:
    """For how long each worker has written nothing, while it could be heard."""

    def __init__(self, directory: RunDirectory, contact: Contact) -> None:
        self._directory = directory
        self._contact = contact
        self._sizes: dict[int, int] = {}
        self._since: dict[int, float] = {}

    def look(self) -> dict[int, float]:
        """Seconds of silence by worker; those that have ended are left out."""
        now = asyncio.get_running_loop().time()
        silence = {}
        for index in (worker.index for worker in self._directory.run.workers):
            size = _size(self._directory, index)
            if size != self._sizes.get(index) or self._contact.is_out(index):
                self._sizes[index] = size
                self._since[index] = now
            if not self._contact.has_ended(index):
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

    async def snapshot(self) -> Snapshot | None:
        """Every core as of the newest lines; None where none were written since."""
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
        if demux is None or not fed:
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
        from tui.logs.dialects import BUILT_IN, user_dialects

        run = self._directory.run
        addresses = {one.index: one.internal_ip or one.external_ip for one in run.workers}
        self._demux = Demux(dialects=BUILT_IN)
        with suppress(TpuTuiError):
            settings = settings_of(self._directory)
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
    words = code.co_names if code else ()
    beside = [f"{_READS_LOGS}.{word}" for word in words if _READS_LOGS in words and "." not in word]
    named = [word for word in (*words, *beside) if word.startswith(f"{_READS_LOGS}.")]
    return [module for module in named if importlib.util.find_spec(module)]


def _worth_telling(snapshot: Snapshot) -> list[CoreRow]:
    """The rows that anything may be told of: behind the others, or with a loss that is no number."""
    from tui.logs.arrays import np, places_of
    from tui.logs.snapshot import HAS_LOSS, CoreState

    broken = (snapshot.known & HAS_LOSS != 0) & ~np.isfinite(snapshot.loss)
    return [snapshot.row_at(place) for place in places_of(broken | (snapshot.state == CoreState.STRAGGLER)).tolist()]


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


def _cores(cores: list[int | None] | list[int]) -> str:
    known = sorted(core for core in cores if core is not None)
    if not known:
        return "the job"
    return f"core{'s' if len(known) > 1 else ''} {format_ranks(known)}"


def _have(workers: set[int]) -> str:
    """An event about one worker names it already."""
    return "has" if len(workers) == 1 else f"{names_of(workers)} have"


def _on(workers: set[int]) -> str:
    return f" ({names_of(workers)})" if len(workers) > 1 else ""
