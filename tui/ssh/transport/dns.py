"""Addresses of a name, looked up beside the event loop: a silent DNS server holds up no Ctrl-C and no end."""

from __future__ import annotations

import contextlib
import socket
from functools import partial
from typing import Any

from tui.aio.threads import run_in_thread

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
    look_up = partial(socket.getaddrinfo, host, port, type=socket.SOCK_STREAM)
    return list(await run_in_thread(f"look up {host}", look_up))
