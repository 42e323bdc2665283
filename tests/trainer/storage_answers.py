"""A Cloud Storage that answers as a test wants: what the real emulator never does, such as to refuse."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest


@contextmanager
def answering(monkeypatch: pytest.MonkeyPatch, answer: Callable[[str], tuple[int, bytes]]) -> Iterator[None]:
    """Have each GET of a path be answered with a status and a JSON document."""

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
