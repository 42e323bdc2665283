"""`ProxyCommand`: programs of the person's whose standard input and output lead to a host's SSH port."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import subprocess

from tui.ssh import errors
from tui.ssh.errors import SshError

_WORDS = 1000
"""Bytes of its complaints that are kept, the last ones."""
_PARTING = 1.0
"""Seconds in which one that broke off may say why, and in which one that is told to end does so."""
_GLANCE = 0.02


class ProxyCommands:
    """The programs of one fleet, ended when their connections are, at the latest with the fleet."""

    def __init__(self) -> None:
        self._running: set[_Program] = set()

    def route_for(self, command: str, worker: int | str | None) -> ProxyRoute:
        """How a socket through this command is had."""
        return ProxyRoute(self, command, worker)

    def start(self, command: str) -> tuple[_Program, socket.socket]:
        """Start one; the socket leads through it. Raises OSError."""
        for ended in [program for program in self._running if program.has_ended]:
            ended.release()
            self._running.discard(ended)
        program = _Program()
        sock = program.start(command)
        self._running.add(program)
        return program, sock

    async def close(self) -> None:
        """End them all."""
        for program in self._running:
            program.end()
        await asyncio.gather(*(program.wait(_PARTING) for program in self._running))
        for program in self._running:
            program.kill()
            program.release()
        self._running.clear()


class ProxyRoute:
    """One worker's way through its command: a program for each try."""

    def __init__(self, commands: ProxyCommands, command: str, worker: int | str | None) -> None:
        self._commands = commands
        self._command = command
        self._worker = worker
        self._program: _Program | None = None

    async def open(self) -> socket.socket:
        """A connected socket that leads through the program. Raises SshError."""
        try:
            self._program, sock = self._commands.start(self._command)
        except OSError as error:
            raise errors.PROXY_FAILED.error(self._worker, command=self._command, words=str(error)) from None
        return sock

    async def failure(self) -> SshError | None:
        """Why nothing came through; None where the program ended as if all were well: the host hung up."""
        program = self._program
        if program is None:
            return None
        await program.wait(_PARTING)
        if program.ended_well and not program.words:
            return None
        return errors.PROXY_FAILED.error(self._worker, command=self._command, words=program.words or program.fate)

    def end(self) -> None:
        """The connection is over, and so is its program."""
        if self._program is not None:
            self._program.end()


class _Program:
    """One running command."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._loop = asyncio.get_running_loop()
        self._stderr = -1
        self._stderr_tail = b""

    def start(self, command: str) -> socket.socket:
        """Start it; the socket leads to its standard input and output. Raises OSError."""
        ours, theirs = socket.socketpair()
        self._stderr, stderr = os.pipe()
        try:
            # As ssh(1) runs it: by the person's shell, which it takes the place of.
            shell = os.environ.get("SHELL") or "/bin/sh"
            words = [shell, "-c", f"exec {command}"]
            end = theirs.fileno()
            self._process = subprocess.Popen(words, stdin=end, stdout=end, stderr=stderr, start_new_session=True)
        except OSError:
            ours.close()
            os.close(self._stderr)
            raise
        finally:
            theirs.close()
            os.close(stderr)
        ours.setblocking(False)
        os.set_blocking(self._stderr, False)
        self._loop.add_reader(self._stderr, self._read_stderr)
        return ours

    @property
    def words(self) -> str:
        """The last that it complained of."""
        lines = self._stderr_tail.decode("utf-8", "replace").strip().splitlines()
        return lines[-1] if lines else ""

    @property
    def has_ended(self) -> bool:
        """Whether it is there no more."""
        return self._process is None or self._process.poll() is not None

    @property
    def ended_well(self) -> bool:
        """Whether it ended, and says that nothing is wrong."""
        return self._process is not None and self._process.poll() == 0

    @property
    def fate(self) -> str:
        """How it ended, or that it did not."""
        code = self._process.poll() if self._process is not None else None
        return "it goes on and nothing comes" if code is None else f"it ended with {code}"

    async def wait(self, seconds: float) -> None:
        """Wait for its end, for so many seconds at most."""
        for _ in range(round(seconds / _GLANCE)):
            if self.has_ended:
                return
            await asyncio.sleep(_GLANCE)

    def end(self) -> None:
        """Have it end, what it started included."""
        self._signal(signal.SIGTERM)

    def kill(self) -> None:
        """End it for certain."""
        self._signal(signal.SIGKILL)
        if self._process is not None:
            self._process.wait()

    def release(self) -> None:
        """Hear its last words, and listen no more: what it left behind may hold its standard error for ever."""
        if self._stderr >= 0:
            self._read_stderr()
        self._close_stderr()

    def _signal(self, number: signal.Signals) -> None:
        if self._process is not None and not self.has_ended:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, number)

    def _read_stderr(self) -> None:
        try:
            heard = os.read(self._stderr, 4096)
        except BlockingIOError:
            return
        self._stderr_tail = (self._stderr_tail + heard)[-_WORDS:]
        if not heard:
            self._close_stderr()

    def _close_stderr(self) -> None:
        if self._stderr >= 0:
            self._loop.remove_reader(self._stderr)
            os.close(self._stderr)
            self._stderr = -1
