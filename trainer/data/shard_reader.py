"""Read shards as samples: map local ones into memory, fetch those of a bucket ahead, stream the others."""

from __future__ import annotations

import contextlib
import hashlib
import mmap
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from queue import SimpleQueue

from trainer.data.tar_samples import (
    CompressedTarError,
    Content,
    ForwardBytes,
    LinkInTarError,
    Sample,
    decompressed,
    group_files,
    read_files,
)
from trainer.errors import TrainerError
from trainer.storage import objects
from trainer.storage.background_io import start_thread
from trainer.storage.pipe_urls import is_pipe
from trainer.storage.resumable_stream import PART_BYTES, ObjectStream

SHARDS_AHEAD = 4  # shards fetched at once: a single connection waits for each answer, a single file for its disk
WHOLE_BYTES = 128 * 1024 * 1024  # a shard up to this size is kept in memory whole, a larger one is streamed
CLOSE_TIMEOUT_S = 1.0  # until the threads that fetch have ended, which usually takes milliseconds
MAKE_AGAIN = "Make the shards again with --overwrite, or continue without the lost samples with --on-bad-shard skip"


@dataclass(frozen=True)
class ShardFile:
    """Where a shard is, what a manifest states about it, and how many samples it holds (0: not counted yet)."""

    url: str
    size: int | None = None  # bytes
    sha256: str | None = None  # to be verified when the shard is read
    samples: int = 0

    @property
    def is_listed(self) -> bool:
        """Return whether a manifest states the number of samples; otherwise they have been counted."""
        return self.size is not None


def count_samples(url: str) -> int:
    """Return the samples in a shard, by reading all of it."""
    return sum(1 for _ in read_shard(ShardFile(url)))


def read_shard(shard: ShardFile) -> Iterator[Sample]:
    """Yield a shard's samples in order; raise TrainerError naming a damaged shard."""
    if shard.sha256 is not None or not _is_streamed(shard):
        yield from _samples(shard.url, partial(_content, shard))
    else:
        yield from _stream_samples(shard.url)


def read_shards(shards: Sequence[ShardFile]) -> Generator[Iterator[Sample], None, None]:
    """Yield the samples of each shard in turn, while the next shards are fetched or read by the kernel.

    The caller must read a shard's samples before it takes the next shard.
    """
    waiting = deque(shards)
    opened: deque[Iterator[Sample]] = deque()
    with contextlib.closing(_ShardPrefetcher()) as prefetcher:
        while waiting or opened:
            while waiting and len(opened) < SHARDS_AHEAD:
                opened.append(prefetcher.start(waiting.popleft()))
            yield opened.popleft()


class _ShardPrefetcher:
    """Fetches each shard in its own thread, which ends when the shard is complete, or at `close`.

    A thread that waits for a name server, or for an answer to begin, cannot be woken. It is a daemon, so that a run
    can end without it.
    """

    def __init__(self) -> None:
        self._threads: list[threading.Thread] = []
        self._arriving: list[_ArrivingShard] = []
        self._last = threading.Event()  # set when the shard before begins to arrive: the first one comes first
        self._last.set()

    def start(self, shard: ShardFile) -> Iterator[Sample]:
        """Begin to fetch a shard, and return its samples."""
        if _is_streamed(shard):
            return read_shard(shard)
        if shard.size is None or objects.is_local(shard.url):
            return _samples(shard.url, start_thread(partial(_content, shard), "map").result)
        arriving = _ArrivingShard(shard, shard.size)
        self._arriving = [pending for pending in self._arriving if not pending.has_ended] + [arriving]
        thread = threading.Thread(target=arriving.fetch, args=(self._last,), name="fetch", daemon=True)
        self._threads = [running for running in self._threads if running.is_alive()] + [thread]
        thread.start()
        self._last = arriving.has_started
        return _samples(shard.url, lambda: ForwardBytes(arriving.parts()))

    def close(self) -> None:
        """Abandon the shards that will not be read."""
        for shard in self._arriving:
            shard.abandon()
        deadline = time.monotonic() + CLOSE_TIMEOUT_S
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))


class _ArrivingShard:
    """A shard that one thread fetches from a bucket while another reads it once, in order.

    So an epoch's first batch waits for its own samples, not for all shards that are fetched at once. A shard that is
    verified can be read only when all of it has come.
    """

    def __init__(self, shard: ShardFile, size: int) -> None:
        self._shard, self._size = shard, size
        self._stream: ObjectStream | None = None
        self._is_abandoned = False
        self._came: SimpleQueue[bytes | Exception] = SimpleQueue()  # the parts, or why there are no more
        self.has_started = threading.Event()  # the first bytes have come, or none will
        self.has_ended = False  # nothing more will come

    def fetch(self, after: threading.Event) -> None:
        """Fetch all of it once `after` is set; `parts` raises any error."""
        after.wait()
        try:
            with objects.open_object(self._shard.url) as stream:
                self._stream = stream
                if self._is_abandoned:
                    stream.abandon()
                self._take(stream)
        except Exception as error:
            self._came.put(error)
        finally:
            self.has_ended = True
            self.has_started.set()

    def parts(self) -> Iterator[bytes]:
        """Yield the bytes as they come."""
        read = 0
        while read < self._size:
            part = self._came.get()
            if isinstance(part, Exception):
                raise part
            read += len(part)
            yield part

    def abandon(self) -> None:
        """End the thread of a shard that will not be read."""
        self._is_abandoned = True
        if self._stream is not None:
            self._stream.abandon()
        self.has_started.set()  # the next shard's thread, which may be waiting for this one, has to end too

    def _take(self, stream: ObjectStream) -> None:
        digest = hashlib.sha256()
        fetched, parts = 0, []
        while fetched < self._size:
            part = stream.read(PART_BYTES)
            _check_size(self._shard, stream.size)
            fetched += len(part)
            if self._shard.sha256 is None:
                self._came.put(part)
            else:
                digest.update(part)
                parts.append(part)
            self.has_started.set()
        if self._shard.sha256 is not None:
            _check_digest(self._shard, digest.hexdigest())
        for part in parts:
            self._came.put(part)


def _is_streamed(shard: ShardFile) -> bool:
    if objects.is_bucket(shard.url):
        return shard.size is None or shard.size > WHOLE_BYTES
    return is_pipe(shard.url)


def _content(shard: ShardFile) -> Content:
    content = _map_file(shard.url) if objects.is_local(shard.url) else objects.read(shard.url)
    _check_size(shard, len(content))
    if shard.sha256 is not None:
        _check_digest(shard, hashlib.sha256(content).hexdigest())
    return content


def _check_digest(shard: ShardFile, sha256: str) -> None:
    if shard.sha256 != sha256:
        raise TrainerError(
            f"Shard {shard.url} is damaged",
            why="its checksum is not the one in the manifest",
            remedy=MAKE_AGAIN,
        )


def _check_size(shard: ShardFile, size: int | None) -> None:
    if None not in (size, shard.size) and size != shard.size:
        raise TrainerError(
            f"Shard {shard.url} is damaged or cut off",
            why=f"it has {size} bytes, its manifest says {shard.size}",
            remedy=MAKE_AGAIN,
        )


def _map_file(path: str) -> mmap.mmap | bytes:
    try:
        with objects.open_stream(path) as file:
            content = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except ValueError:  # an empty file cannot be mapped
        return b""
    if hasattr(mmap, "MADV_WILLNEED"):
        content.madvise(mmap.MADV_WILLNEED)  # waiting for a page holds the interpreter lock: load them now
    return content


def _samples(url: str, get_content: Callable[[], Content]) -> Iterator[Sample]:
    try:
        yield from _checked_samples(url, get_content())
    except CompressedTarError:
        yield from _stream_samples(url)


def _stream_samples(url: str) -> Iterator[Sample]:
    with objects.open_stream(url) as stream:
        yield from _checked_samples(url, decompressed(stream))


def _checked_samples(url: str, content: Content) -> Iterator[Sample]:
    """Yield a tar file's samples; raise TrainerError where it is damaged, or CompressedTarError."""
    try:
        yield from group_files(url, read_files(content))
    except CompressedTarError:
        raise
    except ValueError as error:
        raise TrainerError(f"Shard {url} is damaged or cut off", why=str(error), remedy=MAKE_AGAIN) from error
    except LinkInTarError as error:
        name, target = error.args
        raise TrainerError(
            f"Shard {url} holds links instead of files",
            why=f"{name} links to {target}",
            remedy="Make it again with tar --dereference --hard-dereference",
        ) from error
