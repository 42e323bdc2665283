"""A tar file's bytes as samples, every header checked.

Samples are dictionaries as webdataset groups them: `__key__`, `__url__`, and a field for each file of that key.
"""

from __future__ import annotations

import struct
import tarfile
import zlib
from collections.abc import Generator, Iterable, Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Protocol

from trainer.shards.manifest import BLOCK

if TYPE_CHECKING:
    from typing_extensions import Self

HEADER = struct.Struct("100s24x12s12x8ss188xs166x")  # name, size, checksum, kind, the prefix's first byte
BLANKS = 8 * ord(" ")  # a checksum is the sum of its header's bytes, its own eight taken for blanks
SUMMED = 65521  # what a sum is known modulo
REGULAR, DIRECTORY, EXTENDED = (b"0", b"\0"), b"5", b"x"
DECISIVE = (b"path=", b"size=", b"GNU.")  # what decides how the file after an extended header is to be read
NO_HEADER = (tarfile.InvalidHeaderError, tarfile.TruncatedHeaderError)  # type: ignore[attr-defined]
NO_END = "it ends without the blocks of zeros that end a tar file"  # by them one cut between two files is known
COMPRESSED = (b"\x1f\x8b", b"BZh", b"\xfd7zXZ\0")  # what gzip, bzip2 and xz begin with

Sample = dict[str, Any]


class Content(Protocol):
    """A file's bytes."""

    def __len__(self) -> int: ...
    def __getitem__(self, part: slice) -> bytes: ...


class UnusualTarError(Exception):
    """Something that Python's own reader knows, and this module does not."""


class StrictHeader(tarfile.TarInfo):
    """For Python's own reader, which takes whatever is no header, or nothing at all, for the archive's end."""

    @classmethod
    def fromtarfile(cls, archive: tarfile.TarFile) -> Self:
        """The next header; raises tarfile.ReadError where something else is."""
        try:
            return super().fromtarfile(archive)
        except NO_HEADER as error:
            raise tarfile.ReadError(f"where a header should be is something else ({error})") from error
        except tarfile.EmptyHeaderError as error:  # type: ignore[attr-defined]
            raise tarfile.ReadError(NO_END if archive.offset else "it is empty") from error


def read_samples(url: str, content: Content) -> Iterator[Sample]:
    """The samples of a tar file; raises ValueError where it is damaged, and UnusualTarError."""
    return group_files(url, _members(content))


def group_files(url: str, members: Iterable[tuple[str, bytes]]) -> Generator[Sample, None, None]:
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


def _members(content: Content) -> Iterator[tuple[str, bytes]]:
    """Names and contents of a tar file's members, as POSIX pax(1) describes the ustar format; raises ValueError."""
    offset = 0
    while header := content[offset : offset + BLOCK]:
        if not header[0] and header.count(0) == BLOCK:
            return
        if not offset and header.startswith(COMPRESSED):
            raise UnusualTarError
        if len(header) < BLOCK:
            raise ValueError("it ends in the middle of a header")
        name, digits, number, kind, prefix = HEADER.unpack(header)
        if (_sum(header) - _sum(number) + BLANKS - _octal(number)) % SUMMED:
            raise ValueError("a header's checksum is wrong")
        if kind not in REGULAR or prefix != b"\0" or digits[0] & 0x80:
            offset = _skip_header(content, offset, kind, digits)
            continue
        size = _octal(digits)
        start = offset + BLOCK
        data = content[start : start + size]
        if len(data) < size:
            raise ValueError("it ends in the middle of a file")
        yield name.split(b"\0", 1)[0].decode("utf-8", "surrogateescape"), data
        offset = start + -(-size // BLOCK) * BLOCK  # whole blocks
    raise ValueError("it ends in the middle of a file" if offset > len(content) else NO_END)


def _skip_header(content: Content, offset: int, kind: bytes, digits: bytes) -> int:
    """Return where the header after one lies that affects no file's name or content; raise UnusualTarError.

    Such are directories, as GNU tar packs them, and the parts of seconds that webdataset's writers put before files.
    """
    if kind == DIRECTORY:
        return offset + BLOCK
    if kind == EXTENDED and not digits[0] & 0x80:
        size = _octal(digits)
        number = content[offset + BLOCK : offset + BLOCK + size]
        if len(number) == size and not any(word in number for word in DECISIVE):
            return offset + BLOCK + -(-size // BLOCK) * BLOCK
    raise UnusualTarError


def _sum(content: bytes) -> int:
    """Of its bytes, modulo SUMMED and but for 1: the lower half of Adler-32 (RFC 1950), much quicker than to add."""
    return zlib.adler32(content) & 0xFFFF


@lru_cache(maxsize=4096)  # sizes and checksums of small samples are few, and come again and again
def _octal(digits: bytes) -> int:
    try:
        return int(digits.split(b"\0", 1)[0], 8)
    except ValueError:
        raise ValueError("where a header should be is something else") from None
