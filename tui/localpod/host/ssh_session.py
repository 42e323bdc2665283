"""One SSH session of a worker: a command or shell and its standard streams, as OpenSSH's sshd runs them."""

from __future__ import annotations

import asyncio
import fcntl
import os
import pty
import signal
import subprocess
import termios
from collections.abc import Callable, Mapping
from typing import Any

from tui.ssh.asyncssh_import import asyncssh

SFTP_VERSION = 3
"""OpenSSH's version. Relative paths start at the host process's working directory, which is the home."""
CANNOT_START = 126
"""The exit code of a command that could not be started, as in sh(1)."""
RFC_4254_SIGNALS = frozenset(
    ("ABRT", "ALRM", "FPE", "HUP", "ILL", "INT", "KILL", "PIPE", "QUIT", "SEGV", "TERM", "USR1", "USR2")
)
ACCEPTED_VARIABLES = ("LANG", "LC_")
"""Prefixes of the variables that a client may set: `AcceptEnv LANG LC_*` in Debian's sshd_config."""


def _take_terminal() -> None:
    """Make standard input the controlling terminal of the new session. Runs in the child, before exec."""
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def exit_code_of(process: subprocess.Popen[bytes]) -> asyncio.Future[int]:
    """Return a future of the exit code, negative for a signal. The child is reaped in any case."""
    loop = asyncio.get_running_loop()
    handle = os.pidfd_open(process.pid)
    ended: asyncio.Future[int] = loop.create_future()

    def reap() -> None:
        loop.remove_reader(handle)
        os.close(handle)
        code = process.wait()
        if not ended.done():
            ended.set_result(code)

    loop.add_reader(handle, reap)
    return ended


def _file_server(channel: Any) -> asyncssh.SFTPServer:
    return asyncssh.SFTPServer(channel)


class SshSession(asyncssh.SSHServerProcess[bytes]):
    """A command, a shell, or SFTP, on one channel. `ended` is called once, when the session no longer counts.

    The channel closes when the command has exited and all writers have closed its output. If the client closes the
    channel first, the job only loses its descriptors: jobs on a terminal get SIGHUP from the kernel, others continue.
    """

    def __init__(self, home: str, shell: str, environment: Mapping[str, str], ended: Callable[[], None]) -> None:
        super().__init__(self._begin, _file_server, SFTP_VERSION, allow_scp=False)
        self._home = home
        self._shell = shell
        self._environment = environment
        self._ended = ended
        self._is_released = False
        self._task: asyncio.Task[None] | None = None

    def subsystem_requested(self, subsystem: str) -> bool:
        """Allow SFTP and no other subsystem."""
        return subsystem == "sftp"

    def _begin(self, _: asyncssh.SSHServerProcess[bytes]) -> None:
        self._task = asyncio.create_task(self._run())

    async def _run(self) -> None:
        """Run the command, send its output, then its exit code or signal."""
        try:
            ended = await (self._start_on_pipes() if self.term_type is None else self._start_on_terminal())
        except (OSError, ValueError) as error:
            self.stderr.write(f"{error}\n".encode(errors="replace"))
            self._finish(CANNOT_START)
            return
        code = await ended
        await self.redirect_stdin(asyncssh.DEVNULL)
        await asyncio.gather(self.stdout.drain(), self.stderr.drain())
        self._finish(code)

    async def _start_on_pipes(self) -> asyncio.Future[int]:
        pipe = subprocess.PIPE
        process = self._spawn(stdin=pipe, stdout=pipe, stderr=pipe, bufsize=0)
        ended = exit_code_of(process)
        await self.redirect(process.stdin, process.stdout, process.stderr, send_eof=False)
        return ended

    async def _start_on_terminal(self) -> asyncio.Future[int]:
        """Start on a new terminal, whose size is set before the command can read it."""
        master, slave = pty.openpty()
        try:
            await self.redirect(master, master, send_eof=False, recv_eof=False)
            return exit_code_of(self._spawn(stdin=slave, stdout=slave, stderr=slave, preexec_fn=_take_terminal))
        finally:
            os.close(slave)

    def _spawn(self, **streams: object) -> subprocess.Popen[bytes]:
        """Start the command or login shell in its own session, whose process group gets the client's signals."""
        environment = dict(self._environment)
        environment |= {name: value for name, value in self.env.items() if name.startswith(ACCEPTED_VARIABLES)}
        if self.term_type is not None:
            environment["TERM"] = self.term_type or "dumb"
        shell = f"-{os.path.basename(self._shell)}"  # noqa: PTH119 - a leading "-" makes it a login shell
        arguments = [shell] if self.command is None else ["sh", "-c", self.command]
        process: subprocess.Popen[bytes] = subprocess.Popen(
            arguments,
            executable=self._shell if self.command is None else "/bin/sh",
            cwd=self._home,
            env=environment,
            start_new_session=True,
            **streams,  # type: ignore[call-overload]
        )
        self.set_redirect_pid(-process.pid)
        return process

    def _finish(self, code: int) -> None:
        self._release()
        if self.is_closing():
            return
        if code >= 0:
            self.exit(code)
            return
        name = signal.Signals(-code).name.removeprefix("SIG")
        self.exit_with_signal(name if name in RFC_4254_SIGNALS else f"{name}@openssh.com")

    def resume_feeding(self, datatype: int | None) -> None:
        """Accept the client's data again, on the loop's next turn.

        asyncio's write pipe loses data, followed by an end of file, that it gets while it reports that it has room
        (its `_write_ready` then closes the pipe).
        """
        asyncio.get_running_loop().call_soon(super().resume_feeding, datatype)

    def eof_received(self) -> bool:
        """Close the command's standard input; end SFTP with exit code 0, because scp fails without an exit code."""
        keep_open = super().eof_received()
        if self.subsystem is not None:
            self.exit(0)
        return keep_open

    def connection_lost(self, exc: Exception | None) -> None:
        """Release the command's streams: the channel is gone."""
        super().connection_lost(exc)
        if self._task is not None:
            self._task.cancel()
        self._release()

    def _release(self) -> None:
        """Free this session's place before the client learns that it has ended, so that the client can use it."""
        if not self._is_released:
            self._is_released = True
            self._ended()
