"""Code over a slow link travels compressed where that helps: counted in bytes that pass a proxy, not in seconds."""

from __future__ import annotations

import contextlib
import os
import random
import socket
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path

import pytest

from tests.runs.pipes import until
from tests.sshd import OpensshWorker, needs_sshd
from tui.errors import WorkerError
from tui.ssh.fleet import Fleet
from tui.ssh.sync.bundle import read_bundle
from tui.ssh.sync.source_tree import read_tree
from tui.ssh.sync.upload import FIRST, LARGE, SLOW, SyncResult, sync_tree

Start = Callable[..., OpensshWorker]
BLOCK = 16 * 1024
CRAWL = SLOW / 2
"""Bytes per second of a slow link."""
WORDS = (
    "loss",
    "layer",
    "self.weight",
    "return ",
    "def forward(self, x):\n",
    "    ",
    "import torch\n",
    "0.001",
    "# ",
)
pytestmark = needs_sshd


@dataclass
class Link:
    """A TCP proxy to one port that lets `rate` bytes per second of each connection's through, and counts them."""

    target: int
    rate: float
    sent: list[int] = field(default_factory=list)
    """Bytes from the client, a number for each connection."""

    def __post_init__(self) -> None:
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self.listener.getsockname()[1])
        self.threads = [threading.Thread(target=self._accept)]
        self.threads[0].start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self.listener.accept()
                server = socket.create_connection(("127.0.0.1", self.target))
                which = len(self.sent)
                self.sent.append(0)
                for way in ((client, server, which), (server, client, None)):
                    self.threads.append(threading.Thread(target=self._pass, args=way))
                    self.threads[-1].start()

    def _pass(self, source: socket.socket, sink: socket.socket, which: int | None) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(BLOCK):
                if which is not None:
                    self.sent[which] += len(data)
                    time.sleep(len(data) / self.rate)
                sink.sendall(data)
        for end in (source, sink):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
        if which is None:
            source.close()
            sink.close()

    def close(self) -> None:
        """Listen no more, and wait until every connection is over."""
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        for thread in self.threads:
            thread.join()


@contextlib.contextmanager
def link_to(server: OpensshWorker, rate: float) -> Iterator[Link]:
    link = Link(server.port, rate)
    try:
        yield link
    finally:
        link.close()


def _code(root: Path, size: int) -> Path:
    """A tree of so many bytes that read like code, in files short and long."""
    chance = random.Random(3)
    root.mkdir()
    lengths = [20_000] * 20 + [size // 4] * 4
    for number, length in enumerate(lengths):
        text = "".join(chance.choices(WORDS, k=length // 5))
        (root / f"module{number}.py").write_text(text[:length])
    return root


async def _sync(server: OpensshWorker, link: Link, tree: Path, *, workers: int = 1) -> list[tuple[int, int]]:
    """Bring a tree to worker 0 of so many; what was told of its progress. It arrives, and nothing is left over."""
    told: list[tuple[int, int]] = []
    pod = [replace(server.worker, index=index, port=link.port) for index in range(workers)]
    async with Fleet(pod, server.access()) as fleet:
        results = [row async for row in sync_tree(fleet, [0], tree, on_sent=lambda _, *now: told.append(now))]
    hash_ = read_tree(tree).hash
    assert results == [SyncResult(0, hash_, read_tree(tree).bytes, skipped=False)]
    code = server.home / ".tpu-tui/code"
    assert read_tree(code / hash_).hash == hash_
    until(lambda: {path.name for path in code.iterdir()} == {hash_, f"{hash_}.sha256"})
    assert not [now for before, now in pairwise(told) if now[0] < before[0]]
    assert told[-1][0] == told[-1][1]
    return told


async def test_code_over_a_slow_link_is_compressed(sshd: Start, tmp_path: Path) -> None:
    server = sshd(bare=True)
    tree = _code(tmp_path / "tree", 3 * LARGE)
    with link_to(server, CRAWL) as link:
        await _sync(server, link, tree)
    size = read_bundle(tree).size
    assert len(link.sent) == 2
    assert link.sent[0] < min(FIRST, size / 4) * 1.2, "more than the first part went the slow way"
    assert link.sent[1] < size / 2


async def test_a_fast_link_stays_as_it_is(sshd: Start, tmp_path: Path) -> None:
    server = sshd()
    tree = _code(tmp_path / "tree", LARGE)
    with link_to(server, 1e12) as link:
        # Of so many workers' links this one is a sixty-fourth: no busy machine makes it look slow.
        await _sync(server, link, tree, workers=64)
    assert len(link.sent) == 1
    assert link.sent[0] > read_bundle(tree).size


@pytest.mark.parametrize(("reason", "logins"), [("random bytes", 1), ("little", 1), ("a server that does not", 2)])
async def test_what_would_gain_nothing_is_sent_plainly(sshd: Start, tmp_path: Path, reason: str, logins: int) -> None:
    server = sshd(extra=["Compression no"] if reason == "a server that does not" else [])
    tree = _code(tmp_path / "tree", LARGE if reason == "little" else 3 * LARGE)
    # A little code among much that does not shrink: 200 KB are gained, less than a login at a tenth of the rate too.
    stay = {"random bytes": None, "little": 3}.get(reason, 0)
    for path in sorted(tree.iterdir(), key=lambda path: path.stat().st_size, reverse=True)[:stay]:
        path.write_bytes(os.urandom(path.stat().st_size))
    with link_to(server, CRAWL) as link:
        await _sync(server, link, tree)
    assert len(link.sent) == logins
    assert link.sent[0] > read_bundle(tree).size


async def test_a_disk_that_fills_up_meanwhile_is_told_on_either_way(sshd: Start, tmp_path: Path) -> None:
    server = sshd()
    (server.home / ".bashrc").write_text(f"ulimit -f {LARGE // 4096}\n")
    tree = _code(tmp_path / "tree", 8 * LARGE)
    for rate in (CRAWL, 1e12):
        with link_to(server, rate) as link:
            worker = replace(server.worker, port=link.port)
            async with Fleet([worker], server.access()) as fleet:
                (error,) = [row async for row in sync_tree(fleet, [0], tree)]
        assert isinstance(error, WorkerError)
        assert "size limit" in error.why.lower()
        assert list((server.home / ".tpu-tui/code").iterdir()) == []
