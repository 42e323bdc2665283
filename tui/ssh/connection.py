"""One worker's live connection: commands, streams and probes over a limited number of sessions."""

from __future__ import annotations

import asyncio
import contextlib
import math
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tui.aio.background_tasks import BackgroundTasks
from tui.aio.backoff import backoff
from tui.aio.timeouts import within
from tui.ssh import errors
from tui.ssh.asyncssh_import import asyncssh
from tui.ssh.exec.command import OUTPUT_LIMIT_BYTES, OnOutput, OutputBudget, RunningCommand
from tui.ssh.exec.port_probe import PortState, classify_port
from tui.ssh.exec.script_protocol import WINDOW_BYTES
from tui.ssh.results import CommandResult
from tui.ssh.transport.client_callbacks import LoginClient

OPEN_ATTEMPTS = 4
REMOTE_MARGIN_S = 2
"""Seconds after this machine's timeout at which the worker itself ends the command."""
TERM_GRACE_S = 0.5
"""Seconds between TERM and KILL for a command that ran out of time."""
CLOSE_TIMEOUT_S = 3.0
_BY_SH = "exec sh -c '"
"""The beginning of commands that any login shell passes on to sh, such as those of `script_protocol.Call`."""


def command_line(words: Sequence[str]) -> str:
    """Return a line that any login shell passes on as these words.

    Even in single quotes tcsh replaces `!` and ends words at newlines, and fish reads backslashes: sh decodes those.
    """
    line = shlex.join(words)
    if not re.search(r"[!\\\n]", line):
        return line
    escaped = re.sub(r"[!\\\n']", lambda found: f"\\0{ord(found[0]):03o}", line)
    return f"""{_BY_SH}eval "$(printf %b "$1")"' tpu-tui '{escaped}'"""


def with_time_limit(command: str, seconds: float) -> str:
    """Return the command with a time limit that the worker enforces even when this machine is gone.

    OpenSSH forwards signals only since 7.9, and never to root's commands, so coreutils' `timeout` is used. A command
    that begins with `_BY_SH` needs no login shell in between, so bash does not read its start-up files again.
    """
    limit = math.ceil(seconds + REMOTE_MARGIN_S)
    by_sh = command.startswith(_BY_SH)
    invocation = '"$@"' if by_sh else '"${SHELL:-sh}" -c "$1"'
    script = (
        f"command -v timeout >/dev/null && exec timeout -k {REMOTE_MARGIN_S} {limit} {invocation}; exec {invocation}"
    )
    return f"exec sh -c '{script}' tpu-tui {command.removeprefix('exec ') if by_sh else shlex.quote(command)}"


@dataclass
class Slots:
    """The sessions that a connection may have open; the limit shrinks when the server refuses one more.

    `single`: the server allows one session only. Callers do not wait for it, because a run's follower may hold it.
    """

    limit: int
    single: bool
    used: int = 0
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    async def take(self) -> bool:
        """Wait for a free slot. Return False when the single one is taken."""
        while self.used >= self.limit or (self.single and self.used):
            if self.single:
                return False
            self._changed.clear()
            await self._changed.wait()
        self.used += 1
        return True

    def give(self) -> None:
        """Free a slot."""
        self.used -= 1
        self._changed.set()

    def shrink(self) -> bool:
        """Lower the limit after the server refused a session. Return False when no other session is open."""
        if self.used <= 1:
            return False
        self.limit = max(1, min(self.limit, self.used - 1))
        self.single = self.limit == 1
        self._changed.set()
        return True


_MakeSession = Callable[[], "asyncssh.SSHClientSession[bytes]"]


class _UnwantedSession(asyncssh.SSHClientSession[bytes]):
    """A session that nothing waits for: it is closed before its command is sent."""

    def connection_made(self, chan: asyncssh.SSHClientChannel[bytes]) -> None:
        chan.abort()


class _ProbeSession(asyncssh.SSHTCPSession[bytes]):
    """A connection to a port that is closed as soon as it is open, even if nothing waits for it any more."""

    def connection_made(self, chan: asyncssh.SSHTCPChannel[bytes]) -> None:
        """Close the connection."""
        chan.abort()


def _end_command(opening: asyncio.Future[Any]) -> None:
    """End a command whose session was opened too late."""
    if not opening.cancelled() and opening.exception() is None:
        channel, _ = opening.result()
        with contextlib.suppress(OSError, asyncssh.Error):
            channel.send_signal("TERM")
        channel.close()


class WorkerConnection:
    """A logged-in worker. `ended` is done when the connection is gone, whichever side ended it."""

    def __init__(
        self,
        worker: int,
        connection: asyncssh.SSHClientConnection,
        client: LoginClient,
        sessions: int,
        *,
        single: bool = False,
    ) -> None:
        """Wrap a connection; `single`: the server is known to allow one session only."""
        self.worker = worker
        self.connection = connection
        self.ended = client.ended
        self._slots = Slots(sessions, single)
        self._watchers = BackgroundTasks()

    @property
    def alive(self) -> bool:
        """Return whether this side still considers the connection usable."""
        return not self.ended.done() and not self.connection.is_closed()

    @property
    def cause(self) -> str:
        """Why the connection ended, as asyncssh or the server puts it; empty while it is alive."""
        error = self.ended.result() if self.ended.done() else None
        return "" if error is None else errors.quote_remote(str(error))

    async def run(
        self,
        command: str,
        *,
        input: bytes = b"",  # noqa: A002
        timeout: float | None = None,
        keep: OutputBudget | None = None,
        on_output: OnOutput | None = None,
    ) -> CommandResult:
        """Run one command to its end; input and output are bytes, not decoded.

        After `timeout` seconds the command gets TERM, then KILL, and the output so far is returned with `timed_out`;
        opening the session may take as long. `keep` bounds the output held in memory, `on_output` gets all of it.
        Cancelling sends TERM. Raises SshError when the connection is lost or the server opens no session.
        """
        line = command if timeout is None else with_time_limit(command, timeout)
        channel, running = await self._open(lambda: RunningCommand(self.worker, keep, on_output), line, timeout)
        sending = asyncio.ensure_future(running.send(channel, input)) if input else None
        if sending is None:
            running.end_input(channel)
        try:
            done, _ = await asyncio.wait({running.ended}, timeout=timeout)
            if not done:
                await self._end(channel, running)
            return self._make_result(running, timed_out=not done)
        except asyncio.CancelledError:
            with contextlib.suppress(OSError, asyncssh.Error):
                channel.send_signal("TERM")
            raise
        finally:
            if sending is not None:
                sending.cancel()
            channel.close()
            self._slots.give()

    async def process(self, command: str) -> asyncssh.SSHClientProcess[bytes]:
        """Start a command whose streams the caller reads and writes, as bytes; its end frees its slot.

        The caller must `close()` it, or read both streams to their end, `script_protocol.READ_BYTES` at a time.
        """
        process: asyncssh.SSHClientProcess[bytes]
        _, process = await self._open(asyncssh.SSHClientProcess, command, window=WINDOW_BYTES)
        self._watchers.start(self._free_slot_after(process))
        return process

    async def probe(self, host: str, port: int, timeout: float = 5.0) -> PortState:
        """Return whether a TCP port answers, seen from this worker. Its sshd connects; no program is needed there."""
        # A cancelled opening would leave a port that answers late connected for as long as the worker is.
        opening = asyncio.ensure_future(self.connection.create_connection(_ProbeSession, host, port, encoding=None))
        opening.add_done_callback(lambda done: done.cancelled() or done.exception())
        try:
            await within(asyncio.shield(opening), timeout)
            return PortState("open", "connected", "connected")
        except asyncio.TimeoutError:
            detail = f"no answer within {timeout:g} s: the host is down, or a firewall drops"
            return PortState("filtered", detail, "timed out")
        except asyncssh.ChannelOpenError as error:
            if not self.alive:
                raise errors.lost_error(self.worker, self.cause) from None
            return classify_port(error.code, error.reason)
        except (asyncssh.Error, OSError) as error:
            raise errors.lost_error(self.worker, str(error)) from None

    async def close(self) -> None:
        """Close the connection and wait up to `CLOSE_TIMEOUT_S` until it is closed."""
        self.connection.close()
        await asyncio.wait({self.ended}, timeout=CLOSE_TIMEOUT_S)
        if not self.connection.is_closed():
            self.connection.abort()
        await self._watchers.close()

    async def _open(self, make: _MakeSession, command: str, timeout: float | None = None, **options: Any) -> Any:
        """Take a slot and open a session within `timeout` seconds; when the server refuses it, retry.

        Returns the channel and the session.
        The caller frees the slot. Raises SshError with `started` False: nothing was run. Raises Reason.TAKEN at once
        where the server allows a single session, because a run's follower may hold it for as long as the run lasts.
        """
        waits = backoff(0.05, 1.0)
        attempt = 0
        while True:
            attempt += 1
            if not await self._slots.take():
                raise errors.SESSION_TAKEN.error(self.worker)
            try:
                return await self._open_session(make, command, timeout, options)
            except asyncssh.ChannelOpenError as error:
                crowded = self._slots.shrink()
                self._slots.give()
                if not crowded and attempt >= OPEN_ATTEMPTS:
                    raise errors.NO_SESSION.error(self.worker, words=error.reason) from None
            except BaseException:
                self._slots.give()
                raise
            await asyncio.sleep(next(waits))

    async def _open_session(
        self, make: _MakeSession, command: str, timeout: float | None, options: Mapping[str, Any]
    ) -> Any:
        """Open a session. If this is cancelled or takes too long, the session is closed as soon as it is open.

        asyncssh would leave it open, and the server would count it for as long as the connection lasts.
        """
        if not self.alive:
            raise errors.lost_error(self.worker, self.cause, started=False)
        is_given_up = False
        opening = asyncio.ensure_future(
            self.connection.create_session(
                lambda: _UnwantedSession() if is_given_up else make(),
                command,
                encoding=None,
                request_pty=False,
                **options,
            )
        )
        try:
            return await within(asyncio.shield(opening), timeout)
        except (asyncio.CancelledError, asyncio.TimeoutError) as error:
            is_given_up = True
            opening.add_done_callback(_end_command)
            if isinstance(error, asyncio.CancelledError):
                raise
            raise errors.no_session_in_time(self.worker, timeout or 0.0) from None
        except asyncssh.ChannelOpenError:
            if not self.alive:
                raise errors.lost_error(self.worker, self.cause, started=False) from None
            raise
        except (asyncssh.Error, OSError) as error:
            raise errors.lost_error(self.worker, str(error), started=False) from None

    async def _end(self, channel: asyncssh.SSHClientChannel[bytes], running: RunningCommand) -> None:
        for signal in ("TERM", "KILL"):
            with contextlib.suppress(OSError, asyncssh.Error):
                channel.send_signal(signal)
            done, _ = await asyncio.wait({running.ended}, timeout=TERM_GRACE_S)
            if done:
                return

    def _make_result(self, running: RunningCommand, *, timed_out: bool) -> CommandResult:
        if running.output_limit_exceeded:
            raise errors.TOO_MUCH_OUTPUT.error(self.worker, mebibytes=OUTPUT_LIMIT_BYTES >> 20)
        silent = running.exit_code is None and running.signal is None
        if not timed_out and silent and (running.ended.result() is not None or not self.alive):
            raise errors.lost_error(self.worker, self.cause or str(running.ended.result() or ""))
        return running.partial_result(timed_out=timed_out)

    async def _free_slot_after(self, process: asyncssh.SSHClientProcess[bytes]) -> None:
        try:
            await process.channel.wait_closed()
        finally:
            self._slots.give()
