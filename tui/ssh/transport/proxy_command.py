"""`ProxyCommand`: programs whose standard input and output are connected to a host's SSH port."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
from dataclasses import dataclass, field

from tui.ssh import errors
from tui.ssh.errors import SshError

_STDERR_TAIL_BYTES = 1000
"""Bytes of a program's error output to keep."""
_END_TIMEOUT_S = 1.0
"""Seconds to wait for a program to end, by itself or after SIGTERM."""
_POLL_INTERVAL_S = 0.02


class ProxyCommands:
    """The programs of one fleet; each ends with its connection, at the latest with the fleet."""

    def __init__(self) -> None:
        self._running: set[_Program] = set()

    def start(self, command: str) -> _Program:
        """Start a program. Raises OSError."""
        for ended in [program for program in self._running if program.code is not None]:
            ended.release()
            self._running.discard(ended)
        program = _Program(command)
        self._running.add(program)
        return program

    async def close(self) -> None:
        """End all programs."""
        for program in self._running:
            program.end()
        await asyncio.gather(*(program.wait(_END_TIMEOUT_S) for program in self._running))
        for program in self._running:
            program.kill()
            program.release()
        self._running.clear()


@dataclass
class ProxyRoute:
    """One worker's route through its command; each attempt starts a program."""

    commands: ProxyCommands
    command: str
    worker: int | None
    _program: _Program | None = field(default=None, init=False)

    async def open(self) -> socket.socket:
        """Start the program and return a socket connected to it. Raises SshError."""
        try:
            self._program = self.commands.start(self.command)
        except OSError as error:
            raise errors.PROXY_FAILED.error(self.worker, command=self.command, words=str(error)) from None
        return self._program.socket

    async def failure(self) -> SshError | None:
        """Return why nothing came through; None if the program ended without an error, because the host hung up."""
        program = self._program
        if program is None:
            return None
        await program.wait(_END_TIMEOUT_S)
        code, words = program.code, program.words
        if code == 0 and not words:
            return None
        how_it_ended = "it is running, but sends nothing" if code is None else f"it ended with {code}"
        return errors.PROXY_FAILED.error(self.worker, command=self.command, words=words or how_it_ended)

    def end(self) -> None:
        """End the program: its connection is over."""
        if self._program is not None:
            self._program.end()


class _Program:
    """One running command, and a `socket` connected to its standard input and output."""

    def __init__(self, command: str) -> None:
        """Start it. Raises OSError."""
        self._loop = asyncio.get_running_loop()
        self._stderr_tail = b""
        self.socket, remote = socket.socketpair()
        self._stderr, stderr = os.pipe()
        try:
            # As ssh(1) does: the user's shell replaces itself with the command.
            shell = os.environ.get("SHELL") or "/bin/sh"
            argv = [shell, "-c", f"exec {command}"]
            end = remote.fileno()
            self._process = subprocess.Popen(argv, stdin=end, stdout=end, stderr=stderr, start_new_session=True)
        except OSError:
            self.socket.close()
            os.close(self._stderr)
            raise
        finally:
            remote.close()
            os.close(stderr)
        self.socket.setblocking(False)
        os.set_blocking(self._stderr, False)
        self._loop.add_reader(self._stderr, self._read_stderr)

    @property
    def words(self) -> str:
        """The last line of its error output."""
        lines = self._stderr_tail.decode("utf-8", "replace").strip().splitlines()
        return lines[-1] if lines else ""

    @property
    def code(self) -> int | None:
        """The exit code; None while it runs."""
        return self._process.poll()

    async def wait(self, seconds: float) -> None:
        for _ in range(round(seconds / _POLL_INTERVAL_S)):
            if self.code is not None:
                return
            await asyncio.sleep(_POLL_INTERVAL_S)

    def end(self) -> None:
        """Send SIGTERM to it and to the processes it started."""
        self._signal(signal.SIGTERM)

    def kill(self) -> None:
        self._signal(signal.SIGKILL)
        self._process.wait()

    def release(self) -> None:
        """Read the rest of its error output and close it: processes it left behind may hold it open."""
        if self._stderr >= 0:
            self._read_stderr()
        self._close_stderr()

    def _signal(self, number: signal.Signals) -> None:
        if self.code is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, number)

    def _read_stderr(self) -> None:
        try:
            data = os.read(self._stderr, 4096)
        except BlockingIOError:
            return
        self._stderr_tail = (self._stderr_tail + data)[-_STDERR_TAIL_BYTES:]
        if not data:
            self._close_stderr()

    def _close_stderr(self) -> None:
        if self._stderr >= 0:
            self._loop.remove_reader(self._stderr)
            os.close(self._stderr)
            self._stderr = -1
