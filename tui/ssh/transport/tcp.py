"""TCP connections: the fastest address of a name, keep-alive, and no handshake slot for a silent host."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator
from functools import partial

from aiohappyeyeballs import AddrInfoType, start_connection

from tui.aio.threads import run_in_thread
from tui.ssh.exec.port_probe import ERRNO

SLOT_TIMEOUT_S = 1.0
"""How long a connection attempt may hold its slot: hosts behind a firewall are silent for much longer."""
_NEXT_ADDRESS_DELAY_S = 0.25
"""How long to wait for one of several addresses before trying the next too (RFC 8305, section 8)."""
_KEEPALIVE = (("TCP_KEEPIDLE", 60), ("TCP_KEEPINTVL", 15), ("TCP_KEEPCNT", 4))
"""Seconds, seconds and a count. asyncssh itself enables keep-alive and disables Nagle's algorithm."""


async def open_socket(host: str, port: int, resolved: asyncio.Event | None = None) -> socket.socket:
    """Return a TCP socket connected to the first address that answers; set `resolved` once addresses are known.

    Raises socket.gaierror when the name does not resolve, UnicodeError when it is not a name, else OSError.
    """
    addresses = await _look_up(host, port)
    if resolved is not None:
        resolved.set()
    try:
        return await start_connection(
            addresses, happy_eyeballs_delay=_NEXT_ADDRESS_DELAY_S, socket_factory=_make_socket
        )
    except OSError as error:
        # An error that combines those of several addresses has no errno itself.
        numbers = ERRNO.findall(str(error)) if error.errno is None else []
        raise OSError(int(numbers[-1]), str(error)) if numbers else error from None


async def _look_up(host: str, port: int) -> list[AddrInfoType]:
    """Return a name's addresses; a silent DNS server blocks neither the event loop nor the end of the program."""
    look_up = partial(socket.getaddrinfo, host, port, type=socket.SOCK_STREAM)
    with contextlib.suppress(socket.gaierror):
        return list(look_up(flags=socket.AI_NUMERICHOST))
    return list(await run_in_thread(f"look up {host}", look_up))


def _make_socket(address: AddrInfoType) -> socket.socket:
    family, kind, protocol, _, _ = address
    sock = socket.socket(family, kind, protocol)
    for name, value in _KEEPALIVE:
        if hasattr(socket, name):
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
    return sock


@contextlib.asynccontextmanager
async def connect_in_turn(
    slots: asyncio.Semaphore, host: str, port: int, timeout: float
) -> AsyncIterator[tuple[socket.socket, contextlib.AsyncExitStack]]:
    """Yield a connected socket and a handshake slot, which is held while the body runs or until it is closed.

    A host that does not answer within `SLOT_TIMEOUT_S` is waited for without a slot, so that a pod with many silent
    workers does not delay the others. Raises what `open_socket` raises; after `timeout` seconds
    asyncio.TimeoutError, or socket.gaierror when the name was not resolved by then.
    """
    async with contextlib.AsyncExitStack() as slot:
        await slot.enter_async_context(slots)
        resolved = asyncio.Event()
        opening = asyncio.ensure_future(open_socket(host, port, resolved))
        patience = min(SLOT_TIMEOUT_S, timeout)
        try:
            done, _ = await asyncio.wait({opening}, timeout=patience)
            if not done:
                await slot.aclose()
                done, _ = await asyncio.wait({opening}, timeout=timeout - patience)
                if not done:
                    raise (
                        asyncio.TimeoutError if resolved.is_set() else socket.gaierror(socket.EAI_AGAIN, "no answer")
                    )
                opening.result()
                await slot.enter_async_context(slots)
            yield opening.result(), slot
        except BaseException:
            _discard(opening)
            raise


def _discard(opening: asyncio.Future[socket.socket]) -> None:
    """Stop opening a socket, or close it if it is open."""
    if not opening.cancel() and not opening.cancelled() and opening.exception() is None:
        opening.result().close()


async def read_banner(host: str, port: int) -> bytes:
    """Return a server's answer to an SSH client's greeting."""
    loop = asyncio.get_running_loop()
    with await open_socket(host, port) as sock:
        await loop.sock_sendall(sock, b"SSH-2.0-tpu_tui\r\n")
        return await loop.sock_recv(sock, 255)
