"""The directory of fetched files: nothing is written outside it, whatever names a worker sends."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from tui.errors import TpuTuiError, UsageError
from tui.ssh.fetch.remote_path import STAGING, Place
from tui.text.printable import one_line

_BLOCK_BYTES = 1 << 20
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
_IN_THE_WAY = (errno.ENOTDIR, errno.ELOOP, errno.EISDIR, errno.EEXIST, errno.ENOTEMPTY)


class LocalFileError(TpuTuiError):
    """A fetched file could not be written on this machine."""


class IncompleteFile:
    """A file while it arrives, in the staging directory, where the next fetch finds its bytes."""

    def __init__(self, file: BinaryIO, size: int) -> None:
        self._file = file
        self.size, self._digest = _hash_start(file, size)

    @property
    def digest(self) -> str:
        """SHA-256 of the bytes so far, in hexadecimal."""
        return str(self._digest.hexdigest())

    def append(self, data: bytes) -> None:
        """Write more bytes."""
        with _named_errors():
            self._file.write(data)
        self._digest.update(data)
        self.size += len(data)

    def clear(self) -> None:
        """Begin again."""
        with _named_errors():
            self._file.seek(0)
            self._file.truncate()
        self.size, self._digest = 0, hashlib.sha256()

    def close(self) -> None:
        """Write the buffered bytes and close the file."""
        with _named_errors():
            self._file.close()


class Destination:
    """An open directory and its staging directory, locked against another fetch. Use it as a context manager.

    Every component below it is opened without following symbolic links.
    """

    def __init__(self, directory: Path) -> None:
        """Make the directory if it is missing. Raises UsageError where it cannot be used."""
        self.directory = directory
        with contextlib.ExitStack() as opened:
            try:
                directory.mkdir(parents=True, exist_ok=True)
                self._root = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
                opened.callback(os.close, self._root)
                self._staging = self._subdirectory(self._root, STAGING)
                opened.callback(os.close, self._staging)
            except OSError as error:
                why = error.strerror or str(error)
                raise UsageError(f"{directory} cannot be used", why=why, remedy="choose another --to") from error
            if os.fstat(self._staging).st_uid != os.geteuid():
                why = f"{STAGING.decode()} in it belongs to another user, who could replace files while they arrive"
                raise UsageError(f"{directory} cannot be used", why=why, remedy="choose another --to")
            try:
                fcntl.flock(self._staging, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise UsageError(f"another fetch writes to {directory}", remedy="wait for it, or stop it") from None
            except OSError:
                pass  # NFS cannot lock a directory (flock(2)): go on without a lock
            self._opened = opened.pop_all()

    def __enter__(self) -> Destination:
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(OSError):
            os.rmdir(STAGING, dir_fd=self._root)
        self._opened.close()

    def digest_of(self, place: Place, size: int) -> str:
        """Return the SHA-256 of the file at this place if it has this size, else an empty text. Blocks."""
        try:
            with self._parent_of(place, make=False) as parent:
                file = os.open(place[-1], os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=parent)
            with os.fdopen(file, "rb") as opened:
                file_stat = os.fstat(file)
                if not stat.S_ISREG(file_stat.st_mode) or file_stat.st_size != size:
                    return ""
                return str(_hash_start(opened, size)[1].hexdigest())
        except OSError:
            return ""

    def find_incomplete(self, worker: int, source: bytes, size: int) -> IncompleteFile | None:
        """Return the part of a file that an earlier fetch left, up to `size` bytes; None without one. Blocks."""
        try:
            return self._open_staged(worker, source, 0, size)
        except OSError:
            return None

    def make_incomplete(self, worker: int, source: bytes) -> IncompleteFile:
        """Return a new, empty file."""
        with _named_errors():
            return self._open_staged(worker, source, os.O_CREAT | os.O_TRUNC, 0)

    def _open_staged(self, worker: int, source: bytes, flags: int, size: int) -> IncompleteFile:
        opened = os.open(_staged(worker, source), os.O_RDWR | os.O_NOFOLLOW | flags, 0o666, dir_fd=self._staging)
        return IncompleteFile(os.fdopen(opened, "r+b"), size)

    def discard(self, worker: int, source: bytes) -> None:
        """Remove the part of a file that has arrived."""
        with contextlib.suppress(OSError):
            os.unlink(_staged(worker, source), dir_fd=self._staging)

    def publish(self, worker: int, source: bytes, place: Place) -> None:
        """Move a complete file to its place; it replaces a file that is already there."""
        what = f"{one_line(self.path_of(place))} cannot be written"
        with _named_errors(what), self._parent_of(place, make=True) as parent:
            os.rename(_staged(worker, source), place[-1], src_dir_fd=self._staging, dst_dir_fd=parent)

    def path_of(self, place: Place) -> str:
        """Return a place as text; bytes that are not UTF-8 are replaced."""
        return b"/".join((os.fsencode(self.directory), *place)).decode("utf-8", "replace")

    @contextlib.contextmanager
    def _parent_of(self, place: Place, *, make: bool) -> Iterator[int]:
        """Open the directory of a place, and make it if it is missing and `make` is set."""
        descriptor = os.dup(self._root)
        try:
            for name in place[:-1]:
                inner = self._subdirectory(descriptor, name) if make else os.open(name, _DIRECTORY, dir_fd=descriptor)
                os.close(descriptor)
                descriptor = inner
            yield descriptor
        finally:
            os.close(descriptor)

    @staticmethod
    def _subdirectory(parent: int, name: bytes) -> int:
        with contextlib.suppress(FileExistsError):
            os.mkdir(name, dir_fd=parent)
        return os.open(name, _DIRECTORY, dir_fd=parent)


def _staged(worker: int, source: bytes) -> str:
    return hashlib.sha256(b"%d %s" % (worker, source)).hexdigest()[:32]


def _hash_start(file: BinaryIO, size: int) -> tuple[int, Any]:
    """Return how many of the first `size` bytes a file has, and their hash; cut the rest off a writable file."""
    digest, length = hashlib.sha256(), 0
    while block := file.read(min(size - length, _BLOCK_BYTES)):
        digest.update(block)
        length += len(block)
    if file.writable():
        file.seek(length)
        file.truncate()
    return length, digest


@contextlib.contextmanager
def _named_errors(what: str = "a fetched file cannot be written") -> Iterator[None]:
    try:
        yield
    except OSError as error:
        is_taken = error.errno in _IN_THE_WAY
        remedy = "a link, file or directory is in its place: move it, or choose another --to" if is_taken else ""
        raise LocalFileError(what, why=error.strerror or str(error), remedy=remedy) from error
