"""Open regular files only: a named pipe could block forever, and a device might never end."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import IO


def open_regular(path: Path | str, mode: str = "rb") -> IO[bytes]:
    """Open a regular file; refuse to write through a symbolic link. Raises OSError."""
    stream = open(path, mode, opener=_open_at_once)  # noqa: SIM115
    if stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
        return stream
    stream.close()
    raise OSError(errno.EINVAL, "it is not a file", str(path))


def _open_at_once(path: str, flags: int) -> int:
    links = os.O_NOFOLLOW if flags & os.O_WRONLY else 0
    return os.open(path, flags | links | os.O_NONBLOCK, 0o666)
