"""Lock a place so that one process at a time makes shards there: two would mix their shards under one manifest.

In a directory the lock is a locked file, which the kernel unlocks when its holder ends, however that happens. In a
bucket it is an object that its holder creates and deletes. A holder that was killed leaves it behind: the next
process on the same machine replaces it, one on another machine cannot know, and says which object to delete.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import socket
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from trainer.errors import TrainerError
from trainer.storage import objects

LOCK_NAME = ".making-shards"
HOLDER_END_TIMEOUT_S = 2.0  # until the processes of a killed maker, which share its lock, have ended too
RELEASE_TIMEOUT_S = 10.0  # for deleting the object in a bucket
HOLDER = re.compile(r"process (\d+) on (\S+)")


class ShardLock(ABC):
    """The right of this process, and no other, to make shards in a place."""

    def verify(self) -> None:  # noqa: B027
        """Raise TrainerError where another process has taken over the place."""

    @abstractmethod
    def release(self) -> None:
        """Let the next process make shards there."""


@contextlib.contextmanager
def hold_lock(out: str) -> Iterator[ShardLock]:
    """Hold the lock of `out` meanwhile; raise TrainerError where another process does."""
    lock = _BucketLock(out) if objects.is_bucket(out) else _DirectoryLock(Path(out))
    try:
        yield lock
    finally:
        lock.release()


def _describe_holder() -> str:
    return f"process {os.getpid()} on {socket.gethostname()}"


def _busy_error(out: str, holder: str, remedy: str = "Wait for it, end it, or choose another --out") -> TrainerError:
    why = f"by {holder}" if holder else "by another process"
    return TrainerError(f"Shards are already being made in {out}", why=why, remedy=remedy)


class _DirectoryLock(ShardLock):
    def __init__(self, directory: Path) -> None:
        self._path = directory / LOCK_NAME
        try:
            directory.mkdir(parents=True, exist_ok=True)
            self._file = self._open_locked(directory)
        except FileExistsError:
            raise TrainerError(f"{directory} is a file", remedy="Name a directory, or gs://bucket/prefix") from None
        except OSError as error:
            raise TrainerError(f"Cannot write to {directory}", why=error.strerror or str(error)) from error

    def _open_locked(self, directory: Path) -> IO[str]:
        deadline = time.monotonic() + HOLDER_END_TIMEOUT_S
        while True:
            file = self._path.open("a+", encoding="utf-8", errors="replace")
            if _try_lock(file):
                if os.fstat(file.fileno()).st_nlink:
                    file.truncate(0)
                    print(_describe_holder(), file=file, flush=True)
                    return file
            elif time.monotonic() >= deadline:
                with file:
                    file.seek(0)
                    raise _busy_error(str(directory), file.read().strip())
            file.close()  # it is locked, or its holder removed it between the two calls
            time.sleep(HOLDER_END_TIMEOUT_S / 20)

    def release(self) -> None:
        with contextlib.suppress(OSError):
            self._path.unlink()
        self._file.close()


def _try_lock(file: IO[str]) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        pass  # a file system without locks
    return True


class _BucketLock(ShardLock):
    def __init__(self, out: str) -> None:
        self._out, self._url = out, objects.join(out, LOCK_NAME)
        try:
            self._generation = self._create(replaces=self._abandoned_generation())
        except objects.TakenError:
            raise _busy_error(out, "another process") from None

    def _create(self, replaces: int) -> int:
        """Create the object, or replace this generation of it; of several processes, one succeeds."""
        return objects.upload(self._url, _describe_holder().encode(), replaces=replaces)

    def _abandoned_generation(self) -> int:
        """Return the generation that a dead process left, 0 where there is none; raise TrainerError otherwise."""
        generation = objects.generation(self._url)
        if not generation:
            return 0
        try:
            holder = objects.read(self._url).decode("utf-8", "replace").strip()
        except objects.MissingError:
            return 0
        if not _has_ended(holder):
            remedy = f"Wait for it or end it. If it has ended: gcloud storage rm {self._url}"
            raise _busy_error(self._out, holder, remedy)
        return generation

    def verify(self) -> None:
        if objects.generation(self._url) != self._generation:
            raise TrainerError(
                f"Another process has taken over {self._out}",
                why=f"{self._url} is no longer this process's own",
                remedy="Look at the shards that it leaves there; start again with --overwrite if need be",
            )

    def release(self) -> None:
        with contextlib.suppress(TrainerError):
            if objects.generation(self._url) == self._generation:
                objects.delete(self._url, self._generation, patience=RELEASE_TIMEOUT_S)


def _has_ended(holder: str) -> bool:
    """Return whether a holder is known to have ended: a process of this machine that no longer exists."""
    parts = HOLDER.fullmatch(holder)
    if parts is None or parts[2] != socket.gethostname():
        return False
    try:
        os.kill(int(parts[1]), 0)
    except (ProcessLookupError, OverflowError):
        return True
    except PermissionError:
        pass
    return False
