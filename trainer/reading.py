"""Shards as samples: local ones mapped into memory, those of a bucket fetched; some ahead; commands as they come.

Samples are dictionaries as webdataset groups them: `__key__`, `__url__`, and a field for each file of that key.
"""

from __future__ import annotations

import contextlib
import hashlib
import mmap
import tarfile
from collections import deque
from collections.abc import Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from webdataset.tariterators import group_by_keys, tar_file_expander

from trainer import objects
from trainer.errors import TrainerError

AHEAD = 4  # shards on their way at once: one connection alone waits for each answer, and one file for its disk
WHOLE = 128 * 1024 * 1024  # bytes of a shard that is kept in memory whole; a larger one is streamed
BLOCK = 512  # of a tar file
REGULAR = (b"0", b"\0")
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
    """The samples of each shard in turn; meanwhile the next ones are being fetched, or read by the kernel."""
    waiting = deque(shards)
    fetched: deque[tuple[ShardFile, Future[_Bytes] | None]] = deque()
    with ThreadPoolExecutor(AHEAD, thread_name_prefix="fetch") as pool:
        try:
            while waiting or fetched:
                while waiting and len(fetched) < AHEAD:
                    shard = waiting.popleft()
                    whole = not _is_streamed(shard)
                    fetched.append((shard, pool.submit(_content, shard, verify) if whole else None))
                shard, content = fetched.popleft()
                yield read_shard(shard, verify) if content is None else _arrived(shard, content)
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def _arrived(shard: ShardFile, content: Future[_Bytes]) -> Iterator[Sample]:
    yield from _samples(shard, content.result())


def _is_streamed(shard: ShardFile) -> bool:
    if objects.is_bucket(shard.url):
        return shard.size is None or shard.size > WHOLE
    return objects.is_pipe(shard.url)


def _content(shard: ShardFile, verify: bool) -> _Bytes:
    content: _Bytes = _mapped(shard.url) if objects.is_local(shard.url) else objects.read(shard.url)
    if shard.size is not None and len(content) != shard.size:
        raise TrainerError(
            f"Shard {shard.url} is damaged or cut off",
            why=f"it has {len(content)} bytes, its manifest says {shard.size}",
            remedy="Make the shards again with --overwrite",
        )
    if verify and shard.sha256 is not None and hashlib.sha256(content).hexdigest() != shard.sha256:  # type: ignore[arg-type]
        raise TrainerError(
            f"Shard {shard.url} is damaged",
            why="its checksum is not the one in the manifest",
            remedy="Make the shards again with --overwrite",
        )
    return content


def _mapped(path: str) -> _Bytes:
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
        for sample in _grouped(shard.url, _members(content)):
            yield sample
            given += 1
    except _UnusualTarError:
        for number, sample in enumerate(_streamed(shard.url)):
            if number >= given:
                yield sample


def _grouped(url: str, members: Iterable[tuple[str, bytes]]) -> Generator[Sample, None, None]:
    try:
        yield from group_by_keys({"fname": name, "data": data, "__url__": url} for name, data in members)
    except ValueError as error:
        raise _damaged(url, error) from error


def _members(content: _Bytes) -> Iterator[tuple[str, bytes]]:
    """Names and contents of a tar file's members, as POSIX pax(1) describes the ustar format; raises ValueError."""
    offset = 0
    while header := content[offset : offset + BLOCK]:
        if header.count(0) == BLOCK:
            return
        if len(header) < BLOCK:
            raise ValueError("it ends in the middle of a header")
        if int(header[148:156].split(b"\0")[0], 8) != _sum(header) - _sum(header[148:156]) + 8 * ord(" "):
            raise ValueError("a header's checksum is wrong")
        if header[156:157] not in REGULAR or header[345:346] != b"\0" or header[124] & 0x80:
            raise _UnusualTarError
        size = int(header[124:136].rstrip(b" \0"), 8)
        start = offset + BLOCK
        data = content[start : start + size]
        if len(data) < size:
            raise ValueError("it ends in the middle of a file")
        yield header[:100].split(b"\0")[0].decode("utf-8", "surrogateescape"), data
        offset = start + -(-size // BLOCK) * BLOCK
    if offset > len(content):
        raise ValueError("it ends in the middle of a file")


def _sum(header: bytes) -> int:
    """Of its bytes; most are zero, and left out in a fifth of the time that they take to be added."""
    return sum(header.replace(b"\0", b""))


def _streamed(url: str) -> Iterator[Sample]:
    try:
        with objects.open_stream(url) as stream, contextlib.closing(_expanded(url, stream)) as samples:
            yield from samples
    except (tarfile.TarError, EOFError, ValueError) as error:
        raise _damaged(url, error) from error


def _expanded(url: str, stream: Any) -> Generator[Sample, None, None]:
    yield from group_by_keys(tar_file_expander([{"url": url, "stream": stream}]))


def _damaged(url: str, error: Exception) -> TrainerError:
    return TrainerError(f"Shard {url} is damaged or cut off", why=str(error.args[0]).split(" @ ")[0])
