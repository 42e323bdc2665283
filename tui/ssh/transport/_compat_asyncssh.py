"""The one module that uses asyncssh's private names: a connection with less work per login and per packet.

`make bench` needs each of these (fanout: a connection that stays, a command over it, exec against pdsh). Without them
a connection costs 2.4 ms of client CPU in place of 1.5, and a command 0.46 ms in place of 0.33:

- The first key is offered signed. asyncssh first queries what the server accepts, then whether it accepts the key:
  two round trips and 0.6 ms per login.
- Options are prepared once. `asyncssh.connect` prepares them per connection, in a thread: 0.5 ms and 3 KB per login.
- Log messages are formatted only if they are read: 0.2 ms per login and 0.06 ms per command.
- No empty packets are sent for ciphers that do not need them: 0.04 ms per command.

The other private names are read to explain why a login failed: the methods that the server wants, the keys that were
not tried, and what the server sent in place of a greeting.
"""

from __future__ import annotations

import asyncio
import contextlib
import copy
import logging
import socket
from collections.abc import Callable, Sequence
from typing import Any, Protocol, cast

from tui.ssh.asyncssh_import import asyncssh

_IGNORE = asyncssh.constants.MSG_IGNORE
_PUBLIC_KEY = b"publickey"
_SIGNED = b"\1"
"""The flag in a request to log in with a key which says that its signature follows (RFC 4252, section 7)."""
_CHAINED = "-cbc"
"""The end of the names of ciphers that need an empty packet before each other packet (RFC 4251, 9.3.1)."""


class Tunnel(Protocol):
    """The carrier of a connection: a socket (`SocketTunnel`), or a connection to a jump host."""

    async def create_connection(self, session_factory: Any, remote_host: str, remote_port: int, /) -> Any:
        """Create a protocol with the factory and connect it to the host."""


class SocketTunnel:
    """A connected socket with the interface of an asyncssh tunnel."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock

    async def create_connection(
        self, protocol_factory: Callable[[], asyncio.Protocol], _host: str, _port: int
    ) -> tuple[asyncio.Transport, asyncio.Protocol]:
        """Create a protocol with the factory and connect it to the socket."""
        return await asyncio.get_running_loop().create_connection(protocol_factory, sock=self._sock)


def connect(
    template: asyncssh.SSHClientConnectionOptions,
    carrier: Tunnel,
    keys: Sequence[asyncssh.SSHKeyPair],
    **differing: Any,
) -> asyncio.Future[asyncssh.SSHClientConnection]:
    """Begin a login with the options of `template`, the `differing` ones, and the keys in the order to try.

    asyncssh stores on each key which signature the server wants, so every login needs its own copies. Cancelling
    closes the connection. The result raises what `asyncssh.connect` raises.
    """
    options: Any = copy.copy(template)
    options.client_keys = keys
    for name, value in differing.items():
        setattr(options, name, value)
    return asyncio.ensure_future(_log_in(options, carrier))


async def _log_in(options: Any, carrier: Tunnel) -> asyncssh.SSHClientConnection:
    loop = asyncio.get_running_loop()
    options.waiter = loop.create_future()
    connection: Any = None
    try:
        _, connection = await carrier.create_connection(
            lambda: FastConnection(loop, options), options.host, options.port
        )
        connection.set_extra_info(host=options.host, port=options.port)
        await options.waiter
    except BaseException:
        options.waiter.cancel()
        if connection is not None:
            connection.abort()
            await connection.wait_closed()
        raise
    return cast(asyncssh.SSHClientConnection, connection)


class FastConnection(asyncssh.SSHClientConnection):
    """A connection that offers the first key signed, and the others as asyncssh does.

    A key that an agent or a device holds is not signed at once: its owner may have to confirm each signature, and
    asyncssh signs with a device's key in an executor.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, options: asyncssh.SSHClientConnectionOptions) -> None:
        self._logs_packets = _LOGGER.isEnabledFor(logging.INFO)
        super().__init__(loop, options, wait="auth")
        self._offered: Any = None
        self._may_sign_at_once = bool(options.client_keys)
        self.wanted: tuple[str, ...] = ()
        """The login methods in the server's last list that asyncssh supports."""
        self.unsigned = 0
        """Number of keys that the server would accept and with which an agent or a device did not sign."""
        if options.client_keys:
            self._auth_methods = [_PUBLIC_KEY, *self._auth_methods]

    @property
    def has_received(self) -> bool:
        """Return whether the server sent anything before, or instead of, its greeting."""
        return bool(self._banner_lines or self._inpbuf)

    @property
    def is_encrypted(self) -> bool:
        """Return whether the key exchange finished."""
        return bool(self.get_extra_info("send_cipher"))

    @property
    def untried(self) -> int:
        """How many of the last keys were not offered."""
        return len(self._client_keys)

    def try_next_auth(self, *, next_method: bool = False) -> None:
        """Try the next key or method."""
        if not next_method:
            self.wanted = tuple(name.decode("ascii", "replace") for name in self._auth_methods)
        super().try_next_auth(next_method=next_method)

    async def public_key_auth_requested(self) -> Any:
        """Return the next key to try, and remember it."""
        self._offered = await super().public_key_auth_requested()
        return self._offered

    async def send_userauth_request(self, method: bytes, *args: bytes, key: Any = None, trivial: bool = True) -> None:
        """Send a request; the one that would ask about the first key is sent as the login itself."""
        if method == _PUBLIC_KEY and self._may_sign_at_once:
            self._may_sign_at_once = False
            if isinstance(self._offered, asyncssh.public_key.SSHLocalKeyPair) and not self._offered.use_executor:
                with contextlib.suppress(ValueError):  # for a key that cannot sign, ask as asyncssh does
                    signed = (_SIGNED, *args[1:])
                    await super().send_userauth_request(method, *signed, key=self._offered, trivial=False)
                    return
        try:
            await super().send_userauth_request(method, *args, key=key, trivial=trivial)
        except ValueError:
            self.unsigned += 1
            raise

    def send_packet(self, pkttype: int, *args: bytes, handler: Any = None) -> None:
        """Send a packet, without the empty packet before it that only CBC ciphers need."""
        if pkttype != _IGNORE or str(self.get_extra_info("send_cipher")).endswith(_CHAINED):
            super().send_packet(pkttype, *args, handler=handler)

    @property
    def logger(self) -> asyncssh.logging.SSHLogger:
        """asyncssh's logger; below WARNING it does nothing unless INFO is enabled: formatting costs CPU."""
        return super().logger if self._logs_packets else _UNREAD

    def log_sent_packet(self, *args: Any, **kwargs: Any) -> None:
        """Log a packet sent, where INFO is enabled."""
        if self._logs_packets:
            super().log_sent_packet(*args, **kwargs)

    def log_received_packet(self, *args: Any, **kwargs: Any) -> None:
        """Log a packet received, where INFO is enabled."""
        if self._logs_packets:
            super().log_received_packet(*args, **kwargs)


class _QuietLogger(asyncssh.logging.SSHLogger):
    """A logger that formats warnings and errors only."""

    def get_child(self, child: str = "", context: str = "") -> asyncssh.logging.SSHLogger:  # noqa: ARG002
        """Return this logger: it needs no context."""
        return self

    def log(self, level: int, msg: object, *args: Any, **kwargs: Any) -> None:
        """Log warnings and errors."""
        if level >= logging.WARNING:
            super().log(level, msg, *args, **kwargs)

    def debug1(self, msg: str, *args: Any, **kwargs: Any) -> None:
        """Drop a message."""

    debug2 = packet = debug1  # type: ignore[assignment]
    info = debug1  # type: ignore[assignment]


_LOGGER = logging.getLogger("asyncssh")
_UNREAD = _QuietLogger(_LOGGER)
