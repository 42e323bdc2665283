"""Worker machines for the API's tests: each has a real listening socket and a real host key."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Mapping, Sequence

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from tui.localpod.api.host_protocol import HostedWorker


class SocketHosts:
    """An implementation of WorkerHosts: a worker is a server on a loopback port, alive as long as it listens."""

    def __init__(self) -> None:
        self._servers: dict[str, list[asyncio.Server]] = {}
        self._keys: dict[tuple[str, int], str] = {}
        self._uids: dict[str, str] = {}
        self.cores: dict[str, int] = {}
        self.ssh_keys: dict[str, str] = {}
        self.exited: Callable[[str], None] = lambda _: None
        self.broken: str | None = None
        """If set, `start` fails with this text."""
        self.second: str | None = None
        """The name of a slice that fails to start as soon as another one runs."""

    async def start(
        self,
        slice_name: str,
        workers: int,
        cores: int,
        chips: int | None = None,
        startup_script: str = "",
        *,
        hostname: str = "",
    ) -> list[HostedWorker]:
        if self.broken:
            raise OSError(self.broken)
        while self.second and slice_name == self.second:
            await asyncio.sleep(0.01)
            if self._servers:
                raise OSError("there is room for one slice only")
        await self.stop(slice_name)
        self.cores[slice_name] = cores
        uid = self._uids.setdefault(slice_name, secrets.token_hex(4))
        servers: list[asyncio.Server] = []
        try:
            while len(servers) < workers:
                servers.append(await asyncio.start_server(_hang_up, "127.0.0.1", 0))
        except BaseException:
            for server in servers:
                server.close()
            raise
        self._servers[slice_name] = servers
        return [
            HostedWorker(
                index=index,
                address="127.0.0.1",
                port=server.sockets[0].getsockname()[1],
                hostname=hostname or f"t1v-n-{uid}-w-{index}",
                host_key_public=self._key(slice_name, index),
            )
            for index, server in enumerate(servers)
        ]

    async def stop(self, slice_name: str) -> None:
        servers = self._servers.pop(slice_name, [])
        for listener in (listener for server in servers for listener in server.sockets):
            asyncio.get_running_loop().remove_reader(listener.fileno())
        for _ in range(_TURNS_OF_A_CONNECTION if servers else 0):
            await asyncio.sleep(0)  # Python 3.11 leaves a connection open that was accepted just before the end.
        for server in servers:
            server.close()
            await server.wait_closed()

    async def remove(self, slice_name: str) -> None:
        await self.stop(slice_name)
        self._keys = {key: value for key, value in self._keys.items() if key[0] != slice_name}

    def alive(self, slice_name: str) -> list[bool]:
        return [server.is_serving() for server in self._servers.get(slice_name, [])]

    def authorize(self, slice_name: str, ssh_keys: str, os_login: Mapping[str, Sequence[str]] | None) -> None:
        self.ssh_keys[slice_name] = ssh_keys if os_login is None else ""

    def kill(self, slice_name: str, worker: int) -> None:
        """Stop one machine, as a preemption does."""
        self._servers[slice_name][worker].close()
        self.exited(slice_name)

    preempt = kill

    def running(self) -> list[str]:
        """Return the slices that have machines."""
        return sorted(self._servers)

    async def close(self) -> None:
        for name in list(self._servers):
            await self.stop(name)

    def _key(self, slice_name: str, index: int) -> str:
        if (slice_name, index) not in self._keys:
            public = Ed25519PrivateKey.generate().public_key()
            self._keys[slice_name, index] = public.public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode()
        return self._keys[slice_name, index]


_TURNS_OF_A_CONNECTION = 8
"""Turns of the event loop, and some more, in which a connection that was just accepted is opened and closed."""


def _hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Close a connection at once: a task that the end of a test cancels before it began would leave it open."""
    writer.close()
