"""One handshake and login by asyncssh, without what it does again at every connection and need not.

`asyncssh.connect` works all its options out for each connection, in a thread; asks the server without a key what it
would take, then whether it would take a key, before it signs with that key; and words a message for each packet. Here
options are worked out once, and the first key is offered signed: two steps of a login less.
"""

from __future__ import annotations

import asyncio
import contextlib
import copy
import logging
from collections.abc import Sequence
from typing import Any, Protocol, cast

import asyncssh
from asyncssh.constants import MSG_IGNORE
from asyncssh.logging import SSHLogger
from asyncssh.public_key import SSHLocalKeyPair

_PUBLIC_KEY = b"publickey"
_SIGNED = b"\1"
"""The flag in a request to log in with a key which says that its signature follows (RFC 4252, section 7)."""

_CHAINED = "-cbc"
"""How the names of ciphers end whose packets' first block an eavesdropper could choose."""


class Tunnel(Protocol):
    """What a connection goes over: a socket (`corked.Line`), or a connection to a jump host."""

    async def create_connection(self, session_factory: Any, remote_host: str, remote_port: int, /) -> Any:
        """Put what the factory makes onto a way to the host."""


def connect(
    template: asyncssh.SSHClientConnectionOptions,
    carrier: Tunnel,
    keys: Sequence[asyncssh.SSHKeyPair],
    **differing: Any,
) -> asyncio.Future[asyncssh.SSHClientConnection]:
    """Begin a login with `template`'s options but for those that differ, and our keys in the order they are tried.

    asyncssh notes on a key which signature a server wants, so each login has copies of its own.
    Cancelled, it closes the connection. The result raises what `asyncssh.connect` raises.
    """
    options: Any = copy.copy(template)
    options.client_keys = keys
    for name, value in differing.items():
        setattr(options, name, value)
    return asyncio.ensure_future(_logged_in(options, carrier))


async def _logged_in(options: Any, carrier: Tunnel) -> asyncssh.SSHClientConnection:
    loop = asyncio.get_running_loop()
    options.waiter = loop.create_future()
    made: Any = None
    try:
        _, made = await carrier.create_connection(lambda: FastConnection(loop, options), options.host, options.port)
        made.set_extra_info(host=options.host, port=options.port)
        await options.waiter
    except BaseException:
        options.waiter.cancel()
        if made is not None:
            made.abort()
            await made.wait_closed()
        raise
    return cast(asyncssh.SSHClientConnection, made)


class FastConnection(asyncssh.SSHClientConnection):
    """Offers its first key at once, signed; a server that refuses it is asked as usual about the others.

    A key that an agent or a device holds is asked about first: its owner may have to confirm each signature, and
    asyncssh signs with a device's in an executor.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, options: asyncssh.SSHClientConnectionOptions) -> None:
        self._is_told = _LOGGER.isEnabledFor(logging.INFO)
        super().__init__(loop, options, wait="auth")
        self._offered: Any = None
        self._may_sign_at_once = bool(options.client_keys)
        self.wanted: tuple[str, ...] = ()
        """What the server said last that it would let us in with, of what asyncssh knows."""
        self.unsigned = 0
        """Keys that the server would have taken and whose owner, an agent or a device, did not sign with them."""
        if options.client_keys:
            self._auth_methods = [_PUBLIC_KEY, *self._auth_methods]

    @property
    def heard(self) -> bool:
        """Whether the server said anything at all before its greeting, or instead of one."""
        return bool(self._banner_lines or self._inpbuf)

    @property
    def untried(self) -> int:
        """How many of our keys, the last ones, were not offered."""
        return len(self._client_keys)

    def try_next_auth(self, *, next_method: bool = False) -> None:
        """Go on with the next key or method."""
        if not next_method:
            self.wanted = tuple(name.decode("ascii", "replace") for name in self._auth_methods)
        super().try_next_auth(next_method=next_method)

    async def public_key_auth_requested(self) -> Any:
        """The next key to try; which one is kept in mind."""
        self._offered = await super().public_key_auth_requested()
        return self._offered

    async def send_userauth_request(self, method: bytes, *args: bytes, key: Any = None, trivial: bool = True) -> None:
        """Send a request; that which would ask whether the first key is welcome is sent as the login itself."""
        if method == _PUBLIC_KEY and self._may_sign_at_once:
            self._may_sign_at_once = False
            if isinstance(self._offered, SSHLocalKeyPair) and not self._offered.use_executor:
                with contextlib.suppress(ValueError):  # a key that cannot sign is asked about, as asyncssh does
                    signed = (_SIGNED, *args[1:])
                    await super().send_userauth_request(method, *signed, key=self._offered, trivial=False)
                    return
        try:
            await super().send_userauth_request(method, *args, key=key, trivial=trivial)
        except ValueError:
            self.unsigned += 1
            raise

    def send_packet(self, pkttype: int, *args: bytes, handler: Any = None) -> None:
        """Send a packet, and none that says nothing before it, which only CBC ciphers need (RFC 4251, 9.3.1)."""
        if pkttype != MSG_IGNORE or str(self.get_extra_info("send_cipher")).endswith(_CHAINED):
            super().send_packet(pkttype, *args, handler=handler)

    @property
    def logger(self) -> SSHLogger:
        """Where asyncssh tells what it does; nobody words it where nobody reads it."""
        return super().logger if self._is_told else _UNREAD

    def log_sent_packet(self, *args: Any, **kwargs: Any) -> None:
        """Tell of a packet sent."""
        if self._is_told:
            super().log_sent_packet(*args, **kwargs)

    def log_received_packet(self, *args: Any, **kwargs: Any) -> None:
        """Tell of a packet that came."""
        if self._is_told:
            super().log_received_packet(*args, **kwargs)


class _QuietLogger(SSHLogger):
    """A logger of which only warnings and errors are worded."""

    def get_child(self, child: str = "", context: str = "") -> SSHLogger:  # noqa: ARG002
        """The same: there is nothing to tell apart."""
        return self

    def log(self, level: int, msg: object, *args: Any, **kwargs: Any) -> None:
        """Log what matters."""
        if level >= logging.WARNING:
            super().log(level, msg, *args, **kwargs)

    def debug1(self, msg: str, *args: Any, **kwargs: Any) -> None:
        """Leave a message out."""

    debug2 = packet = debug1  # type: ignore[assignment]
    info = debug1  # type: ignore[assignment]


_LOGGER = logging.getLogger("asyncssh")
_UNREAD = _QuietLogger(_LOGGER)
