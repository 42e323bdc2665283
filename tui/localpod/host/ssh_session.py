"""One SSH session of a worker: a command or shell and its standard streams, as OpenSSH's sshd does it."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import fcntl
import os
import pty
import signal
import struct
import subprocess
import termios
from collections.abc import Callable, Mapping
from typing import Any

import asyncssh
from asyncssh.stream import SSHServerStreamSession

READ_SIZE = 1 << 16
"""A pipe's capacity: more than that is never there to be read."""
WRITE_LIMIT = 1 << 18
"""Bytes kept for a command that does not read its standard input before the client is held back."""
SFTP_VERSION = 3
"""OpenSSH's; relative paths are the host process's, whose working directory is the home."""
RFC_4254_SIGNALS = frozenset(
    ("ABRT", "ALRM", "FPE", "HUP", "ILL", "INT", "KILL", "PIPE", "QUIT", "SEGV", "TERM", "USR1", "USR2")
)
ACCEPTED_VARIABLES = ("LANG", "LC_")
"""What a client may set, as `AcceptEnv LANG LC_*` in Debian's sshd_config."""


class OutputPump:
    """What a command writes: a descriptor read whenever there is something and the client takes it."""

    def __init__(self, descriptor: int, write: Callable[[bytes], None], ended: Callable[[], None]) -> None:
        self._descriptor = descriptor
        self._write = write
        self._ended = ended
        self._paused = False
        self.is_open = True
        os.set_blocking(descriptor, False)
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(descriptor, self._readable)

    def _readable(self) -> None:
        try:
            data = os.read(self._descriptor, READ_SIZE)
        except BlockingIOError:
            return
        except OSError as error:
            if error.errno != errno.EIO:  # a terminal's master whose other side is closed
                raise
            data = b""
        if data:
            self._write(data)
        else:
            self.close()
            self._ended()

    def pause(self) -> None:
        """Stop reading until `resume`; the command then blocks in its write."""
        if self.is_open and not self._paused:
            self._paused = True
            self._loop.remove_reader(self._descriptor)

    def resume(self) -> None:
        """Go on reading."""
        if self.is_open and self._paused:
            self._paused = False
            self._loop.add_reader(self._descriptor, self._readable)

    def close(self) -> None:
        """Let go of the descriptor; a command that writes on gets SIGPIPE."""
        if self.is_open:
            self.is_open = False
            self._loop.remove_reader(self._descriptor)
            os.close(self._descriptor)


class InputPump:
    """What a command reads: bytes are kept until the descriptor takes them, the client held back meanwhile."""

    def __init__(self, descriptor: int, hold: Callable[[], None], go_on: Callable[[], None]) -> None:
        self._descriptor = descriptor
        self._hold = hold
        self._go_on = go_on
        self._buffer = bytearray()
        self._at_end = False
        self._waiting = False
        self._holding = False
        self.is_open = True
        os.set_blocking(descriptor, False)
        self._loop = asyncio.get_running_loop()

    def write(self, data: bytes) -> None:
        """Hand over bytes, now or as soon as there is room."""
        if not self.is_open or self._at_end:
            return
        self._buffer += data
        if not self._waiting:
            self._flush()
        if self.is_open and len(self._buffer) > WRITE_LIMIT and not self._holding:
            self._holding = True
            self._hold()

    def end(self) -> None:
        """Close once everything is handed over."""
        self._at_end = True
        if not self._buffer:
            self.close()

    def _flush(self) -> None:
        try:
            sent = os.write(self._descriptor, self._buffer)
        except BlockingIOError:
            sent = 0
        except OSError:  # the command closed its standard input: drop the data
            self.close()
            return
        del self._buffer[:sent]
        self._wait_for_room(bool(self._buffer))
        if self._at_end and not self._buffer:
            self.close()
        elif len(self._buffer) <= WRITE_LIMIT:
            self._let_go_on()

    def _wait_for_room(self, wanted: bool) -> None:
        if wanted and not self._waiting:
            self._loop.add_writer(self._descriptor, self._flush)
        elif self._waiting and not wanted:
            self._loop.remove_writer(self._descriptor)
        self._waiting = wanted

    def _let_go_on(self) -> None:
        """Last thing in whatever calls it: the channel hands over at once what it kept, end of file included."""
        if self._holding:
            self._holding = False
            self._go_on()

    def close(self) -> None:
        """Let go of the descriptor: the command reads end of file."""
        if self.is_open:
            self._wait_for_room(False)
            self.is_open = False
            self._buffer.clear()
            os.close(self._descriptor)
            self._let_go_on()


def _take_terminal() -> None:
    """In the child: make standard input its controlling terminal."""
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def _set_size(descriptor: int, columns: int, rows: int) -> None:
    fcntl.ioctl(descriptor, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))


class SshSession(asyncssh.SSHServerSession[bytes]):
    """A command, a shell, or SFTP, on one channel.

    The channel ends when the command has ended and everybody who could write to it has closed. A channel that goes
    first takes the descriptors away and nothing else: a terminal's jobs get SIGHUP from the kernel, others live on.
    """

    def __init__(self, home: str, shell: str, environment: Mapping[str, str], ended: Callable[[], None]) -> None:
        self._home = home
        self._shell = shell
        self._environment = environment
        self._ended = ended
        self._chan: Any = None
        self._process: subprocess.Popen[bytes] | None = None
        self._status: int | None = None
        self._stdin: InputPump | None = None
        self._sources: list[OutputPump] = []
        self._master = -1
        self._is_released = False
        self._sftp: SSHServerStreamSession[bytes] | None = None

    def connection_made(self, chan: Any) -> None:
        """The channel is there."""
        self._chan = chan

    def pty_requested(self, term_type: str, term_size: Any, term_modes: Any) -> bool:  # noqa: ARG002 - asyncssh's names
        """A terminal for every session that wants one."""
        return True

    def shell_requested(self) -> bool:
        """A shell."""
        return True

    def exec_requested(self, command: str) -> bool:  # noqa: ARG002 - asyncssh's name
        """Any command."""
        return True

    def subsystem_requested(self, subsystem: str) -> bool:
        """SFTP and nothing else."""
        if subsystem != "sftp":
            return False
        self._sftp = SSHServerStreamSession(None, _file_server, sftp_version=SFTP_VERSION)
        self._sftp.connection_made(self._chan)
        return True

    def session_started(self) -> None:
        """Start the command or shell."""
        if self._sftp is not None:
            self._sftp.session_started()
            return
        command = self._chan.get_command()
        arguments = ["sh", "-c", command] if command is not None else [f"-{os.path.basename(self._shell)}"]  # noqa: PTH119
        executable = "/bin/sh" if command is not None else self._shell
        environment = dict(self._environment)
        asked = self._chan.get_environment()
        environment |= {name: value for name, value in asked.items() if name.startswith(ACCEPTED_VARIABLES)}
        try:
            if self._chan.get_terminal_type() is not None:
                self._start_on_terminal(arguments, executable, environment)
            else:
                self._start_on_pipes(arguments, executable, environment)
        except (OSError, ValueError) as error:
            self._chan.write_stderr(f"{error}\n".encode(errors="replace"))
            self._chan.exit(126)

    def _spawn(self, arguments: list[str], executable: str, environment: dict[str, str], **streams: Any) -> None:
        self._process = subprocess.Popen(
            arguments, executable=executable, cwd=self._home, env=environment, start_new_session=True, **streams
        )
        handle = os.pidfd_open(self._process.pid)
        asyncio.get_running_loop().add_reader(handle, self._exited, handle)

    def _start_on_pipes(self, arguments: list[str], executable: str, environment: dict[str, str]) -> None:
        pipe = subprocess.PIPE
        self._spawn(arguments, executable, environment, stdin=pipe, stdout=pipe, stderr=pipe, bufsize=0)
        assert self._process is not None
        streams = (self._process.stdin, self._process.stdout, self._process.stderr)
        stdin, stdout, stderr = (os.dup(stream.fileno()) for stream in streams if stream is not None)
        for stream in streams:
            if stream is not None:
                stream.close()
        self._stdin = InputPump(stdin, self._chan.pause_reading, self._chan.resume_reading)
        self._sources = [
            OutputPump(stdout, self._chan.write, self._finish_if_over),
            OutputPump(stderr, self._chan.write_stderr, self._finish_if_over),
        ]

    def _start_on_terminal(self, arguments: list[str], executable: str, environment: dict[str, str]) -> None:
        environment["TERM"] = self._chan.get_terminal_type() or "dumb"
        self._master, slave = pty.openpty()
        try:
            columns, rows, _, _ = self._chan.get_terminal_size()
            _set_size(self._master, columns or 80, rows or 24)
            self._spawn(
                arguments, executable, environment, stdin=slave, stdout=slave, stderr=slave, preexec_fn=_take_terminal
            )
        finally:
            os.close(slave)
        self._stdin = InputPump(os.dup(self._master), self._chan.pause_reading, self._chan.resume_reading)
        self._sources = [OutputPump(self._master, self._chan.write, self._finish_if_over)]

    def _exited(self, handle: int) -> None:
        asyncio.get_running_loop().remove_reader(handle)
        os.close(handle)
        assert self._process is not None
        self._status = self._process.wait()
        if self._stdin is not None:
            self._stdin.close()
        self._finish_if_over()

    def _finish_if_over(self) -> None:
        if self._status is None or any(source.is_open for source in self._sources) or self._chan.is_closing():
            return
        self._release()
        if self._status >= 0:
            self._chan.exit(self._status)
            return
        name = signal.Signals(-self._status).name.removeprefix("SIG")
        self._chan.exit_with_signal(name if name in RFC_4254_SIGNALS else f"{name}@openssh.com")

    def data_received(self, data: bytes, datatype: int | None) -> None:
        """The client's bytes, for standard input."""
        if self._sftp is not None:
            self._sftp.data_received(data, datatype)
        elif self._stdin is not None:
            self._stdin.write(data)

    def eof_received(self) -> bool:
        """Close the command's standard input; the channel stays open for its output."""
        if self._sftp is not None:
            self._sftp.eof_received()
            self._chan.exit(0)  # as sftp-server does: scp takes an end without a status for a failure
            return False
        if self._stdin is not None and self._master < 0:
            self._stdin.end()
        return True

    def pause_writing(self) -> None:
        """The client does not take more for now."""
        if self._sftp is not None:
            self._sftp.pause_writing()
        for source in self._sources:
            source.pause()

    def resume_writing(self) -> None:
        """The client takes more."""
        if self._sftp is not None:
            self._sftp.resume_writing()
        for source in self._sources:
            source.resume()

    def signal_received(self, signal: str) -> None:
        """A signal for the command's process group."""
        number = _signal_number(signal)
        if self._process is not None and self._status is None and number is not None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, number)

    def terminal_size_changed(self, width: int, height: int, pixwidth: int, pixheight: int) -> None:  # noqa: ARG002
        """Resize the terminal; the kernel notifies its jobs (SIGWINCH)."""
        if self._sources and self._sources[0].is_open and self._master >= 0:
            _set_size(self._master, width, height)

    def connection_lost(self, exc: Exception | None) -> None:
        """The channel is gone: let go of the command's streams."""
        if self._sftp is not None:
            self._sftp.connection_lost(exc)
        if self._stdin is not None:
            self._stdin.close()
        for source in self._sources:
            source.close()
        self._release()

    def _release(self) -> None:
        """Make room for another session, once: before the client learns of this one's end, so that it finds it."""
        if not self._is_released:
            self._is_released = True
            self._ended()


def _file_server(chan: Any) -> asyncssh.SFTPServer:
    return asyncssh.SFTPServer(chan)


def _signal_number(name: str) -> signal.Signals | None:
    return signal.Signals[f"SIG{name}"] if f"SIG{name}" in signal.Signals.__members__ else None
