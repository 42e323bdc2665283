"""The bucket's proxy: only requests of the pod's owner reach the object store, which has no authentication.

`python -m tui.localpod.bucket.bucket_proxy FD`: FD is the listening socket; the first line on standard input is a
JSON document: `command` (that of the server, without its port), `authority`, `token`, `isolate`. Where possible, the
server starts in its own network namespace, where only this process can reach its port. One line of JSON on standard
output says whether that worked: `{"refusal": null}`. The end of standard input ends the proxy and the server.

A request must carry the token, or its connection must belong to a process of the owner: with `STORAGE_EMULATOR_HOST`,
Cloud Storage's clients are anonymous.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import sys
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from http import HTTPStatus
from weakref import WeakKeyDictionary

from aiohttp import (
    ClientError,
    ClientResponse,
    ClientSession,
    ClientTimeout,
    DummyCookieJar,
    HttpVersion11,
    StreamReader,
    TCPConnector,
    hdrs,
    web,
)
from yarl import URL

from tui.localpod.api.authentication import NotTheOwner, check_site, check_token
from tui.localpod.bucket.bucket_labels import BucketLabels, is_about_buckets
from tui.localpod.bucket.network_namespace import enter_namespace, refusal_reason
from tui.localpod.bucket.socket_owner import SocketOwners
from tui.procs.child_signals import kill_child

_TRIES = 5
"""Attempts to start the server: a free port can be taken before the server binds it."""
_BUCKETS = "/storage/v1/b?project=local"
_POLL_INTERVAL_S = 0.02
_LINGER_S = 2.0
"""How long a refused client may continue to send. If the connection closed at once, it would not get the answer."""
_HOP_BY_HOP = frozenset(("connection", "expect", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade"))
"""Headers about one connection, which are not forwarded (RFC 9110, section 7.6.1)."""
_ADDED = (hdrs.ACCEPT, hdrs.ACCEPT_ENCODING, hdrs.CONTENT_TYPE, hdrs.USER_AGENT)
"""Headers that aiohttp adds to a request that lacks them. Accept-Encoding would change what the server sends."""
_ANSWERS = {
    "UNAUTHENTICATED": (HTTPStatus.UNAUTHORIZED, "required"),
    "PERMISSION_DENIED": (HTTPStatus.FORBIDDEN, "forbidden"),
}
"""Status and reason of a refusal by Cloud Storage's JSON API."""


class Refusal(Exception):
    """A request that is refused and not forwarded; `reason` is an error reason of Google's JSON APIs."""

    def __init__(self, status: HTTPStatus, reason: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason

    def to_response(self) -> web.Response:
        """Return the answer, in the form of Google's JSON APIs. The connection closes after it."""
        text = str(self)
        errors = [{"message": text, "domain": "global", "reason": self.reason}]
        document = {"error": {"code": self.status.value, "message": text, "errors": errors}}
        response = web.json_response(document, status=self.status)
        if self.status is HTTPStatus.UNAUTHORIZED:
            response.headers[hdrs.WWW_AUTHENTICATE] = 'Bearer realm="https://accounts.google.com/"'
        response.force_close()
        return response


_UNAVAILABLE = Refusal(HTTPStatus.SERVICE_UNAVAILABLE, "backendError", "The object store is not running.")
_MALFORMED = Refusal(HTTPStatus.BAD_REQUEST, "badRequest", "The request's body is malformed.")


class OwnerCheck:
    """Decides which requests are the owner's."""

    def __init__(self, authority: str, token: str, sockets: SocketOwners) -> None:
        self._authority = authority
        self._token = token
        self._sockets = sockets
        self._owner = os.geteuid()
        self._is_owners: WeakKeyDictionary[asyncio.Transport, bool] = WeakKeyDictionary()
        """Whether a process of the pod's owner held the other end of a connection at its first request."""

    def check(self, request: web.BaseRequest) -> None:
        """Raise Refusal for a request that is not the owner's, or not for a path of the server."""
        try:
            check_site(self._authority, request.headers, any_port=True)
            if not self._is_from_owner(request.transport):
                check_token(self._token, request.headers.getall(hdrs.AUTHORIZATION, []))
        except NotTheOwner as error:
            raise Refusal(*_ANSWERS[error.code], str(error)) from None
        if not request.raw_path.startswith("/"):
            raise Refusal(HTTPStatus.BAD_REQUEST, "badRequest", "The request is not for a path of this server.")

    def _is_from_owner(self, transport: asyncio.Transport | None) -> bool:
        if transport is None:
            return False
        if transport not in self._is_owners:
            client, server = transport.get_extra_info("peername"), transport.get_extra_info("sockname")
            is_owners = bool(client and server) and self._sockets.uid_of(client[:2], server[:2]) == self._owner
            self._is_owners[transport] = is_owners
        return self._is_owners[transport]


class StoreProxy:
    """Forwards the owner's requests to the server on `port`, and adds the buckets' labels to its answers."""

    def __init__(self, owner_check: OwnerCheck, session: ClientSession, port: int) -> None:
        self._owner_check = owner_check
        self._session = session
        self._port = port
        self._labels = BucketLabels()

    async def answer(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer a request. Abort the connection if the server breaks off its answer, which would look complete."""
        response = web.StreamResponse()
        try:
            self._owner_check.check(request)
            if request.version >= HttpVersion11 and hdrs.EXPECT in request.headers:
                await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            if is_about_buckets(request.method, request.raw_path):
                return await self._answer_with_labels(request)
            await self._forward(request, response)
        except Refusal as refused:
            return refused.to_response()
        except ClientError:
            if not response.prepared:
                return (_UNAVAILABLE if request.content.exception() is None else _MALFORMED).to_response()
            if request.transport is not None:
                request.transport.abort()
        return response

    async def _forward(self, request: web.BaseRequest, response: web.StreamResponse) -> None:
        """Pass the request's body to the server and the server's answer to the client, as they arrive."""
        async with self._send(request, request.content if request.body_exists else None) as answer:
            response.set_status(answer.status, answer.reason)
            response.headers.extend(_end_to_end(answer.headers))
            await response.prepare(request)
            async for part in answer.content.iter_any():
                await response.write(part)

    async def _answer_with_labels(self, request: web.BaseRequest) -> web.Response:
        body = await request.read()
        async with self._send(request, body) as answer:
            content = await answer.read()
        if answer.ok:
            content = self._labels.add_to(content, request.method, request.raw_path, body)
        return web.Response(status=answer.status, reason=answer.reason, body=content, content_type="application/json")

    def _send(
        self, request: web.BaseRequest, body: StreamReader | bytes | None
    ) -> AbstractAsyncContextManager[ClientResponse]:
        """Send the request to the server, with exactly the same target."""
        path, _, query = request.raw_path.partition("?")
        url = URL.build(scheme="http", host="127.0.0.1", port=self._port, path=path, query_string=query, encoded=True)
        headers = _end_to_end(request.headers)
        return self._session.request(request.method, url, headers=headers, data=body, allow_redirects=False)


def _end_to_end(headers: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return the headers that are forwarded."""
    return [(name, value) for name, value in headers.items() if name.lower() not in _HOP_BY_HOP]


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


async def _start_server(command: Sequence[str], session: ClientSession) -> tuple[asyncio.subprocess.Process, int]:
    """Start the object store on a free port and wait until it listens. Raises OSError if it never does."""
    for _ in range(_TRIES):
        port = _free_port()
        arguments = [*command, "-host", "127.0.0.1", "-port", str(port)]
        process = await asyncio.create_subprocess_exec(
            *arguments, stdin=asyncio.subprocess.DEVNULL, stdout=sys.stderr
        )
        while process.returncode is None:
            if await _is_ready(session, port) and process.returncode is None:
                return process, port
            await asyncio.sleep(_POLL_INTERVAL_S)
    raise OSError("the object store did not start")


async def _is_ready(session: ClientSession, port: int) -> bool:
    """Return whether an object store answers on the port, which another process may have taken."""
    try:
        async with session.get(f"http://127.0.0.1:{port}{_BUCKETS}") as answer:
            return answer.ok
    except ClientError:
        return False


async def _serve(listener: socket.socket, command: Sequence[str], owner_check: OwnerCheck) -> None:
    async with ClientSession(
        connector=TCPConnector(limit=0),
        cookie_jar=DummyCookieJar(),
        skip_auto_headers=_ADDED,
        auto_decompress=False,
        timeout=ClientTimeout(total=None),
    ) as session:
        process, port = await _start_server(command, session)
        try:
            server = web.Server(
                StoreProxy(owner_check, session, port).answer,
                handler_cancellation=True,
                auto_decompress=False,
                access_log=None,
                lingering_time=_LINGER_S,
            )
            await asyncio.get_running_loop().create_server(server, sock=listener)
            await _end_of_input()
        finally:
            kill_child(process)
            await process.wait()


async def _end_of_input() -> None:
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    while await reader.read(1):
        pass


def main() -> None:
    """Serve the socket whose file descriptor is the argument."""
    listener = socket.socket(fileno=int(sys.argv[1]))
    os.set_inheritable(listener.fileno(), False)
    with open(0, "rb", buffering=0, closefd=False) as stdin:
        config = json.loads(stdin.readline())
    owner_check = OwnerCheck(config["authority"], config["token"], SocketOwners())
    why = refusal_reason() if config["isolate"] else "isolation is switched off"
    if why is None:
        enter_namespace()
    print(json.dumps({"refusal": why}), flush=True)
    asyncio.run(_serve(listener, config["command"], owner_check))


if __name__ == "__main__":
    main()
