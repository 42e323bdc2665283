"""The web server behind `serve`: one page, and a console process for every tab that presents the key.

Anyone who can type into a console can start and stop runs, and a loopback port is open to every web page and every
user of this machine. Therefore a request must name a loopback host and come from a page of this server, and the first
message of a connection must be the key of the printed address; only then does a process start. The page keeps the key
in the tab's `sessionStorage`, because a cookie would be sent to every port of the host.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import json
import logging
import secrets
import socket
from collections.abc import Awaitable, Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from aiohttp import WSMsgType, web
from textual_serve.app_service import AppService
from textual_serve.download_manager import DownloadManager

from tui.aio.timeouts import within
from tui.commands._compat_textual_serve import process_of
from tui.procs.child_signals import kill_child

_LOOPBACK_NAMES = {"127.0.0.1", "localhost", "::1"}
_KEY_BYTES = 24
KEY_WITHIN_S = 10.0
"""How long a new connection may take to send the key."""
KEY_MESSAGE_CHARACTERS = 1024
"""Most characters of the message with the key."""
MESSAGE_BYTES = 256 * 1024
"""Most bytes of any message: pasted text arrives as one."""
MAX_WAITING = 64
"""Most connections at a time that have not sent the key yet."""
WRONG_KEY_CODE = 4403
"""Close code for a connection without the key; the page knows it."""
FAILED_CODE = 4500
"""Close code for a console that ended with an error; the page knows it."""
_GOING_AWAY_CODE = 1001
_TRY_LATER_CODE = 1013
QUITTING_S = 5.0
"""How long a console may take to quit after its tab has closed."""
CLOSING_S = 3.0
"""How long a browser may take to acknowledge that its connection is closed."""
_HEARTBEAT_S = 15.0
_MAX_COLUMNS, _MAX_ROWS = 1000, 500
_MOUSE_REPORT = "\x1b[<"
_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; "
    "font-src 'self'; img-src 'self' data:; connect-src 'self' ws: wss:; base-uri 'none'; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
_QUIET_LOGGERS = ("aiohttp", "textual-serve")
"""Loggers that would print malformed requests to the terminal."""
_Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class AccessControl:
    """Decides which requests are served; its key is valid as long as the server runs."""

    def __init__(self, port: int) -> None:
        self._key = secrets.token_urlsafe(_KEY_BYTES)
        self.url = f"http://127.0.0.1:{port}/?key={self._key}"

    def refusal(self, request: web.Request) -> str | None:
        """Return why a request is refused; None for one that is accepted."""
        if _host_name(f"//{request.host}") not in _LOOPBACK_NAMES:
            return "the host is not this machine's loopback address"
        origin = request.headers.get("Origin")
        if origin is not None and _host(origin) != request.host:
            return "the request comes from a page of another site"
        key = request.query.get("key")
        if key is not None and not self.accepts(key):
            return "wrong key: open the whole address that tpu-tui serve printed"
        return None

    def accepts(self, key: object) -> bool:
        """Return whether this is the key, in constant time."""
        encoded = key.encode("utf-8", "replace") if isinstance(key, str) else b""
        return hmac.compare_digest(encoded, self._key.encode())


def _host(url: str) -> str | None:
    """Return the host and port of a URL; None for a malformed one."""
    try:
        return urlsplit(url).netloc
    except ValueError:
        return None


def _host_name(url: str) -> str | None:
    """Return the host of a URL without its port; None for a malformed one."""
    try:
        parts = urlsplit(url)
        return parts.hostname if parts.port is None or parts.port else None
    except ValueError:
        return None


def _event(text: str) -> tuple[str, Any]:
    """Parse a message from the page into its name and value; the name is empty for anything else."""
    try:
        event = json.loads(text)
    except (ValueError, RecursionError):
        return "", None
    if not (isinstance(event, list) and event and isinstance(event[0], str)):
        return "", None
    return event[0], event[1] if len(event) > 1 else None


def _size(width: object, height: object) -> tuple[int, int] | None:
    """Parse a terminal's columns and rows, within bounds; None where they are not numbers."""
    try:
        columns, rows = int(str(width)[:6]), int(str(height)[:6])
    except ValueError:
        return None
    return min(max(columns, 1), _MAX_COLUMNS), min(max(rows, 1), _MAX_ROWS)


class ServedConsole:
    """A console process, and the browser tab that shows it."""

    def __init__(self, command: str, tab: web.WebSocketResponse) -> None:
        self._tab = tab
        self._service = AppService(
            command,
            write_bytes=self._paint,
            write_str=self._send_to_page,
            close=self._close_tab,
            download_manager=DownloadManager(),
        )

    async def run(self, columns: int, rows: int) -> None:
        """Run a console until it or its tab closes, and leave no process behind."""
        await self._service.start(columns, rows)
        watching = asyncio.create_task(self._close_at_exit())
        try:
            async for message in self._tab:
                if message.type is WSMsgType.TEXT:
                    await self._take(message.data)
        finally:
            watching.cancel()
            await self._quit()

    async def _close_at_exit(self) -> None:
        if await process_of(self._service).wait():
            await self._tab.close(code=FAILED_CODE, message=b"the console failed")
        await self._close_tab()

    async def _close_tab(self) -> None:
        await self._tab.close()

    async def _paint(self, data: bytes) -> None:
        """Send the console's output; drop it once the tab has closed, so that the console can end."""
        if not self._tab.closed:
            with contextlib.suppress(ConnectionError):
                await self._tab.send_bytes(data)

    async def _send_to_page(self, text: str) -> None:
        if not self._tab.closed:
            with contextlib.suppress(ConnectionError):
                await self._tab.send_str(text)

    async def _take(self, text: str) -> None:
        """Pass a message of the page on to the console; ignore anything else."""
        name, value = _event(text)
        if name == "stdin" and isinstance(value, str):
            if not value.startswith(_MOUSE_REPORT):
                # Typing implies focus: the page's own message may have come before the console listened.
                await self._service.focus()
            await self._service.send_bytes(value.encode("utf-8", "replace"))
        elif name == "resize" and isinstance(value, dict):
            if size := _size(value.get("width"), value.get("height")):
                await self._service.set_terminal_size(*size)
        elif name == "ping" and isinstance(value, str):
            await self._tab.send_json(["pong", value])
        elif name == "focus":
            await self._service.focus()
        elif name == "blur":
            await self._service.blur()

    async def _quit(self) -> None:
        """Ask the process to quit, and kill it if it has not after `QUITTING_S`."""
        process = process_of(self._service)
        try:
            await within(self._ask_to_quit(process), QUITTING_S)
        except asyncio.TimeoutError:
            kill_child(process)
            await process.wait()

    async def _ask_to_quit(self, process: asyncio.subprocess.Process) -> None:
        await self._service.send_meta({"type": "quit"})
        await process.wait()


class ConsoleServer:
    """Serves the page to everyone on this machine, and consoles to those who present the key."""

    def __init__(self, command: str, access: AccessControl, announce: Callable[[], None]) -> None:
        self._command = command
        self._access = access
        self._announce = announce
        self._tabs: set[web.WebSocketResponse] = set()
        self._waiting = 0

    def application(self) -> web.Application:
        """Return the web application."""
        app = web.Application(middlewares=[self._guard()])
        directory = Path(__file__).parent
        app.router.add_get("/", _file(directory / "serve_page.html", "text/html"))
        app.router.add_get("/page.js", _file(directory / "serve_page.js", "text/javascript"))
        app.router.add_get("/ws", self._serve_tab)
        app.router.add_static("/static", _statics())
        app.on_startup.append(self._started)
        app.on_shutdown.append(self._close_tabs)
        return app

    def _guard(self) -> Any:
        @web.middleware
        async def guard(request: web.Request, handler: _Handler) -> web.StreamResponse:
            reason = self._access.refusal(request)
            if reason is not None:
                return web.Response(status=403, text=f"tpu-tui: {reason}\n", headers=_HEADERS)
            response = await handler(request)
            if not response.prepared:
                response.headers.update(_HEADERS)
            return response

        return guard

    async def _serve_tab(self, request: web.Request) -> web.StreamResponse:
        """Run a console in a tab once it has sent the key."""
        tab = web.WebSocketResponse(heartbeat=_HEARTBEAT_S, max_msg_size=MESSAGE_BYTES, timeout=CLOSING_S)
        await tab.prepare(request)
        size = _size(request.query.get("width"), request.query.get("height")) or (80, 24)
        self._tabs.add(tab)
        try:
            if await self._has_key(tab):
                with contextlib.suppress(ConnectionError):
                    await ServedConsole(self._command, tab).run(*size)
        finally:
            self._tabs.discard(tab)
        return tab

    async def _has_key(self, tab: web.WebSocketResponse) -> bool:
        """Return whether the first message is the key; close the connection if not."""
        if self._waiting >= MAX_WAITING:
            await tab.close(code=_TRY_LATER_CODE, message=b"too many connections")
            return False
        self._waiting += 1
        try:
            message = await tab.receive(KEY_WITHIN_S)
        except asyncio.TimeoutError:
            message = None
        finally:
            self._waiting -= 1
        if message and message.type is WSMsgType.TEXT and len(message.data) <= KEY_MESSAGE_CHARACTERS:
            name, key = _event(message.data)
            if name == "key" and self._access.accepts(key):
                return True
        await tab.close(code=WRONG_KEY_CODE, message=b"wrong key")
        return False

    async def _started(self, _app: web.Application) -> None:
        self._announce()

    async def _close_tabs(self, _app: web.Application) -> None:
        """Close every connection; its handler then ends the console."""
        await asyncio.gather(*(tab.close(code=_GOING_AWAY_CODE) for tab in self._tabs), return_exceptions=True)


def _file(path: Path, content_type: str) -> _Handler:
    content = path.read_bytes()

    async def answer(_request: web.Request) -> web.StreamResponse:
        return web.Response(body=content, content_type=content_type, charset="utf-8")

    return answer


def _statics() -> Path:
    """Return the directory of textual-serve's scripts, styles and fonts."""
    spec = find_spec("textual_serve")
    assert spec is not None, "serve_console has looked for it"
    assert spec.submodule_search_locations, "it is a package"
    return Path(spec.submodule_search_locations[0]) / "static"


def run_server(command: str, listening: socket.socket, access: AccessControl, announce: Callable[[], None]) -> None:
    """Serve `command`, one process a browser tab, until SIGINT or SIGTERM."""
    for name in _QUIET_LOGGERS:
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)
    app = ConsoleServer(command, access, announce).application()
    web.run_app(app, sock=listening, print=None, access_log=None, shutdown_timeout=CLOSING_S + QUITTING_S + 1)
