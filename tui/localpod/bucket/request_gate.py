"""Filter of the HTTP/1.1 requests of a connection. Pure: bytes in, bytes out.

It reads only the framing of requests; bodies of any size pass unread.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from http import HTTPStatus
from typing import NamedTuple

MAX_HEAD_BYTES = 1 << 16
_MAX_LINE_BYTES = 1 << 12
"""The longest line of a chunk's size and extensions, or of one trailer."""
MAX_WHOLE_BYTES = 1 << 20
"""The longest body of a request that is taken whole."""
_REQUEST_LINE = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+) (/[^ \r\n]*|\*) HTTP/1\.[01]")
_FIELD = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([^\r\n\0]*?)[ \t]*")
_CHUNK = re.compile(rb"([0-9A-Fa-f]{1,15})[ \t]*(?:;[^\r\n]*)?")
_LENGTH = re.compile(r"[0-9]{1,18}")
_END = b"\r\n\r\n"

Headers = Mapping[str, Sequence[str]]
"""The values of each header, by its name in lower case."""


class Refusal(Exception):
    """A request that is refused and not forwarded; `reason` is one of Google's JSON APIs."""

    def __init__(self, status: HTTPStatus, reason: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason

    def to_bytes(self) -> bytes:
        """Return the answer, in the form of Google's JSON APIs. The connection closes after it."""
        text = str(self)
        errors = [{"message": text, "domain": "global", "reason": self.reason}]
        document = {"error": {"code": self.status.value, "message": text, "errors": errors}}
        body = (json.dumps(document) + "\n").encode()
        asks = 'WWW-Authenticate: Bearer realm="https://accounts.google.com/"\r\n'
        head = (
            f"HTTP/1.1 {self.status.value} {self.status.phrase}\r\nContent-Type: application/json\r\n"
            f"{asks if self.status is HTTPStatus.UNAUTHORIZED else ''}"
            f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
        )
        return head.encode() + body


class WholeRequest(NamedTuple):
    """A request that is answered instead of being forwarded."""

    method: str
    target: str
    body: bytes
    is_last: bool
    """Whether the client expects the connection to close after the answer."""


class RequestGate:
    """Splits a client's bytes into requests and passes the headers of each to `check`, which may raise Refusal.

    A request for which `takes` (of method and target) is true is yielded whole.
    """

    def __init__(
        self, check: Callable[[Headers], None], takes: Callable[[str, str], bool] = lambda _method, _target: False
    ) -> None:
        self._check = check
        self._takes = takes
        self._buffer = b""
        self._body_left = 0
        self._read: Callable[[], bytes | WholeRequest | None] = self._read_head

    def feed(self, data: bytes) -> Iterator[bytes | WholeRequest]:
        """Yield the bytes that may be forwarded, in order. Raises Refusal for a request that may not."""
        self._buffer = self._buffer + data if self._buffer else data
        while self._buffer:
            if self._body_left:
                yield self._take(min(self._body_left, len(self._buffer)), of_body=True)
            elif (part := self._read()) is not None:
                yield part
            else:
                return

    def _take(self, size: int, *, of_body: bool = False) -> bytes:
        data, self._buffer = (self._buffer, b"") if size == len(self._buffer) else self._cut(size)
        if of_body:
            self._body_left -= size
        return data

    def _cut(self, size: int) -> tuple[bytes, bytes]:
        return self._buffer[:size], self._buffer[size:]

    def _read_head(self) -> bytes | WholeRequest | None:
        end = self._buffer.find(_END, 0, MAX_HEAD_BYTES)
        if end < 0:
            if len(self._buffer) >= MAX_HEAD_BYTES:
                raise _bad("the head of the request is too long")
            return None
        headers = _headers(self._buffer[:end])
        self._check(headers)
        method, target = self._buffer[:end].decode("latin-1").split(" ", 2)[:2]
        if "transfer-encoding" not in headers and self._takes(method, target):
            return self._read_whole(end + len(_END), headers, method, target)
        self._expect_body(headers, is_old=self._buffer.partition(b"\r\n")[0].endswith(b" HTTP/1.0"))
        return self._take(end + len(_END))

    def _read_whole(self, start: int, headers: Headers, method: str, target: str) -> WholeRequest | None:
        lengths = headers.get("content-length", ("0",))
        if len(lengths) != 1 or not _LENGTH.fullmatch(lengths[0]) or int(lengths[0]) > MAX_WHOLE_BYTES:
            raise _bad("the length of the body is not a number, or too large")
        end = start + int(lengths[0])
        if len(self._buffer) < end:
            return None
        is_old = self._buffer.partition(b"\r\n")[0].endswith(b" HTTP/1.0")
        options = [option.strip().lower() for value in headers.get("connection", ()) for option in value.split(",")]
        is_last = "close" in options or (is_old and "keep-alive" not in options)
        return WholeRequest(method, target, self._take(end)[start:], is_last)

    def _expect_body(self, headers: Headers, *, is_old: bool) -> None:
        codings, lengths = headers.get("transfer-encoding", ()), headers.get("content-length", ())
        if codings and (is_old or lengths or [coding.lower() for coding in codings] != ["chunked"]):
            raise _bad("the length of the body cannot be known")
        if codings:
            self._read = self._read_chunk
        elif lengths:
            if len(lengths) != 1 or not _LENGTH.fullmatch(lengths[0]):
                raise _bad("Content-Length is not a number")
            self._body_left = int(lengths[0])

    def _line(self) -> bytes | None:
        end = self._buffer.find(b"\r\n", 0, _MAX_LINE_BYTES)
        if end < 0 and len(self._buffer) >= _MAX_LINE_BYTES:
            raise _bad("a line between the chunks is too long")
        return self._take(end + 2) if end >= 0 else None

    def _read_chunk(self) -> bytes | None:
        line = self._line()
        if line is None:
            return None
        match = _CHUNK.fullmatch(line[:-2])
        if match is None:
            raise _bad("the size of a chunk is not a number")
        size = int(match[1], 16)
        self._body_left = size
        self._read = self._read_chunk_end if size else self._read_trailer
        return line

    def _read_chunk_end(self) -> bytes | None:
        if len(self._buffer) < len(b"\r\n"):
            return None
        if not self._buffer.startswith(b"\r\n"):
            raise _bad("a chunk is longer than its stated size")
        self._read = self._read_chunk
        return self._take(2)

    def _read_trailer(self) -> bytes | None:
        line = self._line()
        if line == b"\r\n":
            self._read = self._read_head
        elif line is not None and not _FIELD.fullmatch(line[:-2]):
            raise _bad("a trailer is malformed")
        return line


def _headers(head: bytes) -> Headers:
    """Return a request's headers. Raises Refusal for headers that servers could read in different ways."""
    first, *lines = head.split(b"\r\n")
    if not _REQUEST_LINE.fullmatch(first):
        raise _bad("it is not a request for a path of this server")
    headers: dict[str, list[str]] = {}
    for line in lines:
        match = _FIELD.fullmatch(line)
        if match is None:
            raise _bad("a header is malformed")
        headers.setdefault(match[1].decode().lower(), []).append(match[2].decode("latin-1"))
    return headers


def _bad(why: str) -> Refusal:
    return Refusal(HTTPStatus.BAD_REQUEST, "badRequest", f"The request is refused: {why}.")
