"""A connection whose packets leave together: what is written in one turn of the event loop is one send.

asyncssh writes every packet by itself: a system call, a TCP segment and a wake-up of the worker's sshd for each of
those that leave one after the other, where one of each will do.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import Any, cast


class CoalescingTransport(asyncio.Transport):
    """A transport that passes on what is written when the loop's present turn is over."""

    def __init__(self, transport: asyncio.Transport) -> None:
        super().__init__()
        self._transport = transport
        self._pending: list[bytes] = []
        self._loop = asyncio.get_running_loop()

    def write(self, data: bytes | bytearray | memoryview[Any]) -> None:
        """Take bytes to send."""
        if not self._pending:
            self._loop.call_soon(self._flush)
        self._pending.append(bytes(data))

    def _flush(self) -> None:
        pending, self._pending = self._pending, []
        if pending:
            self._transport.write(b"".join(pending) if len(pending) > 1 else pending[0])

    def close(self) -> None:
        """Send what is pending, then close."""
        self._flush()
        self._transport.close()

    def abort(self) -> None:
        """Close at once; what the kernel takes of what is pending is still sent."""
        self._flush()
        self._transport.abort()

    def is_closing(self) -> bool:
        """Whether it is closed or about to be."""
        return self._transport.is_closing()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """What asyncio knows of the socket."""
        return self._transport.get_extra_info(name, default)


class SocketTunnel:
    """A connected socket as asyncssh takes it in place of a tunnel."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock

    async def create_connection(
        self, protocol_factory: Callable[[], asyncio.Protocol], _host: str, _port: int
    ) -> tuple[asyncio.Transport, asyncio.Protocol]:
        """Put a protocol onto the socket."""
        loop = asyncio.get_running_loop()
        transport, first = await loop.create_connection(
            lambda: _CoalescingProtocol(protocol_factory()), sock=self._sock
        )
        return transport, first.protocol


class _CoalescingProtocol(asyncio.Protocol):
    """Hands the socket's transport, corked, to the protocol that it is for, and is no longer asked after that."""

    def __init__(self, protocol: asyncio.Protocol) -> None:
        self.protocol = protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        plain = cast(asyncio.Transport, transport)
        plain.set_protocol(self.protocol)
        self.protocol.connection_made(CoalescingTransport(plain))
