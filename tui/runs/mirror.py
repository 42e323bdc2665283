"""The mirror of one worker's log: appended to, never truncated, never rewritten.

What is made durable when: bytes are written through to the operating system at once, so a keeper that is killed loses
none of what it took; they are flushed to the disk every `FLUSH_INTERVAL` seconds of writing and when the worker's log
has ended. After a power loss here the mirror may end earlier than it did, never wrong, and is continued from there.
"""

from __future__ import annotations

import asyncio
import errno
import os
import time
from contextlib import suppress
from typing import Any

from tui.runs.directory import RunDirectory

FLUSH_INTERVAL = 10.0
_RETRY_FULL = 2.0
"""Seconds between two tries while the disk here is full."""
RESERVE_FILE = "reserve"
RESERVE = 64 * 1024
"""Bytes held back for events while the disk here is full."""
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class Mirror:
    """One worker's log file here, open for appending."""

    def __init__(self, directory: RunDirectory, worker: int) -> None:
        self.directory = directory
        self.worker = worker
        keep_reserve(directory)
        path = directory.log_path(worker)
        self._descriptor = os.open(path, os.O_CREAT | os.O_APPEND | os.O_WRONLY | os.O_CLOEXEC, 0o600)
        self.size = os.fstat(self._descriptor).st_size
        self._flushed = time.monotonic()
        self._durable = 0
        """Bytes that are known to be on the disk."""

    async def append(self, data: bytes) -> None:
        """Write a batch and note its arrival; with a full disk here, wait (and say so) until there is room."""
        rest = memoryview(data)
        told = False
        while rest:
            try:
                written = os.write(self._descriptor, rest)
            except OSError as error:
                if error.errno not in _FULL:
                    raise
                told = await self._wait_for_room(told)
                continue
            self.size += written
            rest = rest[written:]
        await self._arrived(told)
        if time.monotonic() - self._flushed > FLUSH_INTERVAL:
            await self.flush()

    async def _arrived(self, told: bool) -> None:
        while True:
            try:
                self.directory.append_arrival(self.worker, self.size, time.time())
                break
            except OSError as error:
                if error.errno not in _FULL:
                    raise
                told = await self._wait_for_room(told)
        if told:
            keep_reserve(self.directory)
            await record(
                self.directory, "note", worker=self.worker, text="there is room again here: following goes on"
            )

    async def _wait_for_room(self, told: bool) -> bool:
        if not told:
            spend_reserve(self.directory)
            with suppress(OSError):
                self.directory.append_event(
                    "note", worker=self.worker, text="the disk here is full: following waits, the run goes on"
                )
        await asyncio.sleep(_RETRY_FULL)
        return True

    async def flush(self) -> None:
        """Make what was written durable; the disk is waited for in the loop's thread pool."""
        self._flushed = time.monotonic()
        size = self.size
        if size == self._durable:
            return
        with suppress(OSError):
            await asyncio.get_running_loop().run_in_executor(None, os.fsync, self._descriptor)
            self._durable = size

    def close(self) -> None:
        """Close the file."""
        os.close(self._descriptor)


def keep_reserve(directory: RunDirectory) -> None:
    """Hold a little room, so that a full disk can still be told in the run's events."""
    path = directory.path / RESERVE_FILE
    with suppress(OSError):
        descriptor = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o600)
        try:
            os.posix_fallocate(descriptor, 0, RESERVE)
        finally:
            os.close(descriptor)


def spend_reserve(directory: RunDirectory) -> None:
    """Give the room that was held to whatever is written next."""
    with suppress(OSError):
        (directory.path / RESERVE_FILE).unlink()


def tell_missed_arrivals(directory: RunDirectory) -> None:
    """Note what a killed keeper wrote into the mirrors and had no time to note in `arrivals`."""
    arrivals, _ = directory.arrivals()
    known = {arrival.worker: arrival.end for arrival in arrivals}
    for worker in directory.run.workers:
        with suppress(OSError):
            size = directory.log_path(worker.index).stat().st_size
            if size > known.get(worker.index, 0):
                directory.append_arrival(worker.index, size, time.time())


def set_logs_aside(directory: RunDirectory, attempt: int) -> None:
    """Make way for an attempt's logs: the mirrors of the one before go to `attempts/<n>/`.

    In `arrivals` a line with end 0 tells readers that the worker's next log begins. Can be done again after it was
    cut off.
    """
    earlier = directory.attempt_path(attempt - 1)
    earlier.mkdir(parents=True, exist_ok=True, mode=0o700)
    begun: dict[int, int] = {}
    for arrival in directory.arrivals()[0]:
        begun[arrival.worker] = begun.get(arrival.worker, 0) + (arrival.end == 0)
    for worker in directory.run.workers:
        log = directory.log_path(worker.index)
        if not (earlier / log.name).exists():
            log.touch(mode=0o600)
            log.rename(earlier / log.name)
        if begun.get(worker.index, 0) < attempt:
            directory.append_arrival(worker.index, 0, time.time())


async def record(directory: RunDirectory, kind: str, *, worker: int | None = None, **fields: Any) -> None:
    """Append an event that must not be lost: with a full disk here, wait until there is room."""
    while True:
        try:
            directory.append_event(kind, worker=worker, **fields)
            return
        except OSError as error:
            if error.errno not in _FULL:
                raise
        await asyncio.sleep(_RETRY_FULL)
