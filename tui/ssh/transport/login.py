"""Log in to one host: socket or tunnel, handshake, host key, client keys; explain a failure."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol, TypeAlias

from tui.aio.timeouts import within
from tui.errors import TpuTuiError
from tui.ssh import errors
from tui.ssh.asyncssh_import import asyncssh
from tui.ssh.config.access import ACCEPT_NEW, Access
from tui.ssh.errors import SshError
from tui.ssh.exec.port_probe import classify_port
from tui.ssh.host_login import Login
from tui.ssh.keys.client_keys import ClientKeys
from tui.ssh.keys.known_hosts import HostKeys, TrustedKeys, host_key_error
from tui.ssh.results import LoginTimings
from tui.ssh.transport._compat_asyncssh import SocketTunnel, Tunnel, connect
from tui.ssh.transport.client_callbacks import LoginClient
from tui.ssh.transport.paused_timeout import PromptClock, wait_for
from tui.ssh.transport.tcp import SLOT_TIMEOUT_S, connect_in_turn, read_banner

KEX = "^curve25519-sha256,curve25519-sha256@libssh.org"
"""Requested first because it costs 1 ms of CPU and post-quantum exchanges cost tens; the others stay allowed."""
CIPHERS = "^aes128-gcm@openssh.com,aes256-gcm@openssh.com,chacha20-poly1305@openssh.com"
KEY_LOGINS = 3
"""Connections on which to try the keys, as many on each as the server allows: more look like an attack."""
MAX_AUTH_TRIES_WORDS = "too many authentication failures"
_KEY_METHODS = {"publickey", "none"}
"""Methods of a server that wants nothing but another key than those that it refused."""
GREETING_TIMEOUT_S = 3.0
_BUSY = (b"MaxStartups", b"Not allowed at this time")
"""OpenSSH's text instead of a greeting when it refuses a connection."""
_SSH_2 = (b"SSH-2.0-", b"SSH-1.99-")
"""Greetings of servers that speak SSH 2 (RFC 4253, section 5.1)."""


class Route(Protocol):
    """A route to a worker's SSH port other than a plain connection or a jump host."""

    async def open(self) -> socket.socket:
        """Return a socket connected to the port. Raises SshError."""

    async def failure(self) -> SshError | None:
        """Return why nothing came through the last socket, or None."""

    def end(self) -> None:
        """Release the socket that was opened last."""


LoggedIn: TypeAlias = tuple[asyncssh.SSHClientConnection, LoginClient]


@dataclass
class _Attempt:
    """One login while it is tried: where, with which trusted host keys and which client keys."""

    login: Login
    worker: int | None
    trusted: TrustedKeys
    timings: LoginTimings
    offered: list[Any] = field(default_factory=list)


@dataclass
class Dialer:
    """Logs in to hosts with one access, one set of keys and one set of known hosts."""

    access: Access
    keys: ClientKeys
    host_keys: HostKeys
    slots: asyncio.Semaphore
    """Limits simultaneous handshakes."""
    prompter: PromptClock | None = None
    _questions: asyncio.Lock = field(default_factory=asyncio.Lock)
    _refused: list[tuple[str, int, asyncssh.SSHKey]] = field(default_factory=list)
    """The keys that the person has refused, in order."""
    _options: asyncssh.SSHClientConnectionOptions | None = None

    async def dial(
        self,
        login: Login,
        *,
        worker: int | None,
        vouched: tuple[str, ...] = (),
        tunnel: asyncssh.SSHClientConnection | None = None,
        through: Route | None = None,
        stages: LoginTimings | None = None,
    ) -> LoggedIn:
        """Return a logged-in connection, over `tunnel` or the route `through` if given.

        Asks the prompter about an unknown host key and for the passphrases of further keys. Raises SshError, or
        UsageError for an invalid client key.
        """
        await self.keys.load()
        attempt = _Attempt(login, worker, self.host_keys.trusted(login, vouched), stages or LoginTimings())
        has_prompted, untried, logins = False, 0, 0
        while True:
            logins += 1
            key_count = self.keys.count
            attempt.offered = self.keys.candidates()[-untried:]
            try:
                return await self._try(attempt, tunnel, through)
            except _UnknownHostKey as unknown:
                if has_prompted:
                    raise unknown.error from None
                has_prompted = True
                attempt.trusted = await self._ask(attempt, vouched, unknown.key, unknown.error)
            except _AuthTriesExhausted as exhausted:
                if logins >= KEY_LOGINS:
                    raise exhausted.error from None
                untried = exhausted.untried
            except SshError as error:
                untried = 0
                denied = error.reason is errors.Reason.DENIED
                if not denied or not await self.keys.unlock_more(key_count):
                    raise

    async def _ask(
        self, attempt: _Attempt, vouched: tuple[str, ...], key: asyncssh.SSHKey, error: SshError
    ) -> TrustedKeys:
        """Ask the person about an unknown key; return the trusted keys with it. Raises `error` if it is refused.

        Logins that wait for the same question share its answer.
        """
        if self.prompter is None:
            raise error
        login, worker = attempt.login, attempt.worker
        question, refusals = (login.host, login.port, key), len(self._refused)
        async with self._questions:
            trusted = self.host_keys.trusted(login, vouched)
            if key in trusted.keys:
                return trusted
            if question in self._refused[refusals:]:
                raise error
            name = login.host if worker is None else f"worker {worker} ({login.host})"
            if not await self.prompter.trust(name, key.get_algorithm(), key.get_fingerprint()):
                self._refused.append(question)
                raise error
            self.host_keys.accept(worker, login, key)
            return TrustedKeys(keys=(key,), names=trusted.names, files=trusted.files)

    async def _try(
        self, attempt: _Attempt, tunnel: asyncssh.SSHClientConnection | None, through: Route | None
    ) -> LoggedIn:
        began = time.monotonic()

        async def log_in(sock: socket.socket | None, slot: contextlib.AsyncExitStack) -> LoggedIn:
            attempt.timings.connected = time.monotonic() - began
            result = await self._log_in(attempt, tunnel, sock, slot)
            attempt.timings.logged_in = time.monotonic() - began
            return result

        if through is not None or tunnel is not None:
            async with contextlib.AsyncExitStack() as slot:
                await slot.enter_async_context(self.slots)
                if through is not None:
                    return await _log_in_through(through, partial(log_in, slot=slot))
                return await log_in(None, slot)
        login, timeout = attempt.login, self.access.connect_timeout
        try:
            async with connect_in_turn(self.slots, login.host, login.port, timeout) as (sock, slot):
                return await log_in(sock, slot)
        except (OSError, UnicodeError, asyncio.TimeoutError) as error:
            raise errors.connect_error(error, attempt.worker, login, timeout) from None

    async def _log_in(
        self,
        attempt: _Attempt,
        tunnel: asyncssh.SSHClientConnection | None,
        sock: socket.socket | None,
        slot: contextlib.AsyncExitStack,
    ) -> LoggedIn:
        login, worker, trusted = attempt.login, attempt.worker, attempt.trusted
        new = not (trusted.keys or trusted.authorities)
        accepts = new and self.access.host_keys == ACCEPT_NEW
        name = login.host if worker is None else f"worker {worker}"
        client = LoginClient(lambda key: accepts and key not in trusted.revoked, self.prompter, name)
        via, seconds = self.access.jump or login.jump or "configured", self.access.login_timeout
        carrier = tunnel if sock is None else SocketTunnel(sock)
        assert carrier is not None
        try:
            connection = await self._with_login_timeout(self._connecting(attempt, carrier, client), client, slot)
        except asyncio.TimeoutError:
            if client.connection is None:
                raise errors.JUMP_SILENT.error(worker, login, jump=via, seconds=seconds) from None
            if not client.greeted and client.connection.has_received and _is_direct(sock):
                raise await self._diagnose(attempt) from None
            cause = errors.LOGIN_TIMED_OUT if client.greeted else errors.NO_GREETING
            raise cause.error(worker, login, seconds=seconds) from None
        except asyncssh.ChannelOpenError as error:
            port = classify_port(error.code, error.reason)
            raise errors.jump_host_error(port.cause, error.reason, worker, login, via) from None
        except (asyncssh.Error, OSError, ValueError) as error:
            if _is_direct(sock) and not client.greeted:
                raise await self._diagnose(attempt) from None
            raise self._explain(error, client, attempt) from None
        if client.offered is not None and new:
            try:
                self.host_keys.accept(worker, login, client.offered)
            except SshError:
                connection.abort()
                raise
        return connection, client

    def _connecting(
        self, attempt: _Attempt, carrier: Tunnel, client: LoginClient
    ) -> asyncio.Future[asyncssh.SSHClientConnection]:
        """Begin the handshake with this worker's own options."""
        login, trusted = attempt.login, attempt.trusted
        return connect(
            self._shared_options(),
            carrier,
            attempt.offered,
            host=login.host,
            port=login.port,
            username=login.user,
            protocol_factory=lambda: client,
            known_hosts=lambda *_: (list(trusted.keys), list(trusted.authorities), list(trusted.revoked)),
            server_host_key_algs=trusted.algorithms,
        )

    def _shared_options(self) -> asyncssh.SSHClientConnectionOptions:
        """Return the options of all connections; all are explicit, so that no configuration file changes them."""
        if self._options is None:
            self._options = asyncssh.SSHClientConnectionOptions(
                config=None,
                client_keys=None,
                agent_path=None,
                host_key_alias=None,
                x509_trusted_certs=None,
                kex_algs=KEX,
                encryption_algs=CIPHERS,
                compression_algs="none",
                password_auth=False,
                gss_host=None,
                gss_auth=False,
                gss_kex=False,
                host_based_auth=False,
                kbdint_auth=self.prompter is not None,
                login_timeout=0,
                keepalive_interval=self.access.keepalive,
                keepalive_count_max=self.access.keepalive_count,
            )
        return self._options

    async def _with_login_timeout(
        self,
        task: asyncio.Future[asyncssh.SSHClientConnection],
        client: LoginClient,
        slot: contextlib.AsyncExitStack,
    ) -> asyncssh.SSHClientConnection:
        """Wait for the login within its time limit; the clock stops while a person is prompted.

        A frozen server accepts connections and sends no greeting; the wait for its greeting holds no slot.
        """
        patience = min(SLOT_TIMEOUT_S, self.access.login_timeout)
        try:
            done, _ = await asyncio.wait({task}, timeout=patience)
            if done:
                return task.result()
            if not client.greeted:
                await slot.aclose()
            return (await wait_for(self.access.login_timeout - patience, task, self.prompter))[0]
        except (asyncio.CancelledError, asyncio.TimeoutError):
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError, asyncssh.Error, OSError):
                (await task).abort()
            raise

    async def _diagnose(self, attempt: _Attempt) -> SshError:
        """Connect again to a server that sent no SSH greeting, and return the error for what it sends instead."""
        login, worker = attempt.login, attempt.worker
        try:
            banner = await within(read_banner(login.host, login.port), GREETING_TIMEOUT_S)
        except (OSError, asyncio.TimeoutError):
            banner = b""
        if banner.startswith(b"SSH-") and not banner.startswith(_SSH_2):
            return errors.NO_ALGORITHMS.error(worker, login, words=f"it speaks {errors.quote_remote(banner)}")
        if not banner or banner.startswith(b"SSH-") or any(text in banner for text in _BUSY):
            return errors.CLOSED_EARLY.error(worker, login)
        return errors.not_ssh_error(worker, login, banner)

    def _explain(
        self, error: Exception, client: LoginClient, attempt: _Attempt
    ) -> TpuTuiError | _UnknownHostKey | _AuthTriesExhausted:
        """Return the error of a login that asyncssh ended; the two exceptions lead to another attempt."""
        login, worker, trusted = attempt.login, attempt.worker, attempt.trusted
        connection, message = client.connection, str(error)
        if connection is None:
            return errors.CLOSED_EARLY.error(worker, login)
        if isinstance(error, asyncssh.HostKeyNotVerifiable):
            if client.offered is not None:
                problem = host_key_error(worker, login, trusted, client.offered)
                if problem.reason is errors.Reason.HOST_KEY_UNKNOWN:
                    return _UnknownHostKey(client.offered, problem)
                return problem
            return errors.HOST_KEY_REJECTED.error(worker, words=message, files=", ".join(trusted.files))
        if isinstance(error, asyncssh.PermissionDenied):
            if connection.wanted and not _KEY_METHODS & set(connection.wanted):
                return errors.more_than_a_key_error(worker, login, connection.wanted, client.remark)
            if connection.unsigned:
                return errors.UNSIGNED.error(worker, login)
            return self._denied_error(attempt, client.remark)
        if MAX_AUTH_TRIES_WORDS in message.lower():
            problem = self._denied_error(attempt, "too many keys were tried: choose one with --identity")
            if 0 < connection.untried < len(attempt.offered):
                return _AuthTriesExhausted(connection.untried, problem)
            return problem
        if isinstance(error, asyncssh.KeyExchangeFailed):
            return errors.NO_ALGORITHMS.error(worker, login, words=message)
        if not client.greeted:
            return errors.CLOSED_EARLY.error(worker, login)
        if isinstance(error, (asyncssh.DisconnectError, OSError)):
            if not connection.is_encrypted:
                return errors.CUT_IN_KEY_EXCHANGE.error(worker, login)
            reason = "" if isinstance(error, (asyncssh.ConnectionLost, OSError)) else message
            remark = client.banner or reason
            return errors.CUT_IN_LOGIN.error(
                worker, login, remark=f": {errors.quote_remote(remark)}" if remark else ""
            )
        return errors.LOGIN_FAILED.error(worker, words=message)

    def _denied_error(self, attempt: _Attempt, remark: str) -> SshError:
        key_count, access = len(self.keys.candidates()), self.access
        return errors.denied_error(
            attempt.worker, attempt.login, key_count, self.keys.locked, access.slice, remark, access.os_login
        )


async def _log_in_through(route: Route, log_in: Callable[[socket.socket], Awaitable[LoggedIn]]) -> LoggedIn:
    """Log in over a socket from the route, and end the route with the connection or the failure."""
    try:
        connection, client = await log_in(await route.open())
    except SshError as error:
        why = await route.failure() if error.reason in _UNGREETED else None
        route.end()
        raise (why or error) from None
    except BaseException:
        route.end()
        raise
    client.ended.add_done_callback(lambda _: route.end())
    return connection, client


def _is_direct(sock: socket.socket | None) -> bool:
    """Return whether a socket leads to the server directly, so that a second connection can be tried."""
    return sock is not None and sock.family != socket.AF_UNIX


_UNGREETED = (errors.Reason.NOT_SSH, errors.Reason.CLOSED_EARLY)
"""Failures of logins for which the server sent no SSH greeting."""


class _UnknownHostKey(Exception):
    """An unknown host key: the person may trust it; otherwise the login fails with `error`."""

    def __init__(self, key: asyncssh.SSHKey, error: SshError) -> None:
        super().__init__(error.what)
        self.key = key
        self.error = error


class _AuthTriesExhausted(Exception):
    """The server refused further keys while the last `untried` ones were not offered yet."""

    def __init__(self, untried: int, error: SshError) -> None:
        super().__init__(error.what)
        self.untried = untried
        self.error = error
