"""The home directory of runs, profiles and accepted host keys: write it for its owner alone, and check its files.

A user who can write there decides which machines are trusted and where jobs run. So tpu-tui warns about a home that
others can write to, and reads no profile or host key file that belongs to another user or that everyone can write to.
"""

from __future__ import annotations

import errno
import os
import pwd
import shlex
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from io import FileIO
from pathlib import Path
from typing import BinaryIO

from tui.errors import UsageError

MOST_READ_BYTES = 256 * 1024 * 1024
"""Most bytes to read of a file at once: every record of a run is much shorter."""
MOST_USER_FILE_BYTES = 16 * 1024 * 1024
"""Most bytes of a key, a configuration or another file of the user."""
_PRIVATE = 0o700


def make_private(path: Path) -> None:
    """Create a directory and its missing parents for their owner alone, whatever the umask. Raises OSError."""
    for directory in (*reversed(path.parents), path):
        if not directory.is_dir():
            with suppress(FileExistsError):
                directory.mkdir(mode=_PRIVATE)
    if not path.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(path))


def open_regular(path: Path | str, flags: int = os.O_RDONLY, *, follow: bool = False, pipe: bool = False) -> int:
    """Open a regular file and return its descriptor. A file that `flags` create is private to its owner.

    Raises OSError, also for a link (unless `follow`), which may lead to any file of the user, for a device, which may
    be endless, and for a pipe (unless `pipe`).
    """
    links = 0 if follow else os.O_NOFOLLOW
    try:
        descriptor = os.open(path, flags | links | os.O_NONBLOCK | os.O_CLOEXEC, 0o600)
    except OSError as error:
        # a pipe that nothing reads, or a link
        if error.errno == errno.ENXIO or (links and error.errno == errno.ELOOP):
            raise _not_regular(path) from None
        raise
    mode = os.fstat(descriptor).st_mode
    if not (stat.S_ISREG(mode) or (pipe and stat.S_ISFIFO(mode))):
        os.close(descriptor)
        raise _not_regular(path)
    return descriptor


def _not_regular(path: Path | str) -> OSError:
    return OSError(errno.EINVAL, "it is not a regular file", str(path))


def read_regular(path: Path | str, offset: int = 0, size: int | None = None) -> bytes:
    """Return at most `size` bytes of a regular file from an offset on; without `size`, all of them.

    Raises OSError, also if these are more than `MOST_READ_BYTES`.

    Unbuffered: making buffers takes longer than reading a small file.
    """
    with FileIO(open_regular(path)) as file:
        available = max(0, os.fstat(file.fileno()).st_size - offset)
        if size is None and available > MOST_READ_BYTES:
            raise OSError(errno.EFBIG, f"it has more than {MOST_READ_BYTES >> 20} MiB", str(path))
        file.seek(offset)
        return file.read(available if size is None else min(size, available))


def read_user_file(
    path: Path | str, check: Callable[[os.stat_result], None] | None = None, *, pipe: bool = False
) -> bytes:
    """Return the content of a file of the user, which may be a link, if it passes a `check` of its owner and mode.

    With `pipe`, it may be a pipe of the shell, as in `<(command)`; one that nothing writes to is empty. Raises
    OSError, also for anything else in its place, and for a file that is too long.
    """
    if str(path) == os.devnull:
        return b""
    with os.fdopen(open_regular(path, follow=True, pipe=pipe), "rb") as file:
        os.set_blocking(file.fileno(), True)
        if check is not None:
            check(os.fstat(file.fileno()))
        content = file.read(MOST_USER_FILE_BYTES + 1)
    if len(content) > MOST_USER_FILE_BYTES:
        raise OSError(errno.EFBIG, f"it has more than {MOST_USER_FILE_BYTES >> 20} MiB", str(path))
    return content


@contextmanager
def replace_file(path: Path, *, durable: bool = False) -> Iterator[BinaryIO]:
    """Open a private file that replaces `path` when the body has ended; an error in the body leaves `path` as it is.

    With `durable`, the new content survives a power loss. Raises OSError.
    """
    temporary = path.with_name(f".{path.name}.{os.urandom(8).hex()}")
    try:
        with open(temporary, "xb", opener=open_regular) as file:
            yield file
            if durable:
                file.flush()
                os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        with suppress(OSError):
            temporary.unlink()
        raise


def loose_home(home: Path) -> str | None:
    """Return a warning with its remedy if others can write to the home, else None."""
    try:
        mode = home.stat().st_mode
    except OSError:
        return None
    writers = "every user of this machine" if mode & stat.S_IWOTH else "its group" if mode & stat.S_IWGRP else None
    if writers is None:
        return None
    quoted = shlex.quote(str(home))
    return f"{writers} may write to {home}, which holds profiles and trusted host keys: chmod 700 {quoted}"


def check_trusted(path: Path, status: os.stat_result, what: str, home: Path) -> None:
    """Raise UsageError for a file that decides what is trusted if others can change it."""
    if doubt := distrust(path, status, home):
        why, remedy = doubt
        raise UsageError(f"{what} is not read", why=why, remedy=remedy)


def distrust(path: Path, status: os.stat_result, home: Path) -> tuple[str, str] | None:
    """Return why a file or directory is not trusted (others can change it), and the remedy; None if it is trusted.

    Everyone trusts files of root; root also trusts files of the home's owner.
    """
    quoted = shlex.quote(str(path))
    trusted = {0, os.getuid()} | ({home.stat().st_uid} if os.getuid() == 0 else set())
    if status.st_uid not in trusted:
        remedy = f"check its contents, then move it away: mv {quoted} {quoted}.old"
        return f"{path} belongs to {_name_of(status.st_uid)}", remedy
    if status.st_mode & stat.S_IWOTH:
        remedy = f"check its contents, then chmod go-w {quoted}"
        return f"every user of this machine may write to {path}", remedy
    return None


def _name_of(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"user {uid}"
