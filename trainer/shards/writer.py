"""Write shards in several processes at once, so that a killed run can be resumed.

The samples of each shard are decided before the first is written, so the bytes are the same for any number of
processes. `manifest.unfinished.json` lists the shards that are done, and what they are made from; the manifest
replaces it at the end.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import io
import json
import multiprocessing
import signal
import threading
import time
from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import asdict, dataclass, field, fields
from typing import Any

import google_crc32c

from trainer.distributed.child_cleanup import die_with_parent
from trainer.errors import TrainerError, check_fields, check_schema
from trainer.shards.manifest import MALFORMED, UNFINISHED, Shard
from trainer.shards.sources import ImageSample, ImageSource, UnreadableImageError
from trainer.storage import objects

KEY = "%07d"  # seven digits, as in PyTorch/XLA's WebDataset tutorial
SCHEMA = 1  # of the list of finished shards
SHARD_FIELDS = tuple(shard_field.name for shard_field in fields(Shard))
SAVE_INTERVAL_S = 0.1  # seconds
BUCKET_SAVE_INTERVAL_S = 1.0  # Cloud Storage takes one new version of an object per second
STOPS = (signal.SIGINT, signal.SIGTERM)
VERIFIED_AT_ONCE = 8  # finished shards that are read again to check them


@dataclass(frozen=True)
class Task:
    """A shard to be written: samples `start` up to `stop` (exclusive) of a split's sequence."""

    name: str
    split: str
    start: int
    stop: int


@dataclass(frozen=True)
class WrittenShard:
    """A shard that is written; `skipped` explains each image that was left out."""

    shard: Shard
    crc32c: str  # as Cloud Storage states it: base64
    skipped: tuple[str, ...] = ()


@dataclass(frozen=True)
class Job:
    """The source, order and place of the shards, as every writing process needs them."""

    source: ImageSource
    orders: dict[str, Sequence[int]]
    out: str
    skip_bad: bool

    def write(self, task: Task) -> WrittenShard:
        """Make a shard and put it in its place; raises TrainerError."""
        sample_at = self.source.splits[task.split][1]
        samples, skipped = [], []
        for index in self.orders[task.split][task.start : task.stop]:
            try:
                samples.append(sample_at(index))
            except UnreadableImageError as error:  # noqa: PERF203
                if not self.skip_bad:
                    raise
                skipped.append(f"{error.what}: {error.why}")
        content = shard_bytes(samples, task.start)
        objects.write(objects.join(self.out, task.name), content)
        shard = Shard(task.name, len(samples), len(content), hashlib.sha256(content).hexdigest())
        return WrittenShard(shard, _crc32c(content), tuple(skipped))


def shard_bytes(samples: Sequence[ImageSample], first_key: int) -> bytes:
    """Return a shard's bytes; its times and owners are fixed, so that equal samples give equal bytes."""
    import webdataset as wds  # here, since it loads PyTorch: neither --help nor a refusal should wait for that

    stream = io.BytesIO()
    with wds.TarWriter(stream, user="root", group="root", mtime=0, encoder=False) as writer:
        for key, sample in enumerate(samples, first_key):
            writer.write({"__key__": KEY % key, "cls": b"%d" % sample.label, sample.extension: sample.content})
    return stream.getvalue()


# --- in processes ---------------------------------------------------------------------------------------------------

_job: Job | None = None  # inherited by the writing processes: samples may be functions that cannot be pickled


def write_shards(job: Job, tasks: Sequence[Task], processes: int) -> Generator[WrittenShard, None, None]:
    """Write the shards and yield each when it is ready. Raises TrainerError.

    Closing the generator kills the processes, perhaps in the middle of a shard, which is then not stored.
    """
    if processes <= 1 or len(tasks) <= 1:
        yield from map(job.write, tasks)
        return
    import webdataset  # noqa: F401  # once, and not in each of the processes that are forked here

    context = multiprocessing.get_context("fork")
    others = set(multiprocessing.active_children())
    with ProcessPoolExecutor(min(processes, len(tasks)), context, _begin, (job,)) as pool:
        try:
            with defer_signals(STOPS):
                ready: list[Future[WrittenShard]] = [pool.submit(_write, task) for task in tasks]
            for future in as_completed(ready):
                yield future.result()
        except BrokenProcessPool as error:
            raise TrainerError(
                "A process that writes shards was killed",
                why="the machine may be out of memory",
                remedy="The same command, with a smaller --workers, resumes where it stopped",
            ) from error
        finally:
            for process in set(multiprocessing.active_children()) - others:
                process.kill()
            pool.shutdown(cancel_futures=True)


@contextlib.contextmanager
def defer_signals(numbers: Sequence[signal.Signals]) -> Iterator[None]:
    """Delay signals while processes are forked: Python discards exceptions of a handler there."""
    handlers = {number: current for number in numbers if callable(current := signal.getsignal(number))}
    if threading.current_thread() is not threading.main_thread():
        handlers = {}  # handlers run in the main thread only
    received: list[int] = []
    for number in handlers:
        signal.signal(number, lambda number, _: received.append(number))
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        for first in received[:1]:
            signal.raise_signal(first)


def _begin(job: Job) -> None:
    global _job
    _job = job
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all; the first process ends the others in order
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    die_with_parent()


def _write(task: Task) -> WrittenShard:
    assert _job is not None
    return _job.write(task)


# --- what is done already -------------------------------------------------------------------------------------------


@dataclass
class WriteProgress:
    """The list of finished shards, stored next to them."""

    out: str
    made_from: dict[str, Any]  # everything that decides a shard's bytes
    done: dict[str, WrittenShard] = field(default_factory=dict)
    _saved_at: float = 0.0

    @property
    def url(self) -> str:
        """Return where the list is."""
        return objects.join(self.out, UNFINISHED)

    def add(self, written: WrittenShard) -> None:
        """Record one more finished shard, and save the list unless it has just been saved."""
        self.done[written.shard.name] = written
        pause = BUCKET_SAVE_INTERVAL_S if objects.is_bucket(self.out) else SAVE_INTERVAL_S
        if time.monotonic() - self._saved_at >= pause:
            self.save()

    def save(self, patience: float | None = None) -> None:
        """Write the list; `patience` is the same as for `objects.write`."""
        done = [asdict(written) for written in self.done.values()]
        content = {"schema": SCHEMA, "made_from": self.made_from, "done": done}
        objects.write(self.url, (json.dumps(content, indent=1) + "\n").encode(), patience=patience)
        self._saved_at = time.monotonic()

    def load(self) -> None:
        """Add the shards of an earlier run that are still whole; raise TrainerError if it made another set."""
        try:
            content = json.loads(objects.read_document(self.url))
            check_schema(self.url, content["schema"], SCHEMA, "start over with --overwrite")
            for entry in content["done"]:
                check_fields(self.url, entry["shard"], SHARD_FIELDS, "start over with --overwrite")
            before = dict(content["made_from"])
            listed = [
                WrittenShard(Shard(**entry["shard"]), entry["crc32c"], tuple(entry["skipped"]))
                for entry in content["done"]
            ]
        except MALFORMED as error:
            raise TrainerError(
                f"{self.url} cannot be read", why=str(error), remedy="Start over with --overwrite"
            ) from error
        differ = [name for name, value in self.made_from.items() if before.get(name) != value]
        if differ:
            raise TrainerError(
                f"{self.out} holds unfinished shards of other arguments",
                why=f"{', '.join(differ)} differ",
                remedy="Repeat those arguments to resume, or give another --out or --overwrite",
            )
        with ThreadPoolExecutor(VERIFIED_AT_ONCE, thread_name_prefix="verify") as pool:
            whole = pool.map(lambda written: _is_whole(self.out, written), listed)
            self.done = {written.shard.name: written for written, ok in zip(listed, whole, strict=True) if ok}


def _is_whole(out: str, written: WrittenShard) -> bool:
    """Return whether a shard is there as it was written; Cloud Storage computes its objects' checksums itself."""
    url, expected = objects.join(out, written.shard.name), (written.shard.size, written.crc32c)
    if objects.is_bucket(url):
        stored = objects.find_object(url)
        return stored is not None and (stored.size, stored.crc32c) == expected
    try:
        content = objects.read(url)
    except objects.MissingError:
        return False
    return (len(content), _crc32c(content)) == expected


def _crc32c(content: bytes) -> str:
    return base64.b64encode(int(google_crc32c.value(content)).to_bytes(4, "big")).decode()
