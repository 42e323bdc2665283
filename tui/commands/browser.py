"""The web server behind `serve`: textual-serve's, with a door.

Whoever can type into a console can start and stop runs, so a loopback port is not enough: every page that a browser
shows, and every other user of this machine, can reach that. A request gets in with the key of the printed address,
from a page of this server, and under a loopback name (so that no foreign name can be pointed here).
"""

from __future__ import annotations

import asyncio
import hmac
import secrets
import socket
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import urlsplit

from aiohttp import web
from textual_serve.app_service import AppService
from textual_serve.server import Server

_LOOPBACK_NAMES = {"127.0.0.1", "localhost", "::1"}
_KEY_BYTES = 24
QUITTING = 5.0
"""Seconds that a console may take to quit when its tab has closed."""
_Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Doorkeeper:
    """Decides who gets in; the key lives as long as the server."""

    def __init__(self, port: int) -> None:
        self._key = secrets.token_urlsafe(_KEY_BYTES)
        self._cookie = f"tpu_tui_{port}"
        self.url = f"http://127.0.0.1:{port}/?key={self._key}"

    def refuses(self, request: web.Request) -> str | None:
        """Why a request does not get in; None when it does, or still has its key to change for a cookie."""
        if urlsplit(f"//{request.host}").hostname not in _LOOPBACK_NAMES:
            return "this name is not this machine's loopback"
        origin = request.headers.get("Origin")
        if origin is not None and urlsplit(origin).netloc != request.host:
            return "a page of another site asked"
        if self.has_cookie(request) or self.has_key(request):
            return None
        return "open the whole address that tpu-tui serve printed"

    def has_cookie(self, request: web.Request) -> bool:
        """Whether the browser was let in before."""
        return hmac.compare_digest(request.cookies.get(self._cookie, "").encode(), self._key.encode())

    def has_key(self, request: web.Request) -> bool:
        """Whether the address is the printed one."""
        return hmac.compare_digest(request.query.get("key", "").encode(), self._key.encode())

    def let_in(self) -> web.Response:
        """Change the key for a cookie, so that it stands in no address from then on."""
        response = web.HTTPFound("/")
        response.set_cookie(self._cookie, self._key, httponly=True, samesite="Strict")
        return response


class _GuardedServer(Server):
    def __init__(self, command: str, door: Doorkeeper, announce: Callable[[], None]) -> None:
        super().__init__(command, title="tpu-tui")
        self._door = door
        self._announce = announce

    async def _make_app(self) -> web.Application:
        app: web.Application = await super()._make_app()
        app.middlewares.append(self._guard())
        return app

    def _guard(self) -> Any:
        @web.middleware
        async def guard(request: web.Request, handler: _Handler) -> web.StreamResponse:
            reason = self._door.refuses(request)
            if reason is not None:
                return web.Response(status=403, text=f"tpu-tui: {reason}\n")
            response = await handler(request) if self._door.has_cookie(request) else self._door.let_in()
            if not response.prepared:
                response.headers["Referrer-Policy"] = "no-referrer"
                response.headers["X-Frame-Options"] = "DENY"
            return response

        return guard

    async def handle_index(self, request: web.Request) -> Any:
        """The page; its addresses are those the browser used, which a forwarded port makes others than ours."""
        self.public_url = f"http://{request.host}"
        return await super().handle_index(request)

    async def _process_messages(self, websocket: web.WebSocketResponse, app_service: AppService) -> None:
        """Serve a tab until it closes, and see its console out: a process left behind outlives the event loop."""
        try:
            await super()._process_messages(websocket, app_service)
        finally:
            await app_service.stop()
            await _seen_out(app_service._process)

    async def on_startup(self, _app: web.Application) -> None:
        """Say where it is."""
        self._announce()


async def _seen_out(console: asyncio.subprocess.Process | None) -> None:
    """Wait for a console that was asked to quit; one that does not within `QUITTING` seconds is killed."""
    if console is None:
        return
    try:
        await asyncio.wait_for(console.wait(), QUITTING)
    except asyncio.TimeoutError:
        console.kill()
        await console.wait()


def run_server(command: str, listening: socket.socket, door: Doorkeeper, announce: Callable[[], None]) -> None:
    """Serve `command`, one process a browser tab, until SIGINT or SIGTERM."""
    server = _GuardedServer(command, door, announce)
    web.run_app(server._make_app(), sock=listening, print=None, access_log=None)
