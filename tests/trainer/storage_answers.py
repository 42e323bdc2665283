"""Stand-ins for Cloud Storage that answer as the real emulator never does: refusals and lost answers."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest


@contextmanager
def answering(monkeypatch: pytest.MonkeyPatch, answer: Callable[[str], tuple[int, bytes]]) -> Iterator[None]:
    """Answer each GET request with the status and JSON document that `answer` returns for its path."""

    class Answers(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, content = answer(self.path)
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Answers) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", f"http://127.0.0.1:{server.server_port}")
        try:
            yield
        finally:
            server.shutdown()


class LostAnswers:
    """Switches of a proxy before an object store that drops answers to uploads; the objects are stored."""

    def __init__(self) -> None:
        self.losing = threading.Event()
        """While set, the proxy drops the answers to all uploads."""
        self.lost = threading.Event()
        """Set once the proxy has dropped an answer."""


@contextmanager
def losing_answers(monkeypatch: pytest.MonkeyPatch, store: str) -> Iterator[LostAnswers]:
    """Run such a proxy before an object store, and point every client that is made meanwhile to it."""
    switches = LostAnswers()

    class Forward(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _forward(self) -> None:
            content = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            losing = switches.losing.is_set() and self.command == "POST"
            connection = HTTPConnection(store.removeprefix("http://"))
            connection.request(self.command, self.path, content, dict(self.headers))
            answer = connection.getresponse()
            body = answer.read()
            connection.close()
            if losing:
                self.close_connection = True
                switches.lost.set()
                return
            self.send_response(answer.status)
            for name, value in answer.getheaders():
                if name.lower() not in ("content-length", "transfer-encoding", "connection"):
                    self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_POST = do_DELETE = _forward

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Forward) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", f"http://127.0.0.1:{server.server_port}")
        try:
            yield switches
        finally:
            server.shutdown()
