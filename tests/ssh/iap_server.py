"""A server with the protocol of IAP's TCP forwarding, which relays to real machines."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

from aiohttp import WSMsgType, web

from tui.ssh.transport.iap_protocol import ACK_AFTER_BYTES, MAX_DATA_BYTES, SUBPROTOCOL, Frame, Tag, decode


@dataclass
class Session:
    """One tunnel: the connection to the machine, and the bytes that each side has received or confirmed."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    ws: web.WebSocketResponse | None = None
    attached: asyncio.Event = field(default_factory=asyncio.Event)
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held by the current WebSocket, so that the next one counts bytes only after this one has read all its own."""
    unconfirmed: bytearray = field(default_factory=bytearray)
    confirmed: int = 0
    received: int = 0
    acknowledged: int = 0
    over: bool = False
    connections: int = 0


class IapServer:
    """The server: `machines` maps an instance's port to a real address, `token` is the one that clients must send."""

    def __init__(self) -> None:
        self.machines: dict[tuple[str, int], tuple[str, int]] = {}
        self.token = ""
        self.status = 0
        """The HTTP status with which every request is refused; 0: none."""
        self.close_code = 0
        """The close code with which every tunnel is refused; 0: none."""
        self.silent = False
        """Whether reconnections are accepted and then get no message."""
        self.cut_after = 0
        """Bytes to a client after which its connection is cut; 0: never."""
        self.queries: list[dict[str, str]] = []
        self.origins: set[str | None] = set()
        self.acks = 0
        self.sessions: dict[str, Session] = {}
        self.url = ""

    def cut_all(self) -> None:
        """Cut every client's connection without a close message; the sessions stay alive."""
        for session in self.sessions.values():
            _cut(session)

    async def connect(self, request: web.Request) -> web.StreamResponse:
        ws = await self._accept(request)
        if not isinstance(ws, web.WebSocketResponse):
            return ws
        query = self.queries[-1]
        where = self.machines.get((query.get("instance", ""), int(query.get("port", 0))))
        if self.close_code or where is None:
            await ws.close(code=self.close_code or 4047, message=b"Failed to lookup instance")
            return ws
        try:
            session = Session(*await asyncio.open_connection(*where), ws=ws)
        except OSError:
            await ws.close(code=4003, message=b"failed to connect to backend")
            return ws
        session.attached.set()
        sid = secrets.token_hex(8)
        self.sessions[sid] = session
        pumping = asyncio.ensure_future(self._pump(session))
        async with session.turn:
            await ws.send_bytes(Frame(Tag.CONNECT_SUCCESS_SID, sid.encode()).encode())
            await self._serve(session, ws)
        del pumping
        return ws

    async def reconnect(self, request: web.Request) -> web.StreamResponse:
        ws = await self._accept(request)
        if not isinstance(ws, web.WebSocketResponse):
            return ws
        if self.silent:
            await ws.receive()
            return ws
        query = self.queries[-1]
        session = self.sessions.get(query["sid"])
        if session is None:
            await ws.close(code=4080, message=b"no such session")
            return ws
        async with session.turn:
            count = int(query["ack"])
            del session.unconfirmed[: count - session.confirmed]
            session.confirmed = count
            await ws.send_bytes(Frame(Tag.RECONNECT_SUCCESS_ACK, count=session.received).encode())
            again = bytes(session.unconfirmed)
            for start in range(0, len(again), MAX_DATA_BYTES):
                await ws.send_bytes(Frame(Tag.DATA, again[start : start + MAX_DATA_BYTES]).encode())
            session.ws = ws
            session.attached.set()
            await self._serve(session, ws)
        return ws

    async def _accept(self, request: web.Request) -> web.StreamResponse:
        self.queries.append(dict(request.query))
        self.origins.add(request.headers.get("Origin"))
        if self.status:
            return web.Response(status=self.status)
        if self.token and request.headers.get("Authorization") != f"Bearer {self.token}":
            return web.Response(status=401)
        ws = web.WebSocketResponse(protocols=(SUBPROTOCOL,), compress=False)
        await ws.prepare(request)
        assert ws.ws_protocol == SUBPROTOCOL
        return ws

    async def _serve(self, session: Session, ws: web.WebSocketResponse) -> None:
        """Pass what the client sends to the machine until the WebSocket ends."""
        session.connections += 1
        async for message in ws:
            if message.type is not WSMsgType.BINARY:
                break
            frame = decode(message.data)
            assert frame is not None
            if frame.tag == Tag.DATA:
                assert len(frame.data) <= MAX_DATA_BYTES
                session.received += len(frame.data)
                session.writer.write(frame.data)
                if session.received - session.acknowledged > ACK_AFTER_BYTES:
                    session.acknowledged = session.received
                    await ws.send_bytes(Frame(Tag.ACK, count=session.received).encode())
            else:
                self.acks += 1
                del session.unconfirmed[: frame.count - session.confirmed]
                session.confirmed = frame.count
        if ws.close_code != 1006:
            session.over = True
            session.attached.set()
            session.writer.close()

    async def _pump(self, session: Session) -> None:
        """Pass what the machine sends to the client, and store it until the client confirms it."""
        sent = 0
        with suppress(OSError):
            while data := await session.reader.read(MAX_DATA_BYTES):
                session.unconfirmed += data
                sent += len(data)
                with suppress(ConnectionError):
                    if session.ws is not None:
                        await session.ws.send_bytes(Frame(Tag.DATA, data).encode())
                if self.cut_after and sent > self.cut_after:
                    sent = 0
                    _cut(session)
                await session.attached.wait()
        if session.ws is not None and not session.over:
            await session.ws.close(code=1000)


def _cut(session: Session) -> None:
    ws, session.ws = session.ws, None
    session.attached.clear()
    if ws is not None and ws._req is not None and ws._req.transport is not None:
        ws._req.transport.abort()


@asynccontextmanager
async def iap_server() -> AsyncIterator[IapServer]:
    """Run the server on a loopback port for as long as the context lasts."""
    server = IapServer()
    app = web.Application()
    app.add_routes([web.get("/v4/connect", server.connect), web.get("/v4/reconnect", server.reconnect)])
    runner = web.AppRunner(app, shutdown_timeout=1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    server.url = f"ws://127.0.0.1:{runner.addresses[0][1]}/v4"
    try:
        yield server
    finally:
        await runner.cleanup()
        for session in server.sessions.values():
            session.writer.transport.abort()  # no client reads the rest any more
            with suppress(OSError):
                await session.writer.wait_closed()
