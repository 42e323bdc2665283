"""Labels of buckets, which fake-gcs-server does not keep: requests about whole buckets are answered here.

They live as long as the proxy, which is as long as the buckets.
"""

from __future__ import annotations

import asyncio
import json
import re
from typing import Any

from tui.localpod.bucket.request_gate import WholeRequest

_BUCKET_PATH = re.compile(r"/storage/v1/b(?:/(?P<name>[^/?]+))?(?:\?.*)?")
_METHODS = ("GET", "POST", "PATCH", "PUT", "DELETE")


def is_about_buckets(method: str, target: str) -> bool:
    """Return whether a request lists, reads or changes buckets, and not what is in them."""
    return method in _METHODS and _BUCKET_PATH.fullmatch(target) is not None


class BucketLabels:
    """The labels by bucket; `answer` asks the server and adds them."""

    def __init__(self) -> None:
        self._labels: dict[str, dict[str, str]] = {}

    async def answer(self, request: WholeRequest, port: int) -> bytes:
        """Return the answer to a request about buckets. Raises OSError if the server at the port gives none."""
        status, body = await _ask_server(request, port)
        code = status.split(b" ", 1)[0]
        document = _parse(body) if code.startswith(b"2") else None
        match = _BUCKET_PATH.fullmatch(request.target)
        name = match["name"] if match else None
        if code.startswith(b"2") and request.method == "DELETE" and name:
            self._labels.pop(name, None)
        if document is not None:
            if request.method in ("POST", "PATCH", "PUT"):
                self._take(document.get("name", ""), _parse(request.body) or {}, is_patch=request.method == "PATCH")
            for bucket in document.get("items", [document]):
                if labels := self._labels.get(bucket.get("name", "")):
                    bucket["labels"] = labels
            body = json.dumps(document).encode()
        head = f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        return b"HTTP/1.1 " + status + b"\r\n" + head.encode() + body

    def _take(self, name: str, document: dict[str, Any], *, is_patch: bool) -> None:
        """Set a bucket's labels from a request; a patch leaves others, and removes those that are null."""
        if is_patch and "labels" not in document:
            return
        before = self._labels.get(name, {}) if is_patch else {}
        after = before | (document.get("labels") or {})
        self._labels[name] = {key: value for key, value in after.items() if value is not None}


async def _ask_server(request: WholeRequest, port: int) -> tuple[bytes, bytes]:
    """Return status (code and phrase) and body of the server's answer."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        head = f"{request.method} {request.target} HTTP/1.0\r\nHost: 127.0.0.1:{port}\r\n"
        head += f"Content-Type: application/json\r\nContent-Length: {len(request.body)}\r\n\r\n"
        writer.write(head.encode() + request.body)
        answer = await reader.read()
    finally:
        writer.close()
    first, _, rest = answer.partition(b"\r\n")
    if b" " not in first:
        raise ConnectionError("not an HTTP answer")
    return first.split(b" ", 1)[1], rest.partition(b"\r\n\r\n")[2]


def _parse(body: bytes) -> dict[str, Any] | None:
    try:
        document = json.loads(body)
    except ValueError:
        return None
    return document if isinstance(document, dict) else None
