"""Addresses of a name, looked up by threads that nobody waits for: a silent DNS server holds up no Ctrl-C and no end.

An event loop's own executor is waited for when the loop ends, and has six threads for all workers of a pod.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from typing import Any

Address = tuple[Any, ...]
"""Family, kind, protocol, canonical name and address, as `socket.getaddrinfo` tells them."""


async def addresses(host: str, port: int) -> list[Address]:
    """Where `host:port` may be, IPv6 and IPv4 in turn, beginning with what the machine prefers.

    Raises socket.gaierror when the name does not resolve, UnicodeError when it is no name.
    """
    with contextlib.suppress(socket.gaierror):
        return list(socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST))
    return in_turn(await _looked_up(host, port))


def in_turn(found: list[Address]) -> list[Address]:
    """The addresses with their families in turn (RFC 8305, section 4): a family without a way costs one try only."""
    first = [one for one in found if one[0] == found[0][0]]
    others = [one for one in found if one[0] != found[0][0]]
    mixed = [one for pair in zip(first, others, strict=False) for one in pair]
    return mixed + first[len(others) :] + others[len(first) :]


async def _looked_up(host: str, port: int) -> list[Address]:
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[list[Address]] = loop.create_future()

    def tell(found: list[Address] | OSError | UnicodeError) -> None:
        if answer.done():
            return
        if isinstance(found, list):
            answer.set_result(found)
        else:
            answer.set_exception(found)

    def look_up() -> None:
        found: list[Address] | OSError | UnicodeError
        try:
            found = list(socket.getaddrinfo(host, port, type=socket.SOCK_STREAM))
        except (OSError, UnicodeError) as error:
            found = error
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody asks any more
            loop.call_soon_threadsafe(tell, found)

    threading.Thread(target=look_up, name=f"look up {host}", daemon=True).start()
    return await answer
