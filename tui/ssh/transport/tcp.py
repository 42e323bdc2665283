"""TCP connections: small packets undelayed, kept alive, and no place in the queue taken by a silent host."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import socket
from collections import deque
from collections.abc import AsyncIterator, Sequence

from tui.ssh.transport.dns import Address, addresses

PATIENCE = 1.0
"""Seconds a connection attempt may hold its turn: hosts behind a firewall are silent for much longer."""
NEXT_ADDRESS_AFTER = 0.25
"""Seconds that an address of several may be silent before the next one is tried too (RFC 8305, section 8)."""
_KEEPALIVE = (("TCP_KEEPIDLE", 60), ("TCP_KEEPINTVL", 15), ("TCP_KEEPCNT", 4))
"""Seconds, and how often. That there are any asyncssh sees to, and to small packets that leave at once."""


async def open_socket(host: str, port: int, resolved: asyncio.Event | None = None) -> socket.socket:
    """A connected TCP socket to the first address that answers; `resolved` is set once addresses are known.

    A silent address is not waited for before the next is tried (RFC 8305): a name may have one in a network that this
    machine only believes to be in. Raises socket.gaierror when the name does not resolve, else the OSError of the
    last address that failed.
    """
    found = await addresses(host, port)
    if resolved is not None:
        resolved.set()
    if len(found) == 1:
        return await _connected(found[0])
    return await _first_connected(found)


async def _first_connected(found: Sequence[Address]) -> socket.socket:
    problem: OSError = OSError(errno.EADDRNOTAVAIL, "no address")
    waiting = deque(found)
    trying: set[asyncio.Future[socket.socket]] = set()
    try:
        while waiting or trying:
            if waiting:
                trying.add(asyncio.ensure_future(_connected(waiting.popleft())))
            pause = NEXT_ADDRESS_AFTER if waiting else None
            done, trying = await asyncio.wait(trying, timeout=pause, return_when=asyncio.FIRST_COMPLETED)
            for one in done:
                error = one.exception()
                if error is None:
                    trying |= done - {one}
                    return one.result()
                if not isinstance(error, OSError):
                    raise error
                problem = error
        raise problem
    finally:
        for one in trying:
            _drop(one)


async def _connected(place: Address) -> socket.socket:
    family, kind, protocol, _, address = place
    sock = socket.socket(family, kind, protocol)
    try:
        sock.setblocking(False)
        for name, value in _KEEPALIVE:
            if hasattr(socket, name):
                sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
        await asyncio.get_running_loop().sock_connect(sock, address)
        return sock
    except BaseException:
        sock.close()
        raise


def _drop(opening: asyncio.Future[socket.socket]) -> None:
    """Let go of a socket that nobody needs any more, open or not."""
    if not opening.cancel() and not opening.cancelled() and opening.exception() is None:
        opening.result().close()


class HandshakeSlot:
    """One of so many turns, held while the body runs, or less: who waits for a silent host gives it back before."""

    def __init__(self, turns: asyncio.Semaphore) -> None:
        self._turns = turns
        self._held = False

    async def __aenter__(self) -> HandshakeSlot:
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
async def connect_in_turn(
    turns: asyncio.Semaphore, host: str, port: int, timeout: float
) -> AsyncIterator[tuple[socket.socket, HandshakeSlot]]:
    """A connected socket, and one of the turns, which is held while the body runs.

    A host that does not answer within `PATIENCE` goes on waiting without its turn, so that a pod with many silent
    workers keeps nobody else waiting. Raises what `open_socket` raises; after `timeout` seconds asyncio.TimeoutError,
    or socket.gaierror where until then nobody told the name's address.
    """
    async with HandshakeSlot(turns) as turn:
        resolved = asyncio.Event()
        opening = asyncio.ensure_future(open_socket(host, port, resolved))
        patience = min(PATIENCE, timeout)
        try:
            done, _ = await asyncio.wait({opening}, timeout=patience)
            if not done:
                turn.give()
                done, _ = await asyncio.wait({opening}, timeout=timeout - patience)
                if not done:
                    raise asyncio.TimeoutError if resolved.is_set() else _nobody_resolves()
                opening.result()
                await turn.take()
            yield opening.result(), turn
        except BaseException:
            _drop(opening)
            raise


def _nobody_resolves() -> socket.gaierror:
    return socket.gaierror(socket.EAI_AGAIN, "no answer")


async def read_banner(host: str, port: int) -> bytes:
    """What a server says to a client that greets it as SSH clients do."""
    loop = asyncio.get_running_loop()
    with await open_socket(host, port) as sock:
        await loop.sock_sendall(sock, b"SSH-2.0-tpu_tui\r\n")
        return await loop.sock_recv(sock, 255)
