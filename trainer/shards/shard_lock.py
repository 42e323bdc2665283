"""A place that one process at a time makes shards in: two at once would leave a manifest of one's and shards of both.

In a directory a locked file tells; the kernel lets go of the lock when its holder ends, however that comes. In a
bucket it is an object that its holder writes anew every few seconds. Each time it is another generation to Cloud
Storage, so who finds one need only watch: no clocks are compared, and of several only one can take a dead's place.
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

CLAIM = ".making-shards"
BEAT = 4.0  # seconds between two generations of a living maker's
DEAD = 20.0  # seconds without one
POLL = 1.0  # seconds
ENDING = 2.0  # seconds that the processes of a killed maker, which hold its lock too, may take to follow it
REMEDY = "Wait for it, end it, or choose another --out"


class Claim(ABC):
    """This process may make shards in a place, and no other one."""

    def keep(self) -> None:  # noqa: B027
        """Go on claiming it, in a thread where one is needed: after this process has forked others."""

    def verify(self) -> None:  # noqa: B027
        """Raise TrainerError where another process has taken this one for dead, and its place."""

    @abstractmethod
    def let_go(self) -> None:
        """Have the next one make shards there."""


@contextlib.contextmanager
def claimed(out: str, tell: Callable[[str], None]) -> Iterator[Claim]:
    """Be the only one to make shards in `out`; raises TrainerError where another process does."""
    claim = _InBucket(out, tell) if objects.is_bucket(out) else _InDirectory(Path(out))
    try:
        yield claim
    finally:
        claim.let_go()


def _who() -> str:
    return f"process {os.getpid()} on {socket.gethostname()}"


def _refused(out: str, who: str) -> TrainerError:
    what = f"Shards are being made in {out} already"
    return TrainerError(what, why=f"by {who}" if who else "by another process", remedy=REMEDY)


class _InDirectory(Claim):
    def __init__(self, directory: Path) -> None:
        self._path = directory / CLAIM
        try:
            directory.mkdir(parents=True, exist_ok=True)
            self._file = self._opened(directory)
        except FileExistsError:
            raise TrainerError(f"{directory} is a file", remedy="Name a directory, or gs://bucket/prefix") from None
        except OSError as error:
            raise TrainerError(f"Cannot write to {directory}", why=error.strerror or str(error)) from error

    def _opened(self, directory: Path) -> IO[str]:
        deadline = time.monotonic() + ENDING
        while True:
            file = self._path.open("a+", encoding="utf-8", errors="replace")
            if _locked(file):
                if os.fstat(file.fileno()).st_nlink:
                    file.truncate(0)
                    print(_who(), file=file, flush=True)
                    return file
            elif time.monotonic() >= deadline:
                with file:
                    file.seek(0)
                    raise _refused(str(directory), file.read().strip())
            file.close()  # it is locked, or was removed by its holder between the two calls
            time.sleep(ENDING / 20)

    def let_go(self) -> None:
        with contextlib.suppress(OSError):
            self._path.unlink()
        self._file.close()


def _locked(file: IO[str]) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        pass  # a file system without locks
    return True


class _InBucket(Claim):
    def __init__(self, out: str, tell: Callable[[str], None]) -> None:
        self._out, self._url = out, objects.join(out, CLAIM)
        self._writer = secrets.token_hex(8)
        self._lost = False
        self._ended = threading.Event()
        self._writing = threading.Lock()
        self._generation = self._taken(tell)

    def _taken(self, tell: Callable[[str], None]) -> int:
        found = objects.generation(self._url)
        if found:
            tell(
                f"{self._url} says that shards are being made there: {DEAD:.0f} s will show whether they still are .."
            )
            self._watch(found)
        try:
            return objects.upload(self._url, _who().encode(), replaces=found, writer=self._writer)
        except objects.TakenError:
            raise self._refusal() from None

    def _watch(self, found: int) -> None:
        """Raise TrainerError where it is written anew, or gone: whoever made shards there has come to an end."""
        deadline = time.monotonic() + DEAD
        while time.monotonic() < deadline:
            time.sleep(POLL)
            if objects.generation(self._url) != found:
                raise self._refusal()

    def _refusal(self) -> TrainerError:
        try:
            return _refused(self._out, objects.read(self._url).decode("utf-8", "replace").strip())
        except objects.MissingError:
            return _refused(self._out, "a process that has just come to its end")

    def keep(self) -> None:
        threading.Thread(target=self._beat_on, name="claim", daemon=True).start()

    def _beat_on(self) -> None:
        while not self._ended.wait(BEAT) and not self._lost:
            with contextlib.suppress(TrainerError):  # a network that breaks: the next time, or never again
                self._beat(patience=BEAT)

    def _beat(self, patience: float) -> None:
        with self._writing:
            if self._lost or self._ended.is_set():
                return
            try:
                self._generation = objects.upload(
                    self._url, _who().encode(), self._generation, patience=patience, writer=self._writer
                )
            except objects.TakenError:
                self._lost = True

    def verify(self) -> None:
        self._beat(patience=objects.PATIENCE)
        if self._lost:
            raise TrainerError(
                f"Another process makes shards in {self._out} by now",
                why=f"no heartbeat of this one arrived for {DEAD:.0f} s",
                remedy="See what it leaves there, and start again with --overwrite if need be",
            )

    def let_go(self) -> None:
        self._ended.set()
        with self._writing, contextlib.suppress(TrainerError):
            if own := objects.generation(self._url, self._writer, patience=BEAT):
                objects.delete(self._url, own, patience=BEAT)
