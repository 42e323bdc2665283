"""Clients of a bucket, and what its object store has seen of them."""

from __future__ import annotations

import http.client
import json
import socket
from pathlib import Path
from typing import Any

from tui.localpod.bucket.bucket import Bucket

TIMEOUT = 30.0


def connect(bucket: Bucket) -> http.client.HTTPConnection:
    return http.client.HTTPConnection("127.0.0.1", bucket.port, timeout=TIMEOUT)


def ask(
    bucket: Bucket, method: str, path: str, body: Any = None, **headers: str
) -> tuple[http.client.HTTPResponse, bytes]:
    """Send one request; return the answer and its body."""
    connection = connect(bucket)
    try:
        connection.request(method, path, body, {name.replace("_", "-"): value for name, value in headers.items()})
        answer = connection.getresponse()
        return answer, answer.read()
    finally:
        connection.close()


def raw(bucket: Bucket, sent: bytes) -> socket.socket:
    """Send bytes on a new connection, with HOST replaced by the bucket's."""
    made = socket.create_connection(("127.0.0.1", bucket.port), timeout=TIMEOUT)
    made.sendall(sent.replace(b"HOST", f"127.0.0.1:{bucket.port}".encode()))
    return made


def until_closed(made: socket.socket) -> bytes:
    parts = []
    while part := made.recv(1 << 16):
        parts.append(part)
    return b"".join(parts)


def seen(bucket: Bucket, line: str) -> list[dict[str, Any]]:
    """Return the store's records of the requests whose first line begins so."""
    records = json.loads(ask(bucket, "GET", "/seen")[1])
    return [record for record in records if record["line"].startswith(line)]


def store_of(bucket: Bucket) -> int:
    """Return the process of the object store."""
    assert bucket._process is not None
    proxy = bucket._process.pid
    [store] = map(int, Path(f"/proc/{proxy}/task/{proxy}/children").read_text().split())
    return store
