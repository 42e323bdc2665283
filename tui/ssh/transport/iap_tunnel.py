"""SSH through Identity-Aware Proxy: a socket whose other end is a worker's port 22, without an external address.

The worker's firewall must admit 35.235.240.0/20, and the login needs roles/iap.tunnelResourceAccessor. Tested against
a local server that speaks the protocol, not against Google's.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from tui.aio.background_tasks import BackgroundTasks
from tui.aio.backoff import backoff
from tui.aio.fan_out import cancel_all
from tui.aio.timeouts import within
from tui.procs.child_signals import kill_child
from tui.ssh import errors
from tui.ssh.errors import SshError
from tui.ssh.transport.iap_protocol import (
    ACK_AFTER_BYTES,
    MAX_DATA_BYTES,
    SUBPROTOCOL,
    Frame,
    ResendBuffer,
    Tag,
    decode,
)

if TYPE_CHECKING:
    import aiohttp

    from tui.ssh.config.access import Access

URL = "wss://tunnel.cloudproxy.app/v4"
ORIGIN = "bot:iap-tunneler"
INTERFACE = "nic0"
TOKEN_REUSE_S = 1800.0
"""How long an access token is reused; Google's are valid for an hour."""
RESUME_S = 20.0
"""How long the server may take to continue a session over a new WebSocket."""
RECONNECT_S = 120.0
"""How long to try to resume a broken tunnel; SSH's own keep-alive gives up sooner by default."""
MAX_UNCONFIRMED_BYTES = 32 * 1024 * 1024
"""Unconfirmed bytes beyond which SSH has to wait."""
RESUMABLE = (4004, 1006)
"""Close codes after which the session can be resumed: a new login is required; the connection broke."""
_UNAUTHORIZED = 401
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.2, 5.0


@dataclass(frozen=True)
class IapTarget:
    """One machine's port, as Compute Engine names it; a TPU VM's name is its guest attribute `hostname`."""

    project: str
    zone: str
    instance: str
    port: int

    @classmethod
    def of(cls, resource: str, port: int) -> IapTarget:
        """Read `projects/P/zones/Z/instances/NAME`; raises ValueError for anything else."""
        parts = resource.split("/")
        if len(parts) != 6 or parts[::2] != ["projects", "zones", "instances"] or not all(parts):
            raise ValueError(f"not an instance: {resource!r}")
        return cls(parts[1], parts[3], parts[5], port)


class TunnelClosedError(Exception):
    """The tunnel's WebSocket is closed, or could not be opened; `code` is the close code or HTTP status."""

    def __init__(self, code: int, words: str = "") -> None:
        super().__init__(f"{code} {words}".strip())
        self.code = code
        self.words = words


class IapTunnels:
    """The IAP tunnels of one fleet: one HTTP session and one access token for all."""

    def __init__(self, access: Access) -> None:
        self._url = access.iap_url or URL
        self._command = access.token_command
        self._timeout = access.connect_timeout
        self._session: aiohttp.ClientSession | None = None
        self._token: tuple[float, str] | None = None
        self._asking = asyncio.Lock()
        self._relays = BackgroundTasks()

    async def open(self, target: IapTarget, worker: int) -> socket.socket:
        """Return a connected socket to the target. Raises SshError naming the worker."""
        relay = _Relay(self, target, worker)
        try:
            outside = await within(relay.open(), self._timeout)
        except asyncio.TimeoutError:
            raise errors.iap_error(worker, target.instance, 0, f"no answer within {self._timeout:g} s") from None
        except TunnelClosedError as error:
            raise errors.iap_error(worker, target.instance, error.code, error.words) from None
        except OSError as error:
            raise errors.iap_error(worker, target.instance, 0, str(error)) from None
        self._relays.start(relay.run())
        return outside

    async def close(self) -> None:
        """End every tunnel."""
        await self._relays.close()
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def dial(self, path: str, query: dict[str, Any], worker: int) -> aiohttp.ClientWebSocketResponse[Any]:
        """Open a WebSocket; fetch a new access token if this one is refused. Raises TunnelClosedError."""
        try:
            return await self._connect_socket(path, query, await self._access_token(worker))
        except TunnelClosedError as error:
            if error.code != _UNAUTHORIZED:
                raise
            self._token = None
        return await self._connect_socket(path, query, await self._access_token(worker))

    async def _connect_socket(
        self, path: str, query: dict[str, Any], token: str
    ) -> aiohttp.ClientWebSocketResponse[Any]:
        import aiohttp

        if self._session is None:
            # By default, a session opens at most 100 connections.
            self._session = aiohttp.ClientSession(trust_env=True, connector=aiohttp.TCPConnector(limit=0))
        try:
            return await self._session.ws_connect(
                f"{self._url}/{path}?{urlencode(query)}",
                protocols=(SUBPROTOCOL,),
                origin=ORIGIN,
                headers={"Authorization": f"Bearer {token}"} if token else {},
            )
        except aiohttp.WSServerHandshakeError as error:
            raise TunnelClosedError(error.status, error.message) from None
        except (aiohttp.ClientError, OSError) as error:
            raise TunnelClosedError(0, str(error)) from None

    async def _access_token(self, worker: int) -> str:
        if not self._command:
            return ""
        async with self._asking:
            now = asyncio.get_running_loop().time()
            if self._token is None or now - self._token[0] > TOKEN_REUSE_S:
                self._token = (now, await self._fetch_token(worker))
            return self._token[1]

    async def _fetch_token(self, worker: int) -> str:
        """Run the command that prints an access token; cancelling ends it. Raises SshError naming the worker."""
        try:
            process = await asyncio.create_subprocess_exec(
                *self._command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
            )
        except OSError as error:
            raise errors.IAP_NO_TOKEN.error(worker, words=str(error)) from None
        try:
            token, complaint = await process.communicate()
        finally:
            kill_child(process)
            await process.wait()
        if process.returncode:
            raise errors.IAP_NO_TOKEN.error(worker, words=complaint.decode("utf-8", "replace"))
        return token.decode().strip()


@dataclass(frozen=True)
class IapRoute:
    """One worker's route through IAP: a tunnel for each attempt, which ends when its socket is closed."""

    tunnels: IapTunnels
    target: IapTarget
    worker: int

    async def open(self) -> socket.socket:
        """Return a connected socket to the target. Raises SshError naming the worker."""
        return await self.tunnels.open(self.target, self.worker)

    async def failure(self) -> None:
        """Return None: `open` raises what goes wrong with a tunnel."""

    def end(self) -> None:
        """Do nothing: the socket is closed."""


@dataclass(eq=False)
class _Relay:
    """Copies bytes between a local socket and one tunnel session, over as many WebSockets as necessary."""

    tunnels: IapTunnels
    target: IapTarget
    worker: int

    def __post_init__(self) -> None:
        self._outgoing = ResendBuffer()
        self._received = 0
        self._acknowledged = 0
        self._news = asyncio.Event()
        self._room = asyncio.Event()
        self._ended = False
        """Whether the local side has closed its end."""

    async def open(self) -> socket.socket:
        """Begin the session and return the local socket to it. Raises TunnelClosedError and SshError."""
        target = self.target
        query = {
            "project": target.project,
            "port": target.port,
            "newWebsocket": "True",
            "zone": target.zone,
            "instance": target.instance,
            "interface": INTERFACE,
        }
        self._socket = await self.tunnels.dial("connect", query, self.worker)
        self._session = (await self._first(Tag.CONNECT_SUCCESS_SID)).data.decode("ascii", "replace")
        self._inside, outside = socket.socketpair()
        for end in (self._inside, outside):
            end.setblocking(False)
        return outside

    async def run(self) -> None:
        """Copy until the local side or the session ends, then close both."""
        reading = asyncio.get_running_loop().create_task(self._read())
        try:
            while await self._carry() and await self._resume():
                pass
        finally:
            reading.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await reading
            self._inside.close()
            await self._socket.close()

    async def _read(self) -> None:
        """Read what the local side sends, while there is room to keep bytes that are not confirmed."""
        loop = asyncio.get_running_loop()
        with contextlib.suppress(OSError):
            while data := await loop.sock_recv(self._inside, MAX_DATA_BYTES):
                self._outgoing.add(data)
                self._news.set()
                while self._outgoing.held > MAX_UNCONFIRMED_BYTES:
                    self._room.clear()
                    await self._room.wait()
        self._ended = True
        self._news.set()

    async def _carry(self) -> bool:
        """Use one WebSocket until it ends. Return whether the session can continue over another one."""
        loop = asyncio.get_running_loop()
        sending, receiving = loop.create_task(self._send()), loop.create_task(self._receive())
        try:
            done, _ = await asyncio.wait({sending, receiving}, return_when=asyncio.FIRST_COMPLETED)
            if done == {sending} and sending.result():
                # Do not cancel `receiving`: it may be passing on bytes that it has already counted as received.
                await self._socket.close()
                await asyncio.wait({receiving})
            return all(task.result() for task in done)
        finally:
            await cancel_all([sending, receiving])

    async def _send(self) -> bool:
        """Send until the local side is done. Return True when the WebSocket failed first."""
        try:
            while True:
                while (data := self._outgoing.take()) is not None:
                    await self._socket.send_bytes(Frame(Tag.DATA, data).encode())
                if self._ended:
                    return False
                self._news.clear()
                await self._news.wait()
        except (OSError, RuntimeError):
            return True

    async def _receive(self) -> bool:
        """Pass on what arrives. Return whether the session can continue after this WebSocket."""
        try:
            while True:
                frame = await self._next()
                if frame is None:
                    continue
                if frame.tag == Tag.DATA:
                    await self._pass_on(frame.data)
                elif frame.tag == Tag.ACK:
                    self._outgoing.confirm(frame.count)
                    self._room.set()
        except TunnelClosedError as error:
            return error.code in RESUMABLE
        except (OSError, ValueError):
            return False

    async def _pass_on(self, data: bytes) -> None:
        self._received += len(data)
        await asyncio.get_running_loop().sock_sendall(self._inside, data)
        if self._received - self._acknowledged > ACK_AFTER_BYTES:
            with contextlib.suppress(OSError, RuntimeError):
                await self._socket.send_bytes(Frame(Tag.ACK, count=self._received).encode())
                self._acknowledged = self._received

    async def _resume(self) -> bool:
        """Continue the session over a new WebSocket. Return False when that fails or the local side has ended."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + RECONNECT_S
        for pause in backoff(_FIRST_PAUSE_S, _LONGEST_PAUSE_S):
            if self._ended or loop.time() > deadline:
                return False
            with contextlib.suppress(TunnelClosedError):
                await self._socket.close()
            try:
                await within(self._reopen(), RESUME_S)
                return True
            except asyncio.TimeoutError:
                continue
            except TunnelClosedError as error:
                if error.code not in (0, *RESUMABLE) and error.code < 500:
                    return False
            except (SshError, ValueError):
                return False
            await asyncio.sleep(pause)
        return False

    async def _reopen(self) -> None:
        query = {
            "sid": self._session,
            "ack": self._received,
            "newWebsocket": "True",
            "zone": self.target.zone,
        }
        self._socket = await self.tunnels.dial("reconnect", query, self.worker)
        self._acknowledged = self._received
        self._outgoing.confirm((await self._first(Tag.RECONNECT_SUCCESS_ACK)).count)
        self._room.set()
        self._outgoing.rewind()

    async def _first(self, tag: Tag) -> Frame:
        """Return the first known message of a WebSocket, which must have this tag. Raises TunnelClosedError."""
        try:
            while (frame := await self._next()) is None:
                pass
        except ValueError as error:
            raise TunnelClosedError(0, str(error)) from None
        if frame.tag != tag:
            raise TunnelClosedError(0, f"it begins with message {frame.tag}")
        return frame

    async def _next(self) -> Frame | None:
        """Return the next message, None for one to ignore. Raises TunnelClosedError and ValueError."""
        from aiohttp import WSMsgType

        message = await self._socket.receive()
        if message.type is WSMsgType.BINARY:
            return decode(message.data)
        if message.type is WSMsgType.CLOSE:
            raise TunnelClosedError(int(message.data or 1000), str(message.extra or ""))
        if message.type in (WSMsgType.CLOSED, WSMsgType.CLOSING, WSMsgType.ERROR):
            raise TunnelClosedError(self._socket.close_code or 1006)
        return None
