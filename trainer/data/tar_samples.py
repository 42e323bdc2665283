"""Read a tar file's bytes as samples, with every header checked.

Samples are dictionaries as webdataset groups them: `__key__`, `__url__`, and a field for each file of that key.
Python's tarfile takes whatever is not a header for the end of the archive, and is too slow for small images.
"""

from __future__ import annotations

import bz2
import lzma
import re
import struct
import zlib
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache, partial
from itertools import chain
from typing import IO, Any, Protocol

from trainer.shards.manifest import BLOCK_BYTES

HEADER = struct.Struct("100s24x12s12x8ss100s88x155s12x")  # name, size, checksum, kind, link's target, name's prefix
BLANKS = 8 * ord(" ")  # a checksum is the sum of its header's bytes, with blanks for its own eight
SUMMED = 65521  # sums are known modulo this
PART_BYTES = 256 * 1024  # read from a stream at a time, and decompressed at a time
LARGEST_SAMPLE_BYTES = 512 * 1024 * 1024  # more than the largest image that is decoded has uncompressed
LARGEST_HEADER_BYTES = 1024 * 1024  # of an extended header, which may hold long names and attributes
LARGEST_DICTIONARY_BYTES = 256 * 1024 * 1024  # of memory for xz, whose highest level takes 65 MiB
REGULAR, LINKS = (b"0", b"\0"), (b"1", b"2")
WITHOUT_DATA = (*LINKS, b"3", b"4", b"5", b"6")  # devices, directories and pipes: their size means nothing
LONG_NAMES = {b"L": "path", b"K": "linkpath"}  # GNU tar's, of the file that comes next
DECISIVE = (b"path=", b"size=", b"GNU.")  # records that matter; webdataset's writers put times before each file
RECORDS, GLOBAL_RECORDS, SPARSE = b"x", b"g", b"S"  # POSIX's, of the file that comes next and of all files
RECORD = re.compile(rb"(\d{1,9}) ([^=]*)=")  # POSIX's: `LENGTH KEY=VALUE` and a newline
DAMAGED_RECORDS = "an extended header is damaged"
NO_END = "it ends without the blocks of zeros that end a tar file"  # as one that was cut between two files
COMPRESSIONS: dict[bytes, Callable[[], Any]] = {
    b"\x1f\x8b": partial(zlib.decompressobj, 16 + zlib.MAX_WBITS),
    b"BZh": bz2.BZ2Decompressor,
    b"\xfd7zXZ\0": partial(lzma.LZMADecompressor, memlimit=LARGEST_DICTIONARY_BYTES),
}
"""Decompressors of gzip, bzip2 and xz, by what such files begin with."""

Sample = dict[str, Any]


class Content(Protocol):
    """A file's bytes."""

    def __getitem__(self, part: slice) -> bytes: ...


class CompressedTarError(ValueError):
    """A file is compressed, and has to be read through `decompressed`."""


class LinkInTarError(Exception):
    """A tar file holds a link where a sample's file should be; its arguments are the link's name and target."""


class ForwardBytes:
    """A file's bytes from parts that arrive one by one; slices must be taken in order of their beginnings."""

    def __init__(self, parts: Iterator[bytes]) -> None:
        self._parts = parts
        self._part, self._begins = b"", 0  # the current one, and its offset in the file

    def __getitem__(self, span: slice) -> bytes:
        """Return these bytes, fewer where the file ends; wait until they have come."""
        start, stop = span.start, span.stop
        if stop <= self._begins + len(self._part):  # four times per sample, and nearly always
            return self._part[start - self._begins : stop - self._begins]
        while self._begins + len(self._part) <= start and self._next():
            pass
        pieces = [self._part[max(0, start - self._begins) : stop - self._begins]]
        while self._begins + len(self._part) < stop and self._next():
            pieces.append(self._part[: stop - self._begins])
        return b"".join(pieces)

    def _next(self) -> bool:
        part = next(self._parts, b"")
        if part:
            self._begins += len(self._part)
            self._part = part
        return bool(part)


def decompressed(stream: IO[bytes]) -> ForwardBytes:
    """Return a stream's bytes, decompressed if they are gzip, bzip2 or xz; slices raise ValueError for damage."""
    first = stream.read(BLOCK_BYTES)
    parts = chain((first,), iter(partial(stream.read, PART_BYTES), b""))
    make = next((make for magic, make in COMPRESSIONS.items() if first.startswith(magic)), None)
    return ForwardBytes(parts if make is None else filter(None, _decompress(parts, make)))


def _decompress(parts: Iterator[bytes], make: Callable[[], Any]) -> Iterator[bytes]:
    """Yield the content of compressed files, one after the other; raise ValueError where they are damaged."""
    engine = make()
    for part in parts:
        rest, content = part, b""
        while rest or len(content) == PART_BYTES:  # after that much, the engine may hold more
            if engine.eof:
                engine = make()
            try:
                content = engine.decompress(rest, PART_BYTES)
            except (OSError, zlib.error, lzma.LZMAError) as error:
                raise ValueError(str(error)) from error
            yield content
            if engine.eof:
                rest, content = engine.unused_data.lstrip(b"\0"), b""
            else:
                rest = getattr(engine, "unconsumed_tail", b"")  # zlib's; the others keep what they have not used
    if not engine.eof:
        raise ValueError("it ends in the middle of what is compressed")


def group_files(url: str, files: Iterable[tuple[str, bytes]]) -> Iterator[Sample]:
    """Yield the samples of a tar file: consecutive files that share a name up to its first dot, as in webdataset.

    Raises ValueError where fields come twice or a sample is too large.
    """
    key, sample, size = "", Sample(), 0
    for name, content in files:
        begins = name.rfind("/") + 1
        dot = name.find(".", begins)
        if dot <= begins:  # no field's name, or a hidden file
            continue
        if name[:dot] != key:
            if sample:
                yield sample
            key, size = name[:dot], 0
            sample = {"__key__": key, "__url__": url}
        field = name[dot + 1 :].lower()
        if field in sample:
            raise ValueError(f"{name} occurs twice")
        size += BLOCK_BYTES + len(content)
        if size > LARGEST_SAMPLE_BYTES:
            raise ValueError(f"sample {key} has more than {LARGEST_SAMPLE_BYTES} bytes")
        sample[field] = content
    if sample:
        yield sample


def read_files(content: Content) -> Iterator[tuple[str, bytes]]:
    """Yield names and contents of a tar file's regular files, as POSIX pax(1) describes it.

    Raises ValueError where it is damaged, and LinkInTarError.
    """
    offset = 0
    records: dict[str, bytes] = {}  # what extended headers say about the file that comes next
    while header := content[offset : offset + BLOCK_BYTES]:
        if not header[0] and header.count(0) == BLOCK_BYTES:
            return
        if not offset and header.startswith(tuple(COMPRESSIONS)):
            raise CompressedTarError("it is compressed")
        if len(header) < BLOCK_BYTES:
            raise ValueError("it ends in the middle of a header")
        name, digits, number, kind, target, prefix = HEADER.unpack(header)
        if (_sum(header) - _sum(number) + BLANKS - _octal(number)) % SUMMED:
            raise ValueError("a header's checksum is wrong")
        start = offset + BLOCK_BYTES
        size = _octal(digits) if digits[0] < 0x80 else int.from_bytes(digits[1:], "big")
        if kind not in REGULAR and kind in WITHOUT_DATA:
            size = 0
        elif "size" in records and kind in REGULAR:
            size = _decimal(records["size"])
        limit = LARGEST_SAMPLE_BYTES if kind in REGULAR else LARGEST_HEADER_BYTES
        if size > limit:
            raise ValueError(f"{_text(name)} has {size} bytes, more than {limit}")
        data = content[start : start + size]
        if len(data) < size:
            raise ValueError("it ends in the middle of a file")
        offset = start + -(-size // BLOCK_BYTES) * BLOCK_BYTES  # whole blocks
        if kind in REGULAR and not records and prefix[0] == 0:  # as nearly all are
            yield _text(name), data
            continue
        if kind == RECORDS:
            if any(marker in data for marker in DECISIVE):
                records.update(_records(data))
        elif kind in LONG_NAMES:
            records[LONG_NAMES[kind]] = data
        elif kind != GLOBAL_RECORDS:
            has_prefix = prefix[0] and header[257:263] == b"ustar\0"  # GNU tar has other fields there
            path = _text(records.get("path") or (_join(prefix, name) if has_prefix else name))
            if kind == SPARSE or any(key.startswith("GNU.sparse") for key in records):
                raise ValueError(f"{path} is a sparse file")
            if kind in LINKS and "." in path.rpartition("/")[2][1:]:
                raise LinkInTarError(path, _text(records.get("linkpath") or target))
            if kind in REGULAR:
                yield path, data
            records.clear()
    raise ValueError(NO_END if offset else "it is empty")


def _records(data: bytes) -> dict[str, bytes]:
    """Parse the records of an extended header; raise ValueError."""
    records, begins = {}, 0
    while begins < len(data):
        record = RECORD.match(data, begins)
        if record is None or (end := begins + int(record[1])) <= record.end():
            raise ValueError(DAMAGED_RECORDS)
        records[record[2].decode()] = data[record.end() : end - 1]
        begins = end
    return records


def _decimal(digits: bytes) -> int:
    if not digits.isdigit():  # int() accepts signs: with a negative size, a file would be read again without end
        raise ValueError(DAMAGED_RECORDS)
    return int(digits)


def _join(prefix: bytes, name: bytes) -> bytes:
    return prefix.split(b"\0", 1)[0] + b"/" + name


def _text(name: bytes) -> str:
    return name.split(b"\0", 1)[0].decode("utf-8", "surrogateescape")


def _sum(content: bytes) -> int:
    """Return the sum of bytes modulo SUMMED, plus 1: the lower half of Adler-32 (RFC 1950), which is fast."""
    return zlib.adler32(content) & 0xFFFF


@lru_cache(maxsize=4096)  # the sizes and checksums of small samples are few, and come again and again
def _octal(digits: bytes) -> int:
    text = digits.split(b"\0", 1)[0].strip()
    if not re.fullmatch(rb"[0-7]+", text):  # int() accepts signs and underscores
        raise ValueError("there is something else in place of a header")
    return int(text, 8)
