"""An HTTP server that takes the place of the object store behind a bucket's proxy and records what reaches it.

The proxy starts this file as a program. Paths: `/seen` returns the records, `/stall` takes no body until `/go on` is
requested, `/endless` sends without end, `/wait` answers nothing and reads on, `/break` ends in the middle of its
body, `/answers/KIND` has answers of special forms; any other path returns its own record.
"""

from __future__ import annotations

import gzip
import json
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

PLAIN = b"the content of an object, twice: the content of an object" * 20
ZIPPED = gzip.compress(PLAIN, mtime=0)
BLOCK = bytes(1 << 16)
STALL_SECONDS = 60.0
BUCKETS = "/storage/v1/b?project=local"
BUCKET_LINES = (f"GET {BUCKETS} ", f"POST {BUCKETS} ")


def make_program(path: Path) -> Path:
    """Write an executable that runs this file; return it."""
    path.write_text(f"#!/bin/sh\nexec '{sys.executable}' -I '{__file__}' \"$@\"\n")
    path.chmod(0o755)
    return path


class Store(ThreadingHTTPServer):
    """The server with its records, one for each request about anything else than buckets."""

    daemon_threads = True

    def __init__(self, port: int) -> None:
        self.records: list[dict[str, Any]] = []
        self.go_on = threading.Event()
        super().__init__(("127.0.0.1", port), Answers)

    def handle_error(self, *_: Any) -> None:
        """Print nothing: a lost connection is a part of the tests."""


class Answers(BaseHTTPRequestHandler):
    """The requests of one connection."""

    server: Store
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: Any) -> None:
        """Print nothing."""

    def answer(self) -> None:
        line = self.requestline
        headers = [list(pair) for pair in self.headers.items()]
        self.record = {"line": line, "headers": headers, "received": 0, "sent": 0, "is_whole": False}
        if line.startswith(BUCKET_LINES):
            self.receive()
            self.send_whole(b'{"items": []}')
        elif self.path == "/seen":
            self.send_whole(json.dumps(self.server.records).encode())
        else:
            self.server.records.append(self.record)
            self.answer_recorded()

    do_GET = do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = do_OPTIONS = do_PROPFIND = answer

    def answer_recorded(self) -> None:
        if self.path == "/stall":
            self.server.go_on.wait(STALL_SECONDS)
        if self.path == "/go%20on":
            self.server.go_on.set()
        self.receive()
        if self.path == "/endless":
            self.send_without_end()
        elif self.path == "/break":
            self.send_head(200, ("Content-Length", "1000000"))
            self.wfile.write(BLOCK)
            self.wfile.flush()
            time.sleep(0.1)
            self.close_connection = True
        elif self.path == "/wait":
            self.record["after"] = self.rfile.read(1).decode()
        elif self.path == "/late":
            time.sleep(0.5)
            self.send_whole(b"late")
        elif self.path.startswith("/answers/"):
            self.send_special(self.path.removeprefix("/answers/"))
        else:
            self.send_whole(json.dumps(self.record).encode())

    def receive(self) -> None:
        """Read the body, with its count in the record; a body that ends early leaves it not whole."""
        if self.headers["Transfer-Encoding"]:
            while size := int(self.rfile.readline(), 16):
                self.record["received"] += len(self.rfile.read(size))
                self.rfile.readline()
            while self.rfile.readline() not in (b"\r\n", b""):
                pass
        else:
            left = int(self.headers["Content-Length"] or 0)
            while left and (part := self.rfile.read1(min(left, len(BLOCK)))):
                left -= len(part)
                self.record["received"] += len(part)
                if self.path == "/keep":
                    self.record["body"] = self.record.get("body", "") + part.decode("latin-1")
            if left:
                self.record["receiving"] = "broken off"
                raise ConnectionError("the body ended early")
        self.record["is_whole"] = True

    def send_without_end(self) -> None:
        self.send_head(200, ("Content-Length", str(1 << 40)))
        try:
            while True:
                self.wfile.write(BLOCK)
                self.record["sent"] += len(BLOCK)
        except OSError:
            self.record["sending"] = "broken off"
            raise

    def send_special(self, kind: str) -> None:
        if kind == "gzip":
            self.send_head(200, ("Content-Encoding", "gzip"), ("Content-Length", str(len(ZIPPED))))
            self.wfile.write(ZIPPED if self.command != "HEAD" else b"")
        elif kind == "chunked" and self.request_version == "HTTP/1.1":
            self.send_head(200, ("Transfer-Encoding", "chunked"))
            for part in (PLAIN, ZIPPED):
                self.wfile.write(b"%x\r\n%s\r\n" % (len(part), part))
            self.wfile.write(b"0\r\n\r\n")
        elif kind == "chunked":
            self.send_head(200, ("Connection", "close"))
            self.wfile.write(PLAIN + ZIPPED)
            self.close_connection = True
        elif kind == "resume":
            self.send_response_only(308, "Resume Incomplete")
            self.send_head(None, ("Range", "bytes=0-41"), ("Content-Length", "0"))
        elif kind == "moved":
            self.send_head(302, ("Location", "http://elsewhere.example/x"), ("Content-Length", "0"))
        else:
            hashes = [("X-Goog-Hash", value) for value in ("crc32c=AAAAAA==", "md5=1B2M2Y8AsgTpgAmY7PhCfg==")]
            self.send_head(404, ("Content-Length", "2"), ("Set-Cookie", "a=b"), ("Content-Type", "x/y"), *hashes)
            self.wfile.write(b"no")

    def send_head(self, status: int | None, *headers: tuple[str, str]) -> None:
        if status is not None:
            self.send_response_only(status)
        for name, value in headers:
            self.send_header(name, value)
        self.end_headers()

    def send_whole(self, body: bytes) -> None:
        self.send_head(200, ("Content-Type", "application/json"), ("Content-Length", str(len(body))))
        self.wfile.write(body if self.command != "HEAD" else b"")


if __name__ == "__main__":
    Store(int(sys.argv[sys.argv.index("-port") + 1])).serve_forever()
