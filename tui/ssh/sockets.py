"""TCP connections: small packets undelayed, kept alive, and no place in the queue taken by a silent host."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import socket
from collections.abc import AsyncIterator
from typing import Any

PATIENCE = 1.0
"""Seconds a connection attempt may hold its turn: hosts behind a firewall are silent for much longer."""
_KEEPALIVE = (("TCP_KEEPIDLE", 60), ("TCP_KEEPINTVL", 15), ("TCP_KEEPCNT", 4))
"""Seconds, and how often. That there are any asyncssh sees to, and to small packets that leave at once."""


async def open_socket(host: str, port: int) -> socket.socket:
    """A connected TCP socket to the first address that answers.

    Raises socket.gaierror when the name does not resolve, else the OSError of the last address.
    """
    loop = asyncio.get_running_loop()
    problem: OSError = OSError(errno.EADDRNOTAVAIL, "no address")
    for family, kind, protocol, _, address in await _addresses(host, port):
        sock = socket.socket(family, kind, protocol)
        try:
            sock.setblocking(False)
            for name, value in _KEEPALIVE:
                if hasattr(socket, name):
                    sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
            await loop.sock_connect(sock, address)
            return sock
        except OSError as error:
            sock.close()
            problem = error
        except BaseException:
            sock.close()
            raise
    raise problem


async def _addresses(host: str, port: int) -> list[Any]:
    with contextlib.suppress(socket.gaierror):
        return list(socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST))
    return list(await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM))


class Turn:
    """One of so many turns, held while the body runs, or less: who waits for a silent host gives it back before."""

    def __init__(self, turns: asyncio.Semaphore) -> None:
        self._turns = turns
        self._held = False

    async def __aenter__(self) -> Turn:
        await self.take()
        return self

    async def __aexit__(self, *_: object) -> None:
        self.give()

    async def take(self) -> None:
        """Wait for it."""
        await self._turns.acquire()
        self._held = True

    def give(self) -> None:
        """Give it back, if it is held."""
        if self._held:
            self._held = False
            self._turns.release()


@contextlib.asynccontextmanager
async def taking_turns(
    turns: asyncio.Semaphore, host: str, port: int, timeout: float
) -> AsyncIterator[tuple[socket.socket, Turn]]:
    """A connected socket, and one of the turns, which is held while the body runs.

    A host that does not answer within `PATIENCE` goes on waiting without its turn, so that a pod with many silent
    workers keeps nobody else waiting. Raises what `open_socket` raises, asyncio.TimeoutError after `timeout` seconds.
    """
    async with Turn(turns) as turn:
        opening = asyncio.ensure_future(open_socket(host, port))
        patience = min(PATIENCE, timeout)
        try:
            done, _ = await asyncio.wait({opening}, timeout=patience)
            if not done:
                turn.give()
                done, _ = await asyncio.wait({opening}, timeout=timeout - patience)
                if not done:
                    raise asyncio.TimeoutError
                opening.result()
                await turn.take()
            yield opening.result(), turn
        except BaseException:
            if not opening.cancel() and not opening.cancelled() and opening.exception() is None:
                opening.result().close()
            raise


async def first_words(host: str, port: int) -> bytes:
    """What a server says to a client that greets it as SSH clients do."""
    loop = asyncio.get_running_loop()
    with await open_socket(host, port) as sock:
        await loop.sock_sendall(sock, b"SSH-2.0-tpu_tui\r\n")
        return await loop.sock_recv(sock, 255)
