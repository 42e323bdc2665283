"""One command while it runs on a worker: its output so far, in bounded memory."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable

from tui.ssh import errors
from tui.ssh.asyncssh_import import asyncssh
from tui.ssh.results import CommandResult

CHUNK_BYTES = 64 * 1024
OUTPUT_LIMIT_BYTES = 256 * 1024 * 1024
"""Bytes of output that one command may write when no budget is given; a command that writes more is ended."""
MOST_SHARE_BYTES = 64 * 1024
"""Most bytes of a budget that are reserved for one stream."""

OnOutput = Callable[["RunningCommand", bool, bytes], None]
"""Called with new output, and whether it came on stderr."""


class OutputBudget:
    """A number of bytes of output that several commands share.

    A small share is reserved for each stream, so that a command that starts late still shows some output.
    """

    def __init__(self, total: int, streams: int = 1) -> None:
        self.share = min(MOST_SHARE_BYTES, total // (4 * streams))
        self._left = total - self.share * streams

    def take(self, wanted: int) -> int:
        """Take up to `wanted` bytes and return how many were left to take."""
        granted = min(wanted, self._left)
        self._left -= granted
        return granted


class BoundedOutput:
    """The bytes of one stream: all of them, or the first and the last when the budget is used up."""

    def __init__(self, budget: OutputBudget | None = None) -> None:
        self._budget = budget
        self._share = budget.share if budget else 0
        self._first = bytearray()
        self._last = bytearray()
        self._most_last: int | None = None
        self.omitted = 0

    def __len__(self) -> int:
        return len(self._first) + len(self._last)

    def add(self, data: bytes) -> None:
        """Add data; when the budget is used up, omit bytes from the middle."""
        if self._most_last is not None:
            self._last += data
        elif (granted := self._grant(len(data))) == len(data):
            self._first += data
            return
        else:
            self._first += data[:granted]
            most = len(self._first)
            self._last += self._first[most // 2 :]
            self._last += data[granted:]
            del self._first[most // 2 :]
            self._most_last = most - most // 2
        excess = max(0, len(self._last) - self._most_last)
        del self._last[:excess]
        self.omitted += excess

    def _grant(self, size: int) -> int:
        if self._budget is None:
            return size
        own = min(size, self._share)
        self._share -= own
        return own + self._budget.take(size - own)

    def bytes(self) -> bytes:
        """Return the bytes, with a line in the middle that says how many were omitted."""
        gap = b"\n[... %d bytes left out ...]\n" % self.omitted if self.omitted else b""
        return b"".join((self._first, gap, self._last))


class RunningCommand(asyncssh.SSHClientSession[bytes]):
    """A command whose output is collected, at half the cost of stream readers.

    With `keep`, output beyond that budget is omitted from the middle and the command continues. Without it, a command
    that writes more than `OUTPUT_LIMIT_BYTES` is ended and `output_limit_exceeded` is set.
    """

    def __init__(self, worker: int, keep: OutputBudget | None = None, on_output: OnOutput | None = None) -> None:
        self.worker = worker
        self._keep = keep
        self._on_output = on_output
        self.out = BoundedOutput(keep)
        self.err = BoundedOutput(keep)
        self.exit_code: int | None = None
        self.signal: str | None = None
        self.output_limit_exceeded = False
        self.ended: asyncio.Future[Exception | None] = asyncio.get_running_loop().create_future()
        self._writable = asyncio.Event()
        self._writable.set()

    def partial_result(self, *, timed_out: bool = False) -> CommandResult:
        """Return the result so far; the exit code is None while the command runs, and after a timeout."""
        return CommandResult(
            worker=self.worker,
            exit_code=None if timed_out else self.exit_code,
            signal=None if timed_out else self.signal,
            stdout=self.out.bytes(),
            stderr=self.err.bytes(),
            timed_out=timed_out,
            omitted=self.out.omitted + self.err.omitted,
        )

    def connection_made(self, chan: asyncssh.SSHClientChannel[bytes]) -> None:
        """Keep the channel of the open session."""
        self._channel = chan

    def data_received(self, data: bytes, datatype: int | None) -> None:
        """Collect output and pass it on."""
        if self._keep is None and len(self.out) + len(self.err) + len(data) > OUTPUT_LIMIT_BYTES:
            self.output_limit_exceeded = True
            self._channel.abort()
            return
        (self.out if datatype is None else self.err).add(data)
        if self._on_output is not None:
            self._on_output(self, datatype is not None, data)

    def exit_status_received(self, status: int) -> None:
        """Record that the command ended by itself."""
        self.exit_code = status

    def exit_signal_received(self, signal: str, _dumped: bool, _message: str, _lang: str) -> None:
        """Record the signal that ended the command."""
        self.signal = errors.quote_remote(signal)

    def pause_writing(self) -> None:
        """Stop writing: the worker takes no more input now."""
        self._writable.clear()

    def resume_writing(self) -> None:
        """Resume writing: the worker takes input again."""
        self._writable.set()

    def connection_lost(self, exc: Exception | None) -> None:
        """Record that the session is closed: no more output will come."""
        self._writable.set()
        if not self.ended.done():
            self.ended.set_result(exc)

    async def send(self, channel: asyncssh.SSHClientChannel[bytes], data: bytes) -> None:
        """Write the data and the end of input, no faster than the worker reads it."""
        for start in range(0, len(data), CHUNK_BYTES):
            await self._writable.wait()
            if self.ended.done() or channel.is_closing():
                return
            with contextlib.suppress(BrokenPipeError, OSError):
                channel.write(data[start : start + CHUNK_BYTES])
        self.end_input(channel)

    def end_input(self, channel: asyncssh.SSHClientChannel[bytes]) -> None:
        """Write the end of input, unless the command has ended."""
        if not (self.ended.done() or channel.is_closing()):
            with contextlib.suppress(BrokenPipeError, OSError):
                channel.write_eof()
