"""Lock a place so that one process at a time makes shards there: two would mix their shards under one manifest.

In a directory the lock is a locked file, which the kernel unlocks when its holder ends, however that happens. In a
bucket it is an object that its holder creates and deletes. A holder that was killed leaves it behind: the next
process on the same machine replaces it; a process on another machine cannot know, and names the object to delete.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

from trainer.errors import TrainerError
from trainer.storage import objects

LOCK_NAME = ".making-shards"
HOLDER_END_TIMEOUT_S = 2.0  # until the processes of a killed maker, which share its lock, have ended too
RELEASE_TIMEOUT_S = 10.0  # for deleting the object in a bucket
HOLDER = re.compile(r"process (\d+) on (\S+)")


Verify = Callable[[], None]  # raises TrainerError where another process has taken over the place


def hold_lock(out: str) -> contextlib.AbstractContextManager[Verify]:
    """Hold the lock of `out` and yield a function that verifies it; raise TrainerError if another process has it."""
    return _lock_bucket(out) if objects.is_bucket(out) else _lock_directory(Path(out))


def _describe_holder() -> str:
    return f"process {os.getpid()} on {socket.gethostname()}"


def _busy_error(out: str, holder: str, remedy: str = "Wait for it, end it, or choose another --out") -> TrainerError:
    why = f"by {holder}" if holder else "by another process"
    return TrainerError(f"Shards are already being made in {out}", why=why, remedy=remedy)


@contextlib.contextmanager
def _lock_directory(directory: Path) -> Iterator[Verify]:
    path = directory / LOCK_NAME
    try:
        directory.mkdir(parents=True, exist_ok=True)
        file = _open_locked(path)
    except FileExistsError:
        raise TrainerError(f"{directory} is a file", remedy="Name a directory, or gs://bucket/prefix") from None
    except OSError as error:
        raise TrainerError(f"Cannot write to {directory}", why=error.strerror or str(error)) from error
    with file:
        try:
            yield lambda: None  # the kernel gives a locked file to no other process
        finally:
            with contextlib.suppress(OSError):
                path.unlink()


def _open_locked(path: Path) -> IO[str]:
    deadline = time.monotonic() + HOLDER_END_TIMEOUT_S
    while True:
        file = path.open("a+", encoding="utf-8", errors="replace")
        if _try_lock(file):
            if os.fstat(file.fileno()).st_nlink:
                file.truncate(0)
                print(_describe_holder(), file=file, flush=True)
                return file
        elif time.monotonic() >= deadline:
            with file:
                file.seek(0)
                raise _busy_error(str(path.parent), file.read().strip())
        file.close()  # it is locked, or its holder removed it between the two calls
        time.sleep(HOLDER_END_TIMEOUT_S / 20)


def _try_lock(file: IO[str]) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        pass  # a file system without locks
    return True


@contextlib.contextmanager
def _lock_bucket(out: str) -> Iterator[Verify]:
    url = objects.join(out, LOCK_NAME)
    try:  # of several processes, one succeeds in creating the object, or in replacing a dead process's
        own_generation = objects.upload(url, _describe_holder().encode(), replaces=_abandoned_generation(out, url))
    except objects.TakenError:
        raise _busy_error(out, "another process") from None

    def is_held() -> bool:
        lock = objects.find_object(url)
        return lock is not None and lock.generation == own_generation

    def verify() -> None:
        if not is_held():
            raise TrainerError(
                f"Another process has taken over {out}",
                why=f"{url} is no longer this process's own",
                remedy="Look at the shards that it leaves there; start again with --overwrite if need be",
            )

    try:
        yield verify
    finally:
        with contextlib.suppress(TrainerError):
            if is_held():
                objects.delete(url, own_generation, patience=RELEASE_TIMEOUT_S)


def _abandoned_generation(out: str, url: str) -> int:
    """Return the generation that a dead process left, 0 where there is none; raise TrainerError otherwise."""
    lock = objects.find_object(url)
    try:
        holder = objects.read_document(url).decode("utf-8", "replace").strip() if lock else ""
    except objects.MissingError:
        lock = None
    if lock is None:
        return 0
    if not _has_ended(holder):
        raise _busy_error(out, holder, f"Wait for it or end it. If it has ended: gcloud storage rm {url}")
    return lock.generation


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
