"""One command while it runs on a worker: what it wrote so far, kept in memory within bounds."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable

import asyncssh

from tui.ssh import errors
from tui.ssh.exec.command_result import CommandResult

CHUNK = 64 * 1024
OUTPUT_LIMIT = 256 * 1024 * 1024
"""Bytes of output that are kept of one command when nobody says how many; a command that writes more is ended."""

MOST_SHARE_BYTES = 64 * 1024
"""Bytes of a budget that are one stream's alone, at most."""

OnOutput = Callable[["RunningCommand", bool, bytes], None]
"""Told what just came, and whether it came on stderr."""


class OutputBudget:
    """Bytes of output that several commands keep together: what one does not use is there for the others.

    Each stream has a small share that no other can take, so that one which begins late is not silent.
    """

    def __init__(self, total: int, streams: int = 1) -> None:
        self.share = min(MOST_SHARE_BYTES, total // (4 * streams))
        self._left = total - self.share * streams

    def take(self, wanted: int) -> int:
        """Take so many bytes, or what is left; how many that were."""
        granted = min(wanted, self._left)
        self._left -= granted
        return granted


class BoundedOutput:
    """Bytes of one stream: all of them, or the first and the last of them where the budget is used up."""

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
        """Take in what came; what is too much is left out of the middle."""
        if self._most_last is not None:
            self._last += data
        elif (granted := self._granted(len(data))) == len(data):
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

    def _granted(self, wanted: int) -> int:
        if self._budget is None:
            return wanted
        own = min(wanted, self._share)
        self._share -= own
        return own + self._budget.take(wanted - own)

    def bytes(self) -> bytes:
        """What was kept, with a line that tells what is missing where something is."""
        gap = b"\n[... %d bytes left out ...]\n" % self.omitted if self.omitted else b""
        return b"".join((self._first, gap, self._last))


class RunningCommand(asyncssh.SSHClientSession[bytes]):
    """A command whose output is collected: cheaper than stream readers by half.

    With `keep` its output is cut in the middle beyond that budget and the command goes on; without, one that writes
    more than `OUTPUT_LIMIT` is ended and counts as `flooded`.
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
        """What there is of it now; the exit code is None while it runs, and when time ran out."""
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
        """The session is open."""
        self._channel = chan

    def data_received(self, data: bytes, datatype: int | None) -> None:
        """Keep what came, and pass it on."""
        if self._keep is None and len(self.out) + len(self.err) + len(data) > OUTPUT_LIMIT:
            self.output_limit_exceeded = True
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
        self.signal = errors.quote_remote(signal)

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
