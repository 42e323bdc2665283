"""Lock a run's directory: the process that holds the lock on its `keeper` file may write the mirror."""

from __future__ import annotations

import fcntl
import os
import time
from contextlib import suppress
from pathlib import Path

from tui.runs.record.keeper_file import KEEPER_FILE, make_signature, read_signature
from tui.runs.record.run_directory import RunDirectory
from tui.settings.home import open_regular

LOCK_TIMEOUT_S = 1.0
"""Seconds for which to retry: a check whether a keeper lives holds the lock for a moment."""
_RETRY_INTERVAL_S = 0.02


class DirectoryLock:
    """The lock on a run directory's mirror; its holder is the run's keeper on this machine."""

    def __init__(self, descriptor: int, path: Path) -> None:
        self._descriptor = descriptor
        self._path = path
        self._signed = False

    @classmethod
    def take(cls, directory: RunDirectory, patience: float = LOCK_TIMEOUT_S) -> DirectoryLock | None:
        """Take the lock; return None at once if a keeper has it, after `patience` seconds if another process does.

        A fork inherits the lock, and the last holder frees it. Raises OSError where files cannot be locked, as on
        some network file systems, and ForeignRunError.
        """
        directory.require_own()
        path = directory.path / KEEPER_FILE
        descriptor = open_regular(path, os.O_CREAT | os.O_RDWR)
        try:
            is_taken = _take_until(descriptor, directory, time.monotonic() + patience)
        except BaseException:
            os.close(descriptor)
            raise
        if is_taken:
            return cls(descriptor, path)
        os.close(descriptor)
        return None

    def sign(self) -> None:
        """Write `pid start-time host awake` (`tui.runs.record.keeper_file`)."""
        self._signed = True
        text = make_signature()
        with suppress(OSError):
            os.pwrite(self._descriptor, text, 0)
            os.ftruncate(self._descriptor, len(text))

    def beat(self) -> None:
        """Show a sign of life: update the file's time, and the seconds awake in a keeper's signature."""
        if self._signed:
            self.sign()
        with suppress(OSError):
            os.utime(self._descriptor)

    def is_in_place(self) -> bool:
        """Return whether the locked directory is still in place: not deleted, moved or created again."""
        try:
            return os.path.samestat(os.fstat(self._descriptor), self._path.stat())
        except OSError as error:
            return not isinstance(error, FileNotFoundError)

    def close(self) -> None:
        """Release the lock."""
        os.close(self._descriptor)


def _take_until(descriptor: int, directory: RunDirectory, deadline: float) -> bool:
    while not _try_flock(descriptor, fcntl.LOCK_EX):
        is_attended = not _try_flock(descriptor, fcntl.LOCK_SH) and living_keeper(directory) is not None
        fcntl.flock(descriptor, fcntl.LOCK_UN)  # otherwise two processes that try would block each other
        if is_attended or time.monotonic() > deadline:
            return False
        time.sleep(_RETRY_INTERVAL_S)
    return True


def living_keeper(directory: RunDirectory) -> int | None:
    """Return the pid of the keeper that signed last if it is alive; a keeper on another machine is assumed to be."""
    signed = read_signature(directory.path / KEEPER_FILE)
    return signed.pid if signed is not None and signed.lives else None


def _try_flock(descriptor: int, mode: int) -> bool:
    try:
        fcntl.flock(descriptor, mode | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
