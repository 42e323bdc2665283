"""The bucket's proxy: only requests of the pod's owner reach the object store, which has no authentication.

`python -m tui.localpod.bucket.bucket_proxy FD`: FD is the listening socket; the first line on standard input is a
JSON document: `command` (the server's, without its port), `authority`, `token`, `isolate`. Where
possible, the server starts in a network namespace of its own: only this process reaches its port then. One line of
JSON on standard output says whether that worked: `{"refusal": null}`. The end of standard input ends both.

A request must carry the token, or its connection must belong to a process of the owner: with `STORAGE_EMULATOR_HOST`,
Cloud Storage's clients are anonymous.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import sys
from collections.abc import Sequence
from http import HTTPStatus
from typing import cast

from tui.localpod.api.owner import NotTheOwner, check_site, check_token
from tui.localpod.bucket.bucket_labels import BucketLabels, is_about_buckets
from tui.localpod.bucket.network_namespace import enter_namespace, refusal_reason
from tui.localpod.bucket.request_gate import Headers, Refusal, RequestGate, WholeRequest
from tui.localpod.bucket.socket_owner import SocketOwners

_TRIES = 5
"""Attempts to start the server: a free port can be taken before the server binds it."""
_BUCKETS = "/storage/v1/b?project=local"
_LOOK_SECONDS = 0.02
_LINGER_SECONDS = 2.0
"""How long a refused client may go on sending: if the connection closed at once, it would not get the answer."""
_ANSWERS = {
    "UNAUTHENTICATED": (HTTPStatus.UNAUTHORIZED, "required"),
    "PERMISSION_DENIED": (HTTPStatus.FORBIDDEN, "forbidden"),
}
"""Status and reason of a refusal by Cloud Storage's JSON API."""
_UNAVAILABLE = Refusal(HTTPStatus.SERVICE_UNAVAILABLE, "backendError", "The object store is not running.")


class OwnerCheck:
    """The rules for requests, and the server's port."""

    def __init__(self, authority: str, token: str, sockets: SocketOwners) -> None:
        self.port = 0
        self._authority = authority
        self._token = token
        self._sockets = sockets
        self._owner = os.geteuid()

    def is_owners(self, transport: asyncio.Transport) -> bool:
        """Return whether a process of the pod's owner holds the other end of the connection."""
        client, server = transport.get_extra_info("peername"), transport.get_extra_info("sockname")
        return bool(client and server) and self._sockets.uid_of(client[:2], server[:2]) == self._owner

    def check(self, headers: Headers, is_owners: bool) -> None:
        """Raise Refusal for a request that is not the owner's own."""
        hosts, origins, sites = (headers.get(name, ()) for name in ("host", "origin", "sec-fetch-site"))
        authorizations = headers.get("authorization", ())
        try:
            check_site(self._authority, hosts, origins, sites, any_port=True)
            if not is_owners:
                check_token(self._token, authorizations)
        except NotTheOwner as error:
            raise Refusal(*_ANSWERS[error.code], str(error)) from None


class _Client(asyncio.Protocol):
    """A client's connection; the one to the server opens with the first request that is allowed."""

    def __init__(self, owner_check: OwnerCheck, labels: BucketLabels) -> None:
        self._owner_check = owner_check
        self._labels = labels
        self._gate = RequestGate(self._check, is_about_buckets)
        self._is_owners: bool | None = None
        self._waiting: list[bytes] = []
        self._opening: asyncio.Task[None] | None = None
        self._answering: asyncio.Task[None] | None = None
        self._is_refused = False
        self._is_at_end = False
        self._server: _Server | None = None
        self.transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def _check(self, headers: Headers) -> None:
        if self._is_owners is None:
            self._is_owners = self._owner_check.is_owners(self.transport)
        self._owner_check.check(headers, self._is_owners)

    def data_received(self, data: bytes) -> None:
        if self._is_refused:
            return
        try:
            for part in self._gate.feed(data):
                if isinstance(part, WholeRequest):
                    self.transport.pause_reading()
                    self._answering = asyncio.ensure_future(self._answer(part))
                    return
                self._forward(part)
        except Refusal as refused:
            self.refuse(refused)

    async def _answer(self, request: WholeRequest) -> None:
        """Answer a request about buckets, then go on with what the client has sent after it."""
        try:
            answer = await self._labels.answer(request, self._owner_check.port)
        except OSError:
            self.refuse(_UNAVAILABLE)
            return
        self._answering = None
        if self.transport.is_closing():
            return
        self.transport.write(answer)
        if request.is_last or (self._is_at_end and self._opening is None):
            self.transport.close()
        else:
            self.transport.resume_reading()
            self.data_received(b"")

    def _forward(self, part: bytes) -> None:
        if self._server is not None:
            self._server.transport.write(part)
            return
        self._waiting.append(part)
        if self._opening is None:
            self.transport.pause_reading()
            self._opening = asyncio.ensure_future(self._open())

    async def _open(self) -> None:
        """Connect to the server and forward the data that waits."""
        loop = asyncio.get_running_loop()
        try:
            _, server = await loop.create_connection(lambda: _Server(self), "127.0.0.1", self._owner_check.port)
        except OSError:
            self.refuse(_UNAVAILABLE)
            return
        self._server = server
        if self.transport.is_closing() or self._is_refused:
            server.transport.abort()
            return
        server.transport.writelines(self._waiting)
        self._waiting.clear()
        if self._is_at_end:
            server.transport.write_eof()
        elif not server.is_full:
            self.transport.resume_reading()

    def refuse(self, refused: Refusal) -> None:
        """Answer with the refusal, and discard what the client still sends until it has read the answer."""
        self._is_refused = True
        if self._server is not None:
            self._server.transport.abort()
        if not self.transport.is_closing():
            self.transport.write(refused.to_bytes())
            self.transport.write_eof()
            self.transport.resume_reading()
            asyncio.get_running_loop().call_later(_LINGER_SECONDS, self.transport.abort)

    def eof_received(self) -> bool:
        self._is_at_end = True
        if self._server is not None and not self._server.transport.is_closing():
            self._server.transport.write_eof()
        return (self._opening or self._answering) is not None and not self._is_refused

    def server_lost(self) -> None:
        """Close once the client has received everything that the server sent."""
        if not self._is_refused:
            self.transport.close()

    def pause_writing(self) -> None:
        if self._server is not None:
            self._server.pause_reading()

    def resume_writing(self) -> None:
        if self._server is not None:
            self._server.resume_reading()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's name
        if self._server is not None:
            self._server.transport.close()


class _Server(asyncio.Protocol):
    """The connection to the server; every byte it sends goes to the client."""

    def __init__(self, client: _Client) -> None:
        self._client = client
        self.is_full = False
        """Whether it takes nothing more for now."""
        self.transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self._client.transport.write(data)

    def pause_reading(self) -> None:
        """Stop reading from the server until the client has taken what was sent."""
        if not self.transport.is_closing():
            self.transport.pause_reading()

    def resume_reading(self) -> None:
        """Read from the server again."""
        if not self.transport.is_closing():
            self.transport.resume_reading()

    def pause_writing(self) -> None:
        self.is_full = True
        if not self._client.transport.is_closing():
            self._client.transport.pause_reading()

    def resume_writing(self) -> None:
        self.is_full = False
        if not self._client.transport.is_closing():
            self._client.transport.resume_reading()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's name
        self._client.server_lost()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


async def _start_server(command: Sequence[str]) -> tuple[asyncio.subprocess.Process, int]:
    """Start the object store on a free port and wait until it listens. Raises OSError if it never does."""
    for _ in range(_TRIES):
        port = _free_port()
        arguments = [*command, "-host", "127.0.0.1", "-port", str(port)]
        process = await asyncio.create_subprocess_exec(
            *arguments, stdin=asyncio.subprocess.DEVNULL, stdout=sys.stderr
        )
        while process.returncode is None:
            if await _answers(port) and process.returncode is None:
                return process, port
            await asyncio.sleep(_LOOK_SECONDS)
    raise OSError("the object store did not start")


async def _answers(port: int) -> bool:
    """Return whether an object store listens on the port; another process may have taken it."""
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return False
    try:
        writer.write(f"GET {_BUCKETS} HTTP/1.0\r\nHost: 127.0.0.1:{port}\r\n\r\n".encode())
        return b" 200 " in await reader.readline()
    except OSError:
        return False
    finally:
        writer.close()


async def _serve(listener: socket.socket, command: Sequence[str], owner_check: OwnerCheck) -> None:
    process, owner_check.port = await _start_server(command)
    labels = BucketLabels()
    try:
        server = await asyncio.get_running_loop().create_server(lambda: _Client(owner_check, labels), sock=listener)
        async with server:
            await _end_of_input()
    finally:
        process.kill()
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
