"""Loopback addresses for workers: one 127.0.x.y each or, where the system has only one address, one port each."""

from __future__ import annotations

import contextlib
import errno
import itertools
import socket

from tui.errors import TpuTuiError
from tui.text.printable import format_count

PORTS = (2222, 2022, 22022, 12222)
"""Tried in this order. Every worker of a pod has the same port, as on a real one."""
HOSTS_PER_NET = 250
_CLAIM = 254
"""The host number that a pod binds, without listening, while it uses a net. It keeps other pods from that net."""
_PREFIX = "127.0"
_FIRST_NET, _LAST_NET = 2, 254
_BACKLOG = 128


def _listen(address: tuple[str, int]) -> socket.socket:
    return socket.create_server(address, backlog=_BACKLOG)


class Net:
    """The addresses of one slice, held until closed."""

    def __init__(self, claims: list[socket.socket], addresses: list[tuple[str, int]]) -> None:
        self._claims = claims
        self.addresses = addresses

    def listeners(self) -> list[socket.socket]:
        """Return a listening socket per worker and fill in ports that were 0. Raises OSError if one is taken."""
        with contextlib.ExitStack() as on_error:
            listeners = [on_error.enter_context(_listen(address)) for address in self.addresses]
            on_error.pop_all()
        self.addresses = [listener.getsockname() for listener in listeners]
        return listeners

    def close(self) -> None:
        """Free the addresses."""
        for claim in self._claims:
            claim.close()
        self._claims = []


def _claim(first: int, workers: int, port: int) -> Net:
    """Claim as many consecutive nets as the workers need. Raises OSError if one is taken."""
    nets = range(first, first + -(-workers // HOSTS_PER_NET))
    addresses = [(f"{_PREFIX}.{first + i // HOSTS_PER_NET}.{1 + i % HOSTS_PER_NET}", port) for i in range(workers)]
    with contextlib.ExitStack() as on_error:
        claims = [on_error.enter_context(socket.socket()) for _ in nets]
        for net, claim in zip(nets, claims, strict=True):
            claim.bind((f"{_PREFIX}.{net}.{_CLAIM}", port))
        for address in addresses:
            _listen(address).close()
        on_error.pop_all()
    return Net(claims, addresses)


def free_net(workers: int) -> Net:
    """Return free addresses for this many workers. Raises TpuTuiError if there are none."""
    last_net = _LAST_NET - (workers - 1) // HOSTS_PER_NET
    try:
        for port, first in itertools.product(PORTS, range(_FIRST_NET, last_net + 1)):
            net = _claim_if_free(first, workers, port)
            if net is not None:
                return net
    except OSError as error:
        if error.errno == errno.EADDRNOTAVAIL:
            return Net([], [("127.0.0.1", 0)] * workers)
        raise _no_room(workers, error.strerror or str(error)) from error
    raise _no_room(workers, f"ports {', '.join(map(str, PORTS))} are in use on all of 127.0.0.0/16")


def _claim_if_free(first: int, workers: int, port: int) -> Net | None:
    try:
        return _claim(first, workers, port)
    except OSError as error:
        if error.errno in (errno.EADDRINUSE, errno.EACCES):
            return None
        raise


def _no_room(workers: int, why: str) -> TpuTuiError:
    return TpuTuiError(
        f"no loopback addresses for {format_count(workers, 'worker')}",
        why=why,
        remedy="use fewer workers, raise the limit of open files (ulimit -n), or end other local pods",
    )
