"""Read an object of Cloud Storage as one stream of bytes that survives broken connections.

Reading a shard may take minutes, and connections break: reading then continues at the same byte with a new request,
as long as each request brings some bytes.
"""

from __future__ import annotations

import contextlib
import io
import random
import re
import threading
from typing import Any

from requests.exceptions import RequestException
from urllib3.exceptions import HTTPError

from trainer.errors import TrainerError

ATTEMPTS = 9  # in a row without a byte; with the pauses between them about 40 s
FIRST_PAUSE_S = 0.2  # doubled after each, and jittered, so that not all loaders retry at once
LONGEST_PAUSE_S = 60.0  # seconds that a server may ask for
TIMEOUTS_S = (10, 60)  # to connect, and to wait for a byte
PART_BYTES = 1024 * 1024  # most bytes taken from a connection at a time
CONTENT_RANGE = re.compile(r"bytes (\d+)-(\d+)/(\d+)")
TRY_AGAIN = frozenset((408, 429, 500, 502, 503, 504))


class ObjectStream(io.RawIOBase):
    """Reads one generation of an object; raises TrainerError, or the API's error (google.api_core)."""

    def __init__(self, http: Any, address: str, name: str) -> None:
        """Set up with an authorised session, the media URL, and the name for errors."""
        self._http, self._address, self._name = http, address, name
        self._response: Any = None
        self._offset = 0
        self._size: int | None = None
        self._generation: str | None = None
        self._changes = 0  # answers in a row about another generation
        self._server_pause = 0.0  # seconds that the server asks for (Retry-After)
        self._abandoned = threading.Event()

    def readable(self) -> bool:
        """Return True."""
        return True

    @property
    def size(self) -> int | None:
        """Return the object's number of bytes; None before the first byte is read."""
        return self._size

    def read(self, size: int = -1) -> bytes:
        """Return at most `size` of the next bytes, as they arrive; an empty answer means the object's end."""
        return self._next(size) if size >= 0 else self.readall()

    def readinto(self, buffer: Any) -> int:
        """Read into a buffer, and return how many bytes came."""
        content = self._next(len(buffer))
        buffer[: len(content)] = content
        return len(content)

    def readall(self) -> bytes:
        """Return the rest, by the MiB: io's own method takes 8 KiB at a time, which costs more than decoding."""
        parts = []
        while part := self._next(PART_BYTES):
            parts.append(part)
        return b"".join(parts)

    def _next(self, most: int) -> bytes:
        if self._offset == self._size:
            return b""
        problem = ""
        for attempt in range(ATTEMPTS):
            if attempt:
                pause = FIRST_PAUSE_S * 2 ** (attempt - 1) * random.uniform(0.5, 1.0)
                self._abandoned.wait(max(pause, self._server_pause))
            self._server_pause = 0.0
            try:
                if self._response is None and not self._abandoned.is_set():
                    problem = self._request()
                if self._abandoned.is_set():
                    raise TrainerError(f"{self._name} is not read any more")
                if self._response is not None:
                    # Take what has arrived: it would be lost if the connection broke while waiting for the rest.
                    remaining = (self._size or 0) - self._offset  # a broken proxy may send more
                    content: bytes = self._response.raw.read1(min(most, remaining), decode_content=False)
                    if content or not self._size:
                        self._offset += len(content)
                        return content
                    problem = "the connection was closed early"
            except (HTTPError, RequestException, OSError) as error:
                problem = f"{type(error).__name__}: {error}"
            self._drop()
        raise TrainerError(
            f"Cannot read {self._name}",
            why=f"it broke off at byte {self._offset} {ATTEMPTS} times in a row; {problem}",
            remedy="Check the network and the bucket, and start again with --resume auto",
        )

    def abandon(self) -> None:
        """Make a read in another thread raise TrainerError, at once or as soon as an answer begins."""
        self._abandoned.set()
        response = self._response
        if response is not None:
            with contextlib.suppress(OSError, RuntimeError, TypeError, ValueError):  # it is ending just now
                response.raw.shutdown()

    def close(self) -> None:
        """Give the connection back."""
        self._drop()
        super().close()

    def _request(self) -> str:
        """Request the remaining bytes; return what is wrong with the answer if another try may help."""
        from google.api_core.exceptions import from_http_response

        headers = {"Accept-Encoding": "identity", "Range": f"bytes={self._offset}-"}
        response = self._http.get(self._address, headers=headers, stream=True, timeout=TIMEOUTS_S)
        if response.status_code == 416 and not self._offset:  # an empty object has no first byte
            response = self._http.get(self._address, stream=True, timeout=TIMEOUTS_S)
        if response.status_code in TRY_AGAIN:
            retry_after = response.headers.get("Retry-After", "")
            self._server_pause = min(float(retry_after), LONGEST_PAUSE_S) if retry_after.isdecimal() else 0.0
            response.close()
            return f"the answer was {response.status_code}"
        if response.status_code not in (200, 206):
            with response:
                raise from_http_response(response)  # type: ignore[no-untyped-call]
        if self._offset and response.status_code == 200:
            response.close()
            raise TrainerError(f"Cannot continue reading {self._name}", why="the server ignores byte ranges")
        problem = self._validate_response(response)
        if problem:
            response.close()
        else:
            self._response = response
        return problem

    def _validate_response(self, response: Any) -> str:
        """Check size and position, each stated twice, and confirm a change: headers may be cut off themselves."""
        if response.status_code == 206:
            content_range = CONTENT_RANGE.fullmatch(response.headers.get("Content-Range", ""))
            first, last, size = map(int, content_range.groups()) if content_range else (-1, -1, -1)
            if first != self._offset or last + 1 != size:
                return "the answer's header makes no sense"
        else:
            length = response.headers.get("Content-Length", "")
            if not length.isdecimal():
                return "the answer does not state its length"
            size = int(length)
        generation = response.headers.get("x-goog-generation")
        if self._size is not None and (size, generation) != (self._size, self._generation):
            self._changes += 1
            if self._changes < 2:
                return "it is another object than before"
            response.close()
            raise TrainerError(f"{self._name} was overwritten while it was being read", remedy="Start again")
        self._size, self._generation, self._changes = size, generation, 0
        return ""

    def _drop(self) -> None:
        self._response, response = None, self._response
        if response is not None:
            response.close()
