"""So that a killed process leaves nothing behind: no children, and no half-written files for ever.

A file is written under a temporary name beside its own and locked meanwhile. The kernel lets go of the lock when the
writer ends, however that comes: what lies there unlocked is nobody's any more.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import re
import signal
import socket
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO

LONG_AGO = 3600.0  # seconds without a byte, after which a file is nobody's where no lock can tell: of another machine
TEMPORARY = re.compile(r"\.(?P<name>.+)\.(?P<host>[^.]+)\.\d+\.part")
SET_PARENT_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG of prctl(2)


def die_with_parent(number: signal.Signals = signal.SIGKILL) -> None:
    """Have the kernel send this process a signal when the thread that started it ends (Linux)."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(SET_PARENT_DEATH_SIGNAL, number)


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[IO[bytes]]:
    """A file to be written, which then takes the place of `path`: complete or not at all. Raises OSError."""
    temporary = path.with_name(f".{path.name}.{_host()}.{os.getpid()}.part")
    try:
        with _opened(temporary) as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
            temporary.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise


def remove_temporaries(directory: Path, of: re.Pattern[str]) -> None:
    """Delete what killed writers left of files whose names match; never what may still be written."""
    for path in directory.iterdir():
        parts = TEMPORARY.fullmatch(path.name)
        if parts and of.fullmatch(parts["name"]):
            with contextlib.suppress(OSError):  # gone already, or another user's
                _remove_if_abandoned(path, parts["host"])


def _opened(temporary: Path) -> IO[bytes]:
    while True:
        stream = temporary.open("wb")
        try:
            with contextlib.suppress(OSError):  # a file system without locks: then only its age tells
                fcntl.flock(stream, fcntl.LOCK_EX)
        except BaseException:
            stream.close()
            raise
        if os.fstat(stream.fileno()).st_nlink:
            return stream
        stream.close()  # taken for a leftover between the two calls


def _remove_if_abandoned(path: Path, host: str) -> None:
    with path.open("rb") as stream:
        told = False
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
            told = host == _host()  # a lock of another machine may not be seen here
        except BlockingIOError:
            return
        except OSError:
            pass
        if told or time.time() - os.fstat(stream.fileno()).st_mtime > LONG_AGO:
            path.unlink()


def _host() -> str:
    return socket.gethostname().replace(".", "_").replace("/", "_")
