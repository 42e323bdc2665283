"""Replace files atomically, and delete temporary files that killed writers left behind.

A file is written under a temporary name next to its own, locked. The kernel releases the lock when the
writer ends, however that happens, so an unlocked temporary file has no writer.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from trainer.storage.regular_files import open_regular

ABANDONED_AFTER_S = 3600.0  # without a byte written; for files of another machine, whose lock may not be visible
TEMPORARY = re.compile(r"\.(?P<name>.+)\.(?P<host>[^.]+)\.\d+\.part")


@contextlib.contextmanager
def replace_file(path: Path) -> Iterator[IO[bytes]]:
    """Open a file to write, which then replaces `path`, complete or not at all. Raises OSError."""
    temporary = path.with_name(f".{path.name}.{_host()}.{os.getpid()}.part")
    try:
        with _open_locked(temporary) as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
            temporary.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise


def remove_temp_files(directory: Path, of: re.Pattern[str]) -> None:
    """Delete temporary files that killed writers left of files whose names match, but none that has a writer."""
    for path in directory.iterdir():
        parts = TEMPORARY.fullmatch(path.name)
        if parts and of.fullmatch(parts["name"]):
            with contextlib.suppress(OSError):  # gone already, or another user's
                _remove_if_abandoned(path, parts["host"])


def _open_locked(temporary: Path) -> IO[bytes]:
    while True:
        stream = open_regular(temporary, "wb")
        try:
            with contextlib.suppress(OSError):  # a file system without locks: then only the file's age decides
                fcntl.flock(stream, fcntl.LOCK_EX)
        except BaseException:
            stream.close()
            raise
        if os.fstat(stream.fileno()).st_nlink:
            return stream
        stream.close()  # removed as a leftover between the two calls


def _remove_if_abandoned(path: Path, host: str) -> None:
    with open_regular(path) as stream:
        is_seen_here = False
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
            is_seen_here = host == _host()  # a lock of another machine may not be visible here
        except BlockingIOError:
            return
        except OSError:
            pass
        if is_seen_here or time.time() - os.fstat(stream.fileno()).st_mtime > ABANDONED_AFTER_S:
            path.unlink()


def _host() -> str:
    return socket.gethostname().replace(".", "_").replace("/", "_")
