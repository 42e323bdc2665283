"""One command while it runs on a worker: what it wrote so far, kept in memory within bounds."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable

import asyncssh

from tui.ssh import reasons
from tui.ssh.outcome import Completed

CHUNK = 64 * 1024
OUTPUT_LIMIT = 256 * 1024 * 1024
"""Bytes of output that are kept of one command when nobody says how many; a command that writes more is ended."""

OnOutput = Callable[["Running", bool, bytes], None]
"""Told what just came, and whether it came on stderr."""


class Kept:
    """Bytes of one stream: all of them, or the first and the last when there are more than `limit`."""

    def __init__(self, limit: int | None = None) -> None:
        self._half = None if limit is None else max(1, limit // 2)
        self._first = bytearray()
        self._last = bytearray()
        self.omitted = 0

    def __len__(self) -> int:
        return len(self._first) + len(self._last)

    def add(self, data: bytes) -> None:
        """Take in what came; what is too much is left out of the middle."""
        if self._half is None:
            self._first += data
            return
        room = self._half - len(self._first)
        if room > 0:
            self._first += data[:room]
            data = data[room:]
        self._last += data
        if len(self._last) > 2 * self._half:
            self._cut()

    def _cut(self) -> None:
        assert self._half is not None
        excess = max(0, len(self._last) - self._half)
        del self._last[:excess]
        self.omitted += excess

    def bytes(self) -> bytes:
        """What was kept, with a line that tells what is missing where something is."""
        if self._half is not None:
            self._cut()
        if not self.omitted:
            return bytes(self._first + self._last)
        return bytes(self._first) + b"\n[... %d bytes left out ...]\n" % self.omitted + bytes(self._last)


class Running(asyncssh.SSHClientSession[bytes]):
    """A command whose output is collected: cheaper than stream readers by half.

    With `keep` its output is cut in the middle beyond so many bytes of each stream and the command goes on; without,
    one that writes more than `OUTPUT_LIMIT` is ended and counts as `flooded`.
    """

    def __init__(self, worker: int, keep: int | None = None, on_output: OnOutput | None = None) -> None:
        self.worker = worker
        self._keep = keep
        self._on_output = on_output
        self.out = Kept(keep)
        self.err = Kept(keep)
        self.exit_code: int | None = None
        self.signal: str | None = None
        self.flooded = False
        self.ended: asyncio.Future[Exception | None] = asyncio.get_running_loop().create_future()
        self._writable = asyncio.Event()
        self._writable.set()

    def so_far(self, *, timed_out: bool = False) -> Completed:
        """What there is of it now; the exit code is None while it runs, and when time ran out."""
        return Completed(
            worker=self.worker,
            exit_code=None if timed_out else self.exit_code,
            signal=None if timed_out else self.signal,
            stdout=self.out.bytes(),
            stderr=self.err.bytes(),
            timed_out=timed_out,
            omitted=self.out.omitted + self.err.omitted,
        )

    def connection_made(self, chan: asyncssh.SSHClientChannel[bytes]) -> None:
        """The session is open."""
        self._channel = chan

    def data_received(self, data: bytes, datatype: int | None) -> None:
        """Keep what came, and pass it on."""
        if self._keep is None and len(self.out) + len(self.err) + len(data) > OUTPUT_LIMIT:
            self.flooded = True
            self._channel.abort()
            return
        (self.out if datatype is None else self.err).add(data)
        if self._on_output is not None:
            self._on_output(self, datatype is not None, data)

    def exit_status_received(self, status: int) -> None:
        """The command ended by itself."""
        self.exit_code = status

    def exit_signal_received(self, signal: str, _dumped: bool, _message: str, _lang: str) -> None:
        """A signal ended the command."""
        self.signal = reasons.quoted(signal)

    def pause_writing(self) -> None:
        """The worker takes no more input now."""
        self._writable.clear()

    def resume_writing(self) -> None:
        """The worker takes input again."""
        self._writable.set()

    def connection_lost(self, exc: Exception | None) -> None:
        """The session is closed: nothing more will come."""
        self._writable.set()
        if not self.ended.done():
            self.ended.set_result(exc)

    async def send(self, channel: asyncssh.SSHClientChannel[bytes], data: bytes) -> None:
        """Write it all and the end of input, no faster than the worker takes it."""
        for start in range(0, len(data), CHUNK):
            await self._writable.wait()
            if self.ended.done() or channel.is_closing():
                return
            with contextlib.suppress(BrokenPipeError, OSError):
                channel.write(data[start : start + CHUNK])
        self.end_input(channel)

    def end_input(self, channel: asyncssh.SSHClientChannel[bytes]) -> None:
        """Write the end of input, where somebody is left to read it."""
        if not (self.ended.done() or channel.is_closing()):
            with contextlib.suppress(BrokenPipeError, OSError):
                channel.write_eof()
