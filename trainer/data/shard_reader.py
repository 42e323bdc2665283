"""Shards as samples: local ones mapped into memory, those of a bucket fetched; some ahead; commands as they come."""

from __future__ import annotations

import contextlib
import hashlib
import mmap
import tarfile
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from trainer.data.tar_samples import Content, Sample, StrictHeader, UnusualTarError, group_files, read_samples
from trainer.errors import TrainerError
from trainer.storage import objects
from trainer.storage.background_io import complete
from trainer.storage.pipe_urls import is_pipe
from trainer.storage.resumable_stream import PART_BYTES, ObjectStream

SHARDS_AHEAD = 4  # shards on their way at once: one connection alone waits for each answer, and one file for its disk
WHOLE_BYTES = 128 * 1024 * 1024  # bytes of a shard that is kept in memory whole; a larger one is streamed
CLOSE_TIMEOUT_S = 1.0  # seconds for the threads that fetch to end; as a rule milliseconds
MAKE_AGAIN = "Make the shards again with --overwrite, or go on without what is lost with --on-bad-shard skip"


@dataclass(frozen=True)
class ShardFile:
    """Where a shard is, and what the manifest says of it: size in bytes and SHA-256, where it says it."""

    url: str
    size: int | None = None
    sha256: str | None = None


def count_samples(url: str) -> int:
    """Samples in a shard, by reading all of it."""
    return sum(1 for _ in read_shard(ShardFile(url)))


def read_shard(shard: ShardFile, verify: bool = False) -> Iterator[Sample]:
    """A shard's samples in order; raises TrainerError naming a damaged shard."""
    if verify or not _is_streamed(shard):
        yield from _samples(shard, _content(shard, verify))
    else:
        yield from _stream_samples(shard.url)


def read_shards(shards: Sequence[ShardFile], verify: bool = False) -> Generator[Iterator[Sample], None, None]:
    """The samples of each shard in turn; meanwhile the next ones are being fetched, or read by the kernel.

    A shard's samples are there to be read until the next one's are asked for.
    """
    waiting = deque(shards)
    opened: deque[Iterator[Sample]] = deque()
    with contextlib.closing(_ShardPrefetcher()) as ahead:
        while waiting or opened:
            while waiting and len(opened) < SHARDS_AHEAD:
                opened.append(ahead.start(waiting.popleft(), verify))
            yield opened.popleft()


class _ShardPrefetcher:
    """Fetches shards, each in a thread of its own; the threads end when all has come, or at `close`.

    A thread that waits for a name server or for an answer to begin cannot be woken. It is a daemon, so that a run can
    end without it.
    """

    def __init__(self) -> None:
        self._threads: list[threading.Thread] = []
        self._arriving: list[_PartialShard] = []
        self._last = threading.Event()  # set when the shard before has opened to come: so the first one comes first
        self._last.set()

    def start(self, shard: ShardFile, verify: bool) -> Iterator[Sample]:
        """A shard's samples, for which something has been set going already."""
        if _is_streamed(shard):
            return read_shard(shard, verify)
        if shard.size is None or objects.is_local(shard.url):
            content: Future[Content] = Future()
            self._start(complete, content, partial(_content, shard, verify))
            return _whole(shard, content)
        arriving = _PartialShard(shard, shard.size, verify)
        self._arriving = [each for each in self._arriving if not each.ended] + [arriving]
        self._start(arriving.fetch, self._last)
        self._last = arriving.has_started
        return _samples(shard, arriving)

    def close(self) -> None:
        """Abandon the shards that will not be read."""
        for each in self._arriving:
            each.abandon()
        deadline = time.monotonic() + CLOSE_TIMEOUT_S
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))

    def _start(self, target: Callable[..., None], *arguments: object) -> None:
        thread = threading.Thread(target=target, args=arguments, name="fetch", daemon=True)
        self._threads = [each for each in self._threads if each.is_alive()] + [thread]
        thread.start()


def _whole(shard: ShardFile, content: Future[Content]) -> Iterator[Sample]:
    yield from _samples(shard, content.result())


class _PartialShard:
    """A bucket's shard while it arrives, read once and in order; a reader waits for bytes that have not come.

    An epoch's first batch so waits for its own samples, not for all shards that are fetched at once. A shard that is
    verified can be read only when all of it has come.
    """

    def __init__(self, shard: ShardFile, size: int, verify: bool = False) -> None:
        self._shard, self._size, self._verify = shard, size, verify
        self._stream: ObjectStream | None = None
        self._abandoned = False
        self._parts: deque[bytes] = deque()  # as they came: to lay them into one array, each would be copied again
        self._came = 0  # bytes that can be read
        self._failure: Exception | None = None
        self._more = threading.Condition()
        self.has_started = threading.Event()  # the first bytes have come, or none will
        self.ended = False  # nothing more will come
        self._part, self._part_begins = b"", 0  # the one that is being read

    def fetch(self, after: threading.Event) -> None:
        """Get all of it, once `after` has happened; what goes wrong is raised where the missing bytes are read."""
        after.wait()
        try:
            with objects.open_object(self._shard.url) as stream:
                self._stream = stream
                if self._abandoned:
                    stream.abandon()
                self._take(stream)
        except Exception as error:
            with self._more:
                self._failure = error
                self._more.notify_all()
        finally:
            self.ended = True
            self.has_started.set()

    def abandon(self) -> None:
        """End the thread of a shard that will not be read."""
        self._abandoned = True
        if self._stream is not None:
            self._stream.abandon()
        self.has_started.set()  # the next one's thread, which may still wait for this one, is to end too

    def _take(self, stream: ObjectStream) -> None:
        digest = hashlib.sha256()
        fetched = 0
        while fetched < self._size:
            part = stream.read(PART_BYTES)
            _check_size(self._shard, stream.size)
            fetched += len(part)
            if self._verify:
                digest.update(part)
                if fetched == self._size:
                    _check_digest(self._shard, digest.hexdigest())
            with self._more:
                self._parts.append(part)
                if not self._verify or fetched == self._size:
                    self._came = fetched
                    self._more.notify_all()
            self.has_started.set()

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, wanted: slice) -> bytes:
        begins = self._part_begins
        if wanted.stop <= begins + len(self._part):  # four times a sample, and nearly always
            return self._part[wanted.start - begins : wanted.stop - begins]
        start, stop = wanted.start, min(wanted.stop, self._size)
        if self._came < stop:
            self._await(stop)
        if start >= stop:  # behind the end
            return b""
        while self._part_begins + len(self._part) <= start:
            self._go_on()
        pieces = [self._part[start - self._part_begins : stop - self._part_begins]]
        while self._part_begins + len(self._part) < stop:
            self._go_on()
            pieces.append(self._part[: stop - self._part_begins])
        return b"".join(pieces)

    def _await(self, needed: int) -> None:
        with self._more:
            self._more.wait_for(lambda: self._came >= needed or self._failure is not None)
            if self._came < needed and self._failure is not None:
                raise self._failure

    def _go_on(self) -> None:
        self._part_begins += len(self._part)
        self._part = self._parts.popleft()


def _is_streamed(shard: ShardFile) -> bool:
    if objects.is_bucket(shard.url):
        return shard.size is None or shard.size > WHOLE_BYTES
    return is_pipe(shard.url)


def _content(shard: ShardFile, verify: bool) -> Content:
    content: Content = _map_file(shard.url) if objects.is_local(shard.url) else objects.read(shard.url)
    _check_size(shard, len(content))
    if verify:
        _check_digest(shard, hashlib.sha256(content).hexdigest())  # type: ignore[arg-type]
    return content


def _check_digest(shard: ShardFile, sha256: str) -> None:
    if shard.sha256 not in (None, sha256):
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


def _map_file(path: str) -> Content:
    if Path(path).exists() and not Path(path).is_file():  # a named pipe would be waited on for ever
        raise TrainerError(f"Cannot read {path}", why="it is no file", remedy=MAKE_AGAIN)
    try:
        with Path(path).open("rb") as file:
            content = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except ValueError:  # there is nothing to map in an empty file
        return b""
    except OSError as error:
        raise TrainerError(f"Cannot read {path}", why=error.strerror or str(error)) from error
    if hasattr(mmap, "MADV_WILLNEED"):
        content.madvise(mmap.MADV_WILLNEED)  # waiting for a page holds the interpreter lock: load them now
    return content


def _samples(shard: ShardFile, content: Content) -> Iterator[Sample]:
    given = 0
    try:
        if not len(content):
            raise ValueError("it is empty")
        for sample in read_samples(shard.url, content):
            yield sample
            given += 1
    except ValueError as error:
        raise _damage_error(shard.url, error) from error
    except UnusualTarError:
        for number, sample in enumerate(_stream_samples(shard.url)):
            if number >= given:
                yield sample


def _stream_samples(url: str) -> Iterator[Sample]:
    try:
        with objects.open_stream(url) as stream, contextlib.closing(_read_archive(url, stream)) as expanded:
            yield from expanded
    except (tarfile.TarError, EOFError, ValueError) as error:
        raise _damage_error(url, error) from error


def _read_archive(url: str, stream: Any) -> Generator[Sample, None, None]:
    with tarfile.open(fileobj=stream, mode="r|*", tarinfo=StrictHeader) as archive:
        yield from group_files(url, _files(url, archive))


def _files(url: str, archive: tarfile.TarFile) -> Iterator[tuple[str, bytes]]:
    for member in archive:
        if (member.issym() or member.islnk()) and "." in member.name.rpartition("/")[2][1:]:
            raise TrainerError(
                f"Shard {url} holds links where files should be",
                why=f"{member.name} is one to {member.linkname}",
                remedy="Make it again with tar --dereference --hard-dereference",
            )
        content = archive.extractfile(member) if member.isreg() else None
        if content is not None:
            yield member.name, content.read()
        archive.members = []  # type: ignore[attr-defined]  # else it would keep every header


def _damage_error(url: str, error: Exception) -> TrainerError:
    return TrainerError(f"Shard {url} is damaged or cut off", why=str(error), remedy=MAKE_AGAIN)
