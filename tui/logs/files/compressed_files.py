"""Open saved logs: plain files, compressed ones, and pipes. Every error is a UsageError."""

from __future__ import annotations

import stat
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import IO, Any, NamedTuple

from tui.errors import UsageError

BLOCK_BYTES = 256 * 1024
"""Bytes read, or unpacked, at once."""

HEAD_BYTES = 64 * 1024
"""Bytes of a file's beginning from which its format is recognised."""

STDIN = Path("/dev/stdin")
"""The path that reads standard input."""

_MOST_STRANGE = 0.3
"""Share of controls and invalid UTF-8 above which a file counts as binary."""

_CONTROLS = bytes({*range(0x20)} - {*b"\t\n\r\x0b\x0c\x1b\x08\x07"})
"""Control characters that do not occur in texts."""

_RECODED = ("text in UTF-16, as PowerShell's > writes it", "make it UTF-8: iconv -f UTF-16 -t UTF-8 FILE > NEW")
_NOT_LOGS = {
    b"\xff\xfe": _RECODED,
    b"\xfe\xff": _RECODED,
    b"PK\x03\x04": ("a zip archive", "unpack it first"),
    b"\x7fELF": ("a program", ""),
    b"\x89PNG": ("a picture", ""),
    b"%PDF": ("a PDF document", ""),
}


class Packing(NamedTuple):
    """A compression format, and the module whose `open` unpacks it."""

    name: str
    magic: bytes
    module: str


PACKINGS = (
    Packing("gzip", b"\x1f\x8b", "gzip"),
    Packing("zstd", b"\x28\xb5\x2f\xfd", "compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd"),
    Packing("bzip2", b"BZh", "bz2"),
    Packing("xz", b"\xfd7zXZ\x00", "lzma"),
)


def unpack(file: IO[bytes], packing: Packing, size: int, name: str) -> Iterator[bytes]:
    """Yield the unpacked bytes of a file in blocks of at most `size`; concatenated packed files are read as one.

    Raises UsageError, with `name` for the file, where the data is cut off or broken, after yielding all that is
    readable.
    """
    with import_module(packing.module).open(file) as stream:
        while True:
            try:
                # `read` would lose the bytes right before an error.
                block = stream.read1(size)
            except EOFError as error:
                raise _broken_error(name, packing, "it is cut off") from error
            except Exception as error:  # each library has its own errors, without a common base
                if isinstance(error, OSError) and error.errno is not None:
                    raise  # the file cannot be read
                raise _broken_error(name, packing, str(error)) from error
            if not block:
                return
            yield block


def _broken_error(name: str, packing: Packing, why: str) -> UsageError:
    return UsageError(f"cannot read {name} to its end", why=f"its {packing.name} data is broken: {why}")


def regular(path: Path) -> tuple[Path, IO[bytes] | None]:
    """Return the path itself or, for a pipe, the path of a temporary copy and the file that keeps the copy alive.

    Raises UsageError for a directory or a device, and for a path that cannot be read.
    """
    with explain_errors(path):
        mode = path.stat().st_mode
        if stat.S_ISDIR(mode):
            raise UsageError(f"{path} is a directory", remedy="name a log file; tpu-tui runs lists the runs")
        if stat.S_ISREG(mode):
            return path, None
        if not (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)):
            raise _device(path)
        copy = tempfile.NamedTemporaryFile(prefix="tpu-tui-", suffix=".log")  # noqa: SIM115
        with path.open("rb", buffering=0) as pipe:
            while data := pipe.read(BLOCK_BYTES):
                copy.write(data)
        copy.flush()
        return Path(copy.name), copy


def _device(path: Path) -> UsageError:
    kind = "a terminal or another device"
    if path == STDIN:
        return UsageError("nothing is piped in", why=f"standard input is {kind}", remedy="… | tpu-tui logs -")
    return UsageError(f"{path} is not a file", why=f"it is {kind}")


def head_of(path: Path, name: str) -> tuple[bytes, Packing | None]:
    """Return the unpacked beginning of a file and its packing. Raises UsageError, with `name`, for no log."""
    with explain_errors(path), path.open("rb") as file:
        head = file.read(HEAD_BYTES)
        packing = next((packing for packing in PACKINGS if head.startswith(packing.magic)), None)
        if packing is not None:
            file.seek(0)
            head = b""
            try:
                for block in unpack(file, packing, HEAD_BYTES, name):
                    head += block
                    if len(head) >= HEAD_BYTES:
                        break
            except UsageError:
                if not head:
                    raise
    if not head:
        raise UsageError(f"{name} is empty", remedy="a log with at least one line is needed")
    _refuse_binary(name, head)
    return head, packing


def _refuse_binary(name: str, head: bytes) -> None:
    for magic, (kind, remedy) in _NOT_LOGS.items():
        if head.startswith(magic):
            raise UsageError(f"{name} is not a log", why=f"it is {kind}", remedy=remedy)
    strange = len(head) - len(head.translate(None, _CONTROLS))
    strange += head.decode("utf-8", "replace").count("\ufffd")
    if strange > _MOST_STRANGE * len(head) and b"Device=xla:" not in head:
        raise UsageError(f"{name} is not a log", why="it is a binary file")


@contextmanager
def explain_errors(path: Path) -> Iterator[Any]:
    """Turn errors of the operating system into UsageErrors."""
    try:
        yield
    except FileNotFoundError as error:
        remedy = "name a file, `-` or gs://BUCKET/OBJECT; tpu-tui runs lists the runs, and tpu-tui open RUN shows one"
        leads = f"it is a link to {path.readlink()}, which is not there" if path.is_symlink() else ""
        raise UsageError(f"no such log: {path}", why=leads, remedy=remedy) from error
    except OSError as error:
        raise UsageError(f"cannot read {path}", why=error.strerror or str(error)) from error
