"""Jump hosts: one connection to each, through which all its workers are tunnelled."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from tui.aio.timeouts import within
from tui.pod.worker import MOST_PORT
from tui.ssh import errors
from tui.ssh.config.access import Access, login_for
from tui.ssh.host_login import Login
from tui.ssh.transport.proxy_command import ProxyCommands, ProxyRoute
from tui.text.numbers import parse_integer

if TYPE_CHECKING:
    import asyncssh

    from tui.ssh.transport.client_callbacks import LoginClient
    from tui.ssh.transport.login import Dialer

CLOSE_TIMEOUT_S = 3.0


class JumpHosts:
    """The connections to the jump hosts of one fleet, opened when needed and again when lost."""

    def __init__(self, access: Access, dialer: Callable[[], Awaitable[Dialer]], proxies: ProxyCommands) -> None:
        self._access = access
        self._dialer = dialer
        self._proxies = proxies
        self._live: dict[str, tuple[asyncssh.SSHClientConnection, LoginClient]] = {}
        self._failed: dict[str, tuple[float, errors.SshError]] = {}
        self._locks: dict[str, asyncio.Lock] = {}

    async def through(
        self, jump: str, worker: int, behind: frozenset[str] = frozenset()
    ) -> asyncssh.SSHClientConnection:
        """Return the connection to a jump host for a worker behind it; `a,b` goes through a to b, as in ProxyJump.

        `behind` are the jump hosts between this one and the worker; no host is used twice.
        Raises SshError naming the worker; workers that waited for the same attempt share its failure.
        """
        began = asyncio.get_running_loop().time()
        async with self._locks.setdefault(jump, asyncio.Lock()):
            if self.is_connected(jump):
                return self._live[jump][0]
            when, failure = self._failed.get(jump, (0.0, None))
            if failure is None or when < began:
                failure = await self._dial(jump, worker, behind | {jump})
            if failure is None:
                return self._live[jump][0]
            what = f"the jump host {jump.rpartition(',')[2]} failed: {failure.what}"
            raise errors.SshError(failure.reason, what, worker=worker, why=failure.why, remedy=failure.remedy)

    def is_connected(self, jump: str) -> bool:
        """Return whether there is a live login on a jump host."""
        live = self._live.get(jump)
        return live is not None and not live[1].ended.done()

    async def close(self) -> None:
        """Close all connections, the last of a chain first."""
        live, self._live = list(self._live.values()), {}
        for connection, _ in reversed(live):
            connection.close()
            with contextlib.suppress(asyncio.TimeoutError):
                await within(connection.wait_closed(), CLOSE_TIMEOUT_S)

    async def _dial(self, jump: str, worker: int, behind: frozenset[str]) -> errors.SshError | None:
        """Log in to the last host of a chain; the configuration may put further jump hosts before the first.

        Return the error if the login fails.
        """
        before, _, last = jump.rpartition(",")
        login = await parse_jump(last, self._access)
        if not before and login.jump not in behind:
            before = login.jump or ""
        proxy = None if before or login.proxy is None else ProxyRoute(self._proxies, login.proxy, None)
        try:
            tunnel = await self.through(before, worker, behind) if before else None
            dialer = await self._dialer()
            self._live[jump] = await dialer.dial(login, worker=None, tunnel=tunnel, through=proxy)
        except errors.SshError as error:
            self._failed[jump] = (asyncio.get_running_loop().time(), error)
            return error
        return None


async def parse_jump(text: str, access: Access) -> Login:
    """Parse `[user@]host[:port]`; the profile's user and port apply to workers, not to jump hosts."""
    user, _, rest = text.strip().rpartition("@")
    host, _, port = rest.rpartition(":")
    number = parse_integer(port, MOST_PORT)
    if not host or not number or (":" in host and not host.endswith("]")):
        host, number = rest, None
    return await login_for(host.strip("[]"), number, user or None, replace(access, port=None))
