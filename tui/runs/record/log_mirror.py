"""The mirror of one worker's log: appended to, never truncated, never rewritten.

Bytes are handed to the operating system at once, so that a killed keeper loses none of them. They are flushed to the
disk every `FLUSH_INTERVAL_S` seconds of writing and when the log has ended. After a power loss here the mirror may be
shorter, but is never wrong, and continues from there.
"""

from __future__ import annotations

import asyncio
import errno
import os
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

from tui.runs.record.run_directory import RunDirectory
from tui.runs.record.run_status import DISK_HAS_ROOM, DISK_IS_FULL, status_of
from tui.settings.home import open_regular

_Result = TypeVar("_Result")

FLUSH_INTERVAL_S = 10.0
_RETRY_FULL_INTERVAL_S = 2.0
"""Seconds between two tries while the disk here is full."""
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class Mirror:
    """One worker's log file on this machine. While the disk is full, every write waits for room.

    That is reported once for all mirrors of a run.
    """

    def __init__(self, directory: RunDirectory, worker: int) -> None:
        self.directory = directory
        self.worker = worker
        self.size = 0
        self._descriptor = -1
        self._flushed = time.monotonic()
        self._durable = 0
        """Bytes that are known to be on the disk."""

    async def open(self) -> None:
        """Open or create the file. Must be called first."""
        self.directory.require_own()
        path, flags = self.directory.log_path(self.worker), os.O_CREAT | os.O_APPEND | os.O_WRONLY
        self._descriptor = await self._patiently(partial(open_regular, path, flags))
        self.size = os.fstat(self._descriptor).st_size
        if self.directory.is_reported_full is None:
            self.directory.is_reported_full = status_of(self.directory).disk_is_full

    async def append(self, data: bytes) -> None:
        """Write a batch and note its arrival."""
        rest = memoryview(data)
        while rest:
            written = await self._patiently(partial(os.write, self._descriptor, rest))
            self.size += written
            rest = rest[written:]
        await self._patiently(partial(self.directory.append_arrival, self.worker, self.size, time.time()))
        if self.directory.is_reported_full and self._reserve_space():
            self.directory.is_reported_full = False
            await record(self.directory, "note", worker=self.worker, text=DISK_HAS_ROOM)
        if time.monotonic() - self._flushed > FLUSH_INTERVAL_S:
            await self.flush()

    async def _patiently(self, write: Callable[[], _Result]) -> _Result:
        return await retry_while_full(write, self._record_full)

    def _record_full(self) -> None:
        if not self.directory.is_reported_full:
            self.directory.is_reported_full = True
            self.directory.release_space()
            with suppress(OSError):
                self.directory.append_event("note", worker=self.worker, text=DISK_IS_FULL)
            self._reserve_space()

    def _reserve_space(self) -> bool:
        """Reserve space for events again, as much as there is; return whether there is enough."""
        try:
            self.directory.reserve_space()
        except OSError:
            return False
        return True

    async def flush(self) -> None:
        """Make the written bytes durable, without blocking the event loop."""
        self._flushed = time.monotonic()
        size = self.size
        if size == self._durable:
            return
        with suppress(OSError):
            await asyncio.get_running_loop().run_in_executor(None, os.fsync, self._descriptor)
            self._durable = size

    def close(self) -> None:
        """Close the file, where it was opened."""
        if self._descriptor >= 0:
            os.close(self._descriptor)


async def retry_while_full(write: Callable[[], _Result], full: Callable[[], None] = lambda: None) -> _Result:
    """Return the result of `write`; while the disk is full, call `full`, wait and try again."""
    while True:
        try:
            return write()
        except OSError as error:
            if not is_full(error):
                raise
        full()
        await asyncio.sleep(_RETRY_FULL_INTERVAL_S)


def is_full(error: OSError) -> bool:
    """Return whether an error means that there is no room: blocks, inodes or a quota are used up."""
    return error.errno in _FULL


def record_missing_arrivals(directory: RunDirectory) -> None:
    """Add the arrivals of bytes that a killed keeper wrote into the mirrors without noting them."""
    sizes = {worker.index: directory.log_size(worker.index) for worker in directory.run.workers}
    unseen = {worker for worker, size in sizes.items() if size}
    ends: dict[int, int] = {}
    arrivals = directory.newest_arrivals()
    while unseen and (arrival := next(arrivals, None)):
        if arrival.worker in unseen:
            unseen.remove(arrival.worker)
            ends[arrival.worker] = arrival.end
    for index, size in sizes.items():
        if size > ends.get(index, 0):
            directory.append_arrival(index, size, time.time())


def archive_attempt_logs(directory: RunDirectory, attempt: int) -> None:
    """Move the mirrors of the previous attempt to `attempts/<n>/`, so that those of `attempt` can begin.

    In `arrivals` a line with end 0 means that the worker's next log begins. An interrupted call can be repeated.
    """
    earlier = directory.attempt_path(attempt - 1)
    earlier.mkdir(parents=True, exist_ok=True, mode=0o700)
    archived = directory.archived_logs()
    for worker in directory.run.workers:
        log = directory.log_path(worker.index)
        if not (earlier / log.name).exists():
            os.close(open_regular(log, os.O_CREAT | os.O_WRONLY))
            log.rename(earlier / log.name)
        if archived[worker.index] < attempt:
            directory.append_arrival(worker.index, 0, time.time())


async def record(directory: RunDirectory, kind: str, *, worker: int | None = None, **fields: Any) -> None:
    """Append an event that must not be lost: use the reserved space of a full disk, then wait for room."""
    await retry_while_full(partial(directory.append_event, kind, worker=worker, **fields), directory.release_space)
