"""Shards as samples: local ones mapped into memory, those of a bucket fetched; some ahead; commands as they come.

Samples are dictionaries as webdataset groups them: `__key__`, `__url__`, and a field for each file of that key.
"""

from __future__ import annotations

import contextlib
import hashlib
import mmap
import tarfile
import threading
import zlib
from collections import deque
from collections.abc import Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from webdataset.tariterators import tar_file_expander

from trainer import objects
from trainer.errors import TrainerError
from trainer.streams import PART

AHEAD = 4  # shards on their way at once: one connection alone waits for each answer, and one file for its disk
WHOLE = 128 * 1024 * 1024  # bytes of a shard that is kept in memory whole; a larger one is streamed
BLOCK = 512  # of a tar file
CHECKSUM = slice(148, 156)  # of a header: the sum of its bytes, the checksum's own eight taken for blanks
SUMMED = 65521  # what a sum is known modulo
REGULAR = (b"0", b"\0")
MAKE_AGAIN = "Make the shards again with --overwrite, or go on without what is lost with --on-bad-shard skip"
Sample = dict[str, Any]


@dataclass(frozen=True)
class ShardFile:
    """Where a shard is, and what the manifest says of it: size in bytes and SHA-256, where it says it."""

    url: str
    size: int | None = None
    sha256: str | None = None


class _Bytes(Protocol):
    def __len__(self) -> int: ...
    def __getitem__(self, part: slice) -> bytes: ...


class _UnusualTarError(Exception):
    """Something that webdataset's own reader knows, and this module does not."""


def count_samples(url: str) -> int:
    """Samples in a shard, by reading all of it."""
    return sum(1 for _ in read_shard(ShardFile(url)))


def read_shard(shard: ShardFile, verify: bool = False) -> Iterator[Sample]:
    """A shard's samples in order; raises TrainerError naming a damaged shard."""
    if verify or not _is_streamed(shard):
        yield from _samples(shard, _content(shard, verify))
    else:
        yield from _streamed(shard.url)


def read_shards(shards: Sequence[ShardFile], verify: bool = False) -> Iterator[Iterator[Sample]]:
    """The samples of each shard in turn; meanwhile the next ones are being fetched, or read by the kernel.

    A shard's samples are there to be read until the next one's are asked for.
    """
    waiting = deque(shards)
    begun: deque[Iterator[Sample]] = deque()
    with ThreadPoolExecutor(AHEAD, thread_name_prefix="fetch") as pool, contextlib.closing(_Fetching(pool)) as ahead:
        while waiting or begun:
            while waiting and len(begun) < AHEAD:
                begun.append(ahead.begun(waiting.popleft(), verify))
            yield begun.popleft()


class _Fetching:
    """Sets shards going in a pool's threads, one after the other."""

    def __init__(self, pool: ThreadPoolExecutor) -> None:
        self._pool = pool
        self._closed = threading.Event()
        self._last = threading.Event()  # set when the shard before has begun to come: so the first one comes first
        self._last.set()

    def begun(self, shard: ShardFile, verify: bool) -> Iterator[Sample]:
        """A shard's samples, for which something has been set going already."""
        if _is_streamed(shard):
            return read_shard(shard, verify)
        if verify or shard.size is None or objects.is_local(shard.url):
            return _whole(shard, self._pool.submit(_content, shard, verify))
        arriving = _Arriving(shard, shard.size, self._closed)
        self._pool.submit(arriving.fetch, self._last)
        self._last = arriving.begun
        return _samples(shard, arriving)

    def close(self) -> None:
        """Let go of what nobody will read."""
        self._closed.set()
        self._pool.shutdown(wait=False, cancel_futures=True)


def _whole(shard: ShardFile, content: Future[_Bytes]) -> Iterator[Sample]:
    yield from _samples(shard, content.result())


class _Arriving:
    """A bucket's shard on its way: what has come of it can be read, once and in order; who reads on waits for more.

    So an epoch's first batch waits for its own samples, not for all of the shards that are fetched at once.
    """

    def __init__(self, shard: ShardFile, size: int, closed: threading.Event) -> None:
        self._shard, self._size, self._closed = shard, size, closed
        self._parts: deque[bytes] = deque()  # as they came: to lay them into one array, each would be copied again
        self._came = 0
        self._failure: Exception | None = None
        self._more = threading.Condition()
        self.begun = threading.Event()  # the first bytes have come, or none will
        self._part, self._part_begins = b"", 0  # the one that is being read

    def fetch(self, after: threading.Event) -> None:
        """Get all of it, once `after` has happened; what goes wrong is raised where the missing bytes are read."""
        after.wait()
        try:
            with objects.open_object(self._shard.url) as stream:
                while self._came < self._size:
                    if self._closed.is_set():
                        raise TrainerError(f"Shard {self._shard.url} is not read any more")
                    part = stream.read(PART)
                    _check_size(self._shard, stream.size)
                    with self._more:
                        self._parts.append(part)
                        self._came += len(part)
                        self._more.notify_all()
                    self.begun.set()
        except Exception as error:
            with self._more:
                self._failure = error
                self._more.notify_all()
        finally:
            self.begun.set()

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, wanted: slice) -> bytes:
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
        return shard.size is None or shard.size > WHOLE
    return objects.is_pipe(shard.url)


def _content(shard: ShardFile, verify: bool) -> _Bytes:
    content: _Bytes = _mapped(shard.url) if objects.is_local(shard.url) else objects.read(shard.url)
    _check_size(shard, len(content))
    if verify and shard.sha256 is not None and hashlib.sha256(content).hexdigest() != shard.sha256:  # type: ignore[arg-type]
        raise TrainerError(
            f"Shard {shard.url} is damaged",
            why="its checksum is not the one in the manifest",
            remedy=MAKE_AGAIN,
        )
    return content


def _check_size(shard: ShardFile, size: int | None) -> None:
    if None not in (size, shard.size) and size != shard.size:
        raise TrainerError(
            f"Shard {shard.url} is damaged or cut off",
            why=f"it has {size} bytes, its manifest says {shard.size}",
            remedy=MAKE_AGAIN,
        )


def _mapped(path: str) -> _Bytes:
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
        content.madvise(mmap.MADV_WILLNEED)  # whoever waits for a page holds the interpreter lock: have them come now
    return content


def _samples(shard: ShardFile, content: _Bytes) -> Iterator[Sample]:
    given = 0
    try:
        if not len(content):
            raise ValueError("it is empty")
        for sample in _grouped(shard.url, _members(content)):
            yield sample
            given += 1
    except ValueError as error:
        raise _damaged(shard.url, error) from error
    except _UnusualTarError:
        for number, sample in enumerate(_streamed(shard.url)):
            if number >= given:
                yield sample


def _grouped(url: str, members: Iterable[tuple[str, bytes]]) -> Generator[Sample, None, None]:
    """Files in a row that share a name up to its first dot are a sample's fields, as webdataset has it."""
    key, sample = "", Sample()
    for name, content in members:
        begins = name.rfind("/") + 1
        dot = name.find(".", begins)
        if dot <= begins:  # no field's name, or a hidden file
            continue
        if name[:dot] != key:
            if sample:
                yield sample
            key = name[:dot]
            sample = {"__key__": key, "__url__": url}
        field = name[dot + 1 :].lower()
        if field in sample:
            raise ValueError(f"{name} is in it twice")
        sample[field] = content
    if sample:
        yield sample


def _members(content: _Bytes) -> Iterator[tuple[str, bytes]]:
    """Names and contents of a tar file's members, as POSIX pax(1) describes the ustar format; raises ValueError."""
    offset = 0
    while header := content[offset : offset + BLOCK]:
        if not header[0] and header.count(0) == BLOCK:
            return
        if len(header) < BLOCK:
            raise ValueError("it ends in the middle of a header")
        told = header[CHECKSUM]
        if (_sum(header) - _sum(told) + 8 * ord(" ") - _octal(told)) % SUMMED:
            raise ValueError("a header's checksum is wrong")
        if header[156:157] not in REGULAR or header[345:346] != b"\0" or header[124] & 0x80:
            raise _UnusualTarError
        size = _octal(header[124:136])
        start = offset + BLOCK
        data = content[start : start + size]
        if len(data) < size:
            raise ValueError("it ends in the middle of a file")
        yield header[:100].split(b"\0")[0].decode("utf-8", "surrogateescape"), data
        offset = start + -(-size // BLOCK) * BLOCK
    if offset > len(content):
        raise ValueError("it ends in the middle of a file")


def _sum(content: bytes) -> int:
    """Of its bytes, modulo SUMMED: the lower half of Adler-32 (RFC 1950), ten times as fast as adding them up."""
    return (zlib.adler32(content) & 0xFFFF) - 1


def _octal(digits: bytes) -> int:
    try:
        return int(digits.split(b"\0")[0], 8)
    except ValueError:
        raise ValueError("where a header should be is something else") from None


def _streamed(url: str) -> Iterator[Sample]:
    try:
        with objects.open_stream(url) as stream, contextlib.closing(_expanded(url, stream)) as samples:
            yield from samples
    except (tarfile.TarError, EOFError, ValueError) as error:
        raise _damaged(url, error) from error


def _expanded(url: str, stream: Any) -> Generator[Sample, None, None]:
    members = tar_file_expander([{"url": url, "stream": stream}])
    yield from _grouped(url, ((member["fname"], member["data"]) for member in members if member))


def _damaged(url: str, error: Exception) -> TrainerError:
    return TrainerError(
        f"Shard {url} is damaged or cut off", why=str(error.args[0]).split(" @ ")[0], remedy=MAKE_AGAIN
    )
