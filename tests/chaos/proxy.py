"""A TCP proxy whose connections can be cut, as the network between a client and one worker."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator

BLOCK = 64 * 1024


class CutProxy:
    """A proxy to a port of this machine; its connections can be cut with a reset, as by a router."""

    def __init__(self, target: int) -> None:
        self._target = target
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                try:
                    server = socket.create_connection(("127.0.0.1", self._target), timeout=5)
                except OSError:
                    client.close()
                    continue
                server.settimeout(None)
                with self._lock:
                    self._open |= {client, server}
                for source, sink in ((client, server), (server, client)):
                    threading.Thread(target=self._pass, args=(source, sink), daemon=True).start()

    def _pass(self, source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(BLOCK):
                sink.sendall(data)
        self._end(source, sink)

    def _end(self, *sockets: socket.socket) -> None:
        with self._lock:
            for one in sockets:
                if one in self._open:
                    self._open.discard(one)
                    with contextlib.suppress(OSError):
                        one.shutdown(socket.SHUT_RDWR)
                    one.close()

    def cut(self) -> int:
        """Reset every connection, and return the number of sockets."""
        with self._lock:
            doomed = list(self._open)
        for one in doomed:
            with contextlib.suppress(OSError):
                one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        self._end(*doomed)
        return len(doomed)

    def close(self) -> None:
        """Cut every connection and stop listening."""
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut()


@contextlib.contextmanager
def proxies(targets: list[int]) -> Iterator[list[CutProxy]]:
    """Run a proxy for each port until the context ends."""
    made = [CutProxy(target) for target in targets]
    try:
        yield made
    finally:
        for proxy in made:
            proxy.close()
