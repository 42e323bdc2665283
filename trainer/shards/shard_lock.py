"""Lock a place so that one process at a time makes shards there: two would mix their shards under one manifest.

In a directory the lock is a locked file, which the kernel unlocks when its holder ends, however that happens. In a
bucket it is an object that its holder writes anew every few seconds. Each write is a new generation to Cloud Storage,
so another process need only watch: no clocks are compared, and only one of several can replace a dead holder.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
import socket
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

from trainer.errors import TrainerError
from trainer.storage import objects

LOCK_NAME = ".making-shards"
HEARTBEAT_INTERVAL_S = 4.0  # seconds between two generations of a living maker's
DEAD_AFTER_S = 20.0  # seconds without one
POLL_INTERVAL_S = 1.0  # seconds
HOLDER_END_TIMEOUT_S = (
    2.0  # seconds that the processes of a killed maker, which hold its lock too, may take to follow it
)
REMEDY = "Wait for it, end it, or choose another --out"


class ShardLock(ABC):
    """The right of this process, and no other, to make shards in a place."""

    def start_heartbeat(self) -> None:  # noqa: B027
        """Keep the lock, in a thread where one is needed: after this process has forked others."""

    def verify(self) -> None:  # noqa: B027
        """Raise TrainerError where another process has taken this one for dead, and its place."""

    @abstractmethod
    def release(self) -> None:
        """Let the next process make shards there."""


@contextlib.contextmanager
def hold_lock(out: str, notify: Callable[[str], None]) -> Iterator[ShardLock]:
    """Hold the lock of `out` meanwhile; raise TrainerError where another process does."""
    lock = _BucketLock(out, notify) if objects.is_bucket(out) else _DirectoryLock(Path(out))
    try:
        yield lock
    finally:
        lock.release()


def _describe_holder() -> str:
    return f"process {os.getpid()} on {socket.gethostname()}"


def _busy_error(out: str, who: str) -> TrainerError:
    what = f"Shards are being made in {out} already"
    return TrainerError(what, why=f"by {who}" if who else "by another process", remedy=REMEDY)


class _DirectoryLock(ShardLock):
    def __init__(self, directory: Path) -> None:
        self._path = directory / LOCK_NAME
        try:
            directory.mkdir(parents=True, exist_ok=True)
            self._file = self._opened(directory)
        except FileExistsError:
            raise TrainerError(f"{directory} is a file", remedy="Name a directory, or gs://bucket/prefix") from None
        except OSError as error:
            raise TrainerError(f"Cannot write to {directory}", why=error.strerror or str(error)) from error

    def _opened(self, directory: Path) -> IO[str]:
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
            file.close()  # it is locked, or was removed by its holder between the two calls
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
    def __init__(self, out: str, notify: Callable[[str], None]) -> None:
        self._out, self._url = out, objects.join(out, LOCK_NAME)
        self._writer = secrets.token_hex(8)
        self._lost = False
        self._ended = threading.Event()
        self._writing = threading.Lock()
        self._generation = self._taken(notify)

    def _taken(self, notify: Callable[[str], None]) -> int:
        found = objects.generation(self._url)
        if found:
            notify(
                f"{self._url} says that shards are being made there: "
                f"{DEAD_AFTER_S:.0f} s will show whether they still are .."
            )
            self._watch(found)
        try:
            return objects.upload(self._url, _describe_holder().encode(), replaces=found, writer=self._writer)
        except objects.TakenError:
            raise self._refusal() from None

    def _watch(self, found: int) -> None:
        """Raise TrainerError where the object is written anew or disappears: its holder lives, or has just ended."""
        deadline = time.monotonic() + DEAD_AFTER_S
        while time.monotonic() < deadline:
            time.sleep(POLL_INTERVAL_S)
            if objects.generation(self._url) != found:
                raise self._refusal()

    def _refusal(self) -> TrainerError:
        try:
            return _busy_error(self._out, objects.read(self._url).decode("utf-8", "replace").strip())
        except objects.MissingError:
            return _busy_error(self._out, "a process that has just come to its end")

    def start_heartbeat(self) -> None:
        threading.Thread(target=self._beat_on, name="claim", daemon=True).start()

    def _beat_on(self) -> None:
        while not self._ended.wait(HEARTBEAT_INTERVAL_S) and not self._lost:
            with contextlib.suppress(TrainerError):  # a network that breaks: the next time, or never again
                self._beat(patience=HEARTBEAT_INTERVAL_S)

    def _beat(self, patience: float) -> None:
        with self._writing:
            if self._lost or self._ended.is_set():
                return
            try:
                self._generation = objects.upload(
                    self._url, _describe_holder().encode(), self._generation, patience=patience, writer=self._writer
                )
            except objects.TakenError:
                self._lost = True

    def verify(self) -> None:
        self._beat(patience=objects.FIRST_RETRY_S)
        if self._lost:
            raise TrainerError(
                f"Another process makes shards in {self._out} by now",
                why=f"no heartbeat of this one arrived for {DEAD_AFTER_S:.0f} s",
                remedy="See what it leaves there, and start again with --overwrite if need be",
            )

    def release(self) -> None:
        self._ended.set()
        with self._writing, contextlib.suppress(TrainerError):
            if own := objects.generation(self._url, self._writer, patience=HEARTBEAT_INTERVAL_S):
                objects.delete(self._url, own, patience=HEARTBEAT_INTERVAL_S)
