"""Simulate a slow network on this machine: pass TCP connections on to a server and delay each request.

    python -m trainer.bench_input.latency_proxy 127.0.0.1:4443 20     # milliseconds; prints the port it listens on

Answers go from socket to socket inside the kernel, so that the proxy takes little CPU time from what is measured.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

CHUNK_BYTES = 1024 * 1024  # bytes passed on at a time


class _Connection:
    """A client's connection and its connection to the server."""

    def __init__(self, client: socket.socket, server: socket.socket, delay: float) -> None:
        self._client, self._server, self._delay = client, server, delay
        self._answered = True  # since the last request: the next bytes are a new one

    def serve(self) -> None:
        threading.Thread(target=self._pass_answers, daemon=True).start()
        with contextlib.suppress(OSError):
            while request := self._client.recv(65536):
                if self._answered:
                    self._answered = False
                    time.sleep(self._delay)
                self._server.sendall(request)
        self._end()

    def _pass_answers(self) -> None:
        with contextlib.suppress(OSError):
            for amount in _move_bytes(self._server, self._client):
                self._answered = amount > 0
        self._end()

    def _end(self) -> None:
        for connection in (self._client, self._server):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)


def _move_bytes(source: socket.socket, target: socket.socket) -> Iterator[int]:
    """Move bytes until the source ends; yields how many each time."""
    if not hasattr(os, "splice"):
        while content := source.recv(CHUNK_BYTES):
            target.sendall(content)
            yield len(content)
        return
    out, into = os.pipe()
    with contextlib.suppress(OSError):  # usually permitted for a user's pipes
        fcntl.fcntl(into, fcntl.F_SETPIPE_SZ, CHUNK_BYTES)  # the default is 64 KiB
    try:
        while amount := os.splice(source.fileno(), into, CHUNK_BYTES):
            remaining = amount
            while remaining:
                remaining -= os.splice(out, target.fileno(), remaining)
            yield amount
    finally:
        os.close(out)
        os.close(into)


def serve(listener: socket.socket, server: tuple[str, int], delay: float) -> None:
    """Pass on whatever connects, until the process ends."""
    while True:
        client, _ = listener.accept()
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            onward = socket.create_connection(server)
        except OSError:
            client.close()
            continue
        onward.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        threading.Thread(target=_Connection(client, onward, delay).serve, daemon=True).start()


@contextlib.contextmanager
def slowed(url: str, milliseconds: float) -> Iterator[str]:
    """Yield an address at which a server (`http://host:port`) answers with this delay, through a proxy process."""
    server = url.removeprefix("http://")
    process = subprocess.Popen(
        [sys.executable, "-m", "trainer.bench_input.latency_proxy", server, str(milliseconds)],
        stdout=subprocess.PIPE,
        stdin=subprocess.PIPE,  # its end also ends the proxy
        cwd=Path(__file__).parents[2],
        text=True,
    )
    with process:
        assert process.stdout is not None
        try:
            yield f"http://127.0.0.1:{int(process.stdout.readline())}"
        finally:
            process.kill()


def _main(server: str, milliseconds: str) -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C, which reaches all processes, ends it silently
    host, _, port = server.rpartition(":")
    listener = socket.create_server(("127.0.0.1", 0), backlog=128)
    print(listener.getsockname()[1], flush=True)
    arguments = listener, (host, int(port)), float(milliseconds) / 1000
    threading.Thread(target=serve, args=arguments, daemon=True).start()
    sys.stdin.read()


if __name__ == "__main__":
    _main(*sys.argv[1:])
