"""Tests of reading from the real object store through a proxy that cuts, refuses and delays as networks do."""

from __future__ import annotations

import re
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
import requests

pytestmark = pytest.mark.timing

pytest.importorskip("torch", reason="torch is not installed")

from trainer.errors import TrainerError
from trainer.storage import objects, resumable_stream

BUSY = b"HTTP/1.1 429 Too Many Requests\r\nRetry-After: 1\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"


class CuttingProxy:
    """A proxy that passes at most `allowances` bytes of each answer, then cuts the connection."""

    def __init__(self, server: str) -> None:
        self.server = server
        host, port = server.removeprefix("http://").split(":")
        self._address = (host, int(port))
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self.allowances: list[int] = []  # bytes, one item for each media request; later requests pass whole
        self.ranges: list[str] = []  # the Range header of each media request
        self.lost = 0  # number of uploads whose answers are dropped
        self.busy = 0.0  # seconds from the first media request in which the proxy answers 429
        self._first = 0.0
        threading.Thread(target=self._serve, daemon=True).start()

    def close(self) -> None:
        self._listener.close()

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._connection, args=(client,), daemon=True).start()

    def _connection(self, client: socket.socket) -> None:
        with suppress(OSError), client, socket.create_connection(self._address) as server:
            while request := self._request(client):
                media = b"alt=media" in request.split(b"\r\n")[0]
                allowance: float = float("inf")
                if media:
                    found = re.search(rb"\r\n[Rr]ange: (.*?)\r\n", request)
                    self.ranges.append(found[1].decode() if found else "")
                    allowance = self.allowances.pop(0) if self.allowances else allowance
                    self._first = self._first or time.monotonic()
                    if time.monotonic() < self._first + self.busy:
                        client.sendall(BUSY)
                        return
                server.sendall(request.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n", 1))
                if self.lost and request.startswith(b"POST"):
                    self.lost -= 1
                    server.recv(1)  # by then the server has done it
                    return
                while allowance > 0 and (answer := server.recv(min(65536, int(min(allowance, 65536))))):
                    client.sendall(answer)
                    allowance -= len(answer)
                return

    @staticmethod
    def _request(client: socket.socket) -> bytes:
        request = b""
        while b"\r\n\r\n" not in request and (part := client.recv(65536)):
            request += part
        header, _, body = request.partition(b"\r\n\r\n")
        reported = re.search(rb"(?i)\r\ncontent-length: (\d+)", header)
        while reported and len(body) < int(reported[1]) and (part := client.recv(65536)):
            body, request = body + part, request + part
        return request


@pytest.fixture
def proxy(object_store: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[CuttingProxy]:
    running = CuttingProxy(object_store)
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", running.url)
    monkeypatch.setattr(resumable_stream, "FIRST_PAUSE_S", 0.001)
    yield running
    running.close()


def write_without_proxy(proxy: CuttingProxy, url: str, content: bytes) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("STORAGE_EMULATOR_HOST", proxy.server)
        objects.write(url, content)


@pytest.fixture(scope="module")
def content(object_store: str) -> bytes:
    made = bytes(range(256)) * 4000  # about 1 MB
    objects.write("gs://trainer-test/long", made)
    objects.write("gs://trainer-test/empty", b"")
    return made


def test_an_object_comes_whole_with_one_request(proxy: CuttingProxy, content: bytes) -> None:
    assert objects.read("gs://trainer-test/long") == content
    assert proxy.ranges == ["bytes=0-"]


def test_reading_continues_at_the_byte_where_a_connection_broke(proxy: CuttingProxy, content: bytes) -> None:
    proxy.allowances = [200_000, 0, 300_000, 100]
    assert objects.read("gs://trainer-test/long") == content
    starts = [int(range_.removeprefix("bytes=").rstrip("-")) for range_ in proxy.ranges]
    assert len(starts) == 5
    assert starts[0] == 0
    assert 150_000 < starts[1] <= 200_000
    assert starts[2] == starts[1]
    assert starts[2] + 250_000 < starts[3] <= starts[2] + 300_000
    assert starts[4] == starts[3]  # a hundred bytes are less than the answer's header


def test_reading_an_object_without_progress_is_given_up_with_the_byte_named(
    proxy: CuttingProxy, content: bytes
) -> None:
    proxy.allowances = [100_000, *[0] * 50]
    with pytest.raises(TrainerError, match=r"Cannot read gs://trainer-test/long: it broke off at byte \d{5} 9 times"):
        objects.read("gs://trainer-test/long")


def test_the_pause_that_a_bucket_asks_for_is_kept(proxy: CuttingProxy, content: bytes) -> None:
    proxy.busy = 0.9  # the reader's own pauses are a few milliseconds here
    assert objects.read("gs://trainer-test/long") == content


def test_what_a_server_sends_beyond_the_objects_end_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resumable_stream, "FIRST_PAUSE_S", 0.001)
    header = b"HTTP/1.1 206 Partial Content\r\nContent-Range: bytes 0-9/10\r\nContent-Length: 15\r\n\r\n"

    def answer() -> None:
        with suppress(OSError):
            while True:
                client, _ = listener.accept()
                with client:
                    client.recv(65536)
                    client.sendall(header + b"0123456789and so")

    with socket.create_server(("127.0.0.1", 0)) as listener, requests.Session() as http:
        threading.Thread(target=answer, daemon=True).start()
        address = f"http://127.0.0.1:{listener.getsockname()[1]}/"
        with resumable_stream.ObjectStream(http, address, "the object") as stream:
            assert stream.readall() == b"0123456789"
        listener.shutdown(socket.SHUT_RDWR)


def test_an_object_that_is_overwritten_while_it_is_read_is_an_error(proxy: CuttingProxy, content: bytes) -> None:
    write_without_proxy(proxy, "gs://trainer-test/changing", content)
    proxy.allowances = [200_000]
    with objects.open_stream("gs://trainer-test/changing") as stream:
        stream.read(1000)
        write_without_proxy(proxy, "gs://trainer-test/changing", content[:-1])
        with pytest.raises(TrainerError, match="gs://trainer-test/changing was overwritten while it was being read"):
            stream.read()


def test_an_empty_object_is_empty_and_a_missing_one_is_named(proxy: CuttingProxy, content: bytes) -> None:
    assert objects.read("gs://trainer-test/empty") == b""
    with pytest.raises(TrainerError, match="There is no object gs://trainer-test/none"):
        objects.read("gs://trainer-test/none")


def test_a_new_object_whose_answer_was_lost_is_recognised_as_its_writers_own(
    proxy: CuttingProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    from google.cloud.storage import retry

    monkeypatch.setattr(retry, "DEFAULT_RETRY", retry.DEFAULT_RETRY.with_delay(initial=0.001))
    url = "gs://trainer-test/lost"
    proxy.lost = 1
    objects.write(url, b"mine", new=True)
    assert (proxy.lost, objects.read(url)) == (0, b"mine")
    with pytest.raises(objects.TakenError, match="There is gs://trainer-test/lost already"):
        objects.write(url, b"mine", new=True)  # the same bytes from another writer


def test_an_epoch_over_a_network_that_breaks_sees_the_same_samples(proxy: CuttingProxy, shapes: str) -> None:
    from trainer.config import DataConfig, OptimizerConfig, TrainConfig
    from trainer.data import dataset, pipeline

    for path in Path(shapes).iterdir():
        write_without_proxy(proxy, f"gs://trainer-test/breaking/{path.name}", path.read_bytes())
    epochs = []
    for place in (shapes, "gs://trainer-test/breaking"):
        config = TrainConfig(data=DataConfig(place), optimizer=OptimizerConfig(batch_size=8))
        found = dataset.find(config, world=1)
        proxy.allowances = [30_000, 0, 50_000, 20_000, 0, 0, 70_000] if place != shapes else []
        batches = pipeline.train_epoch(config, found, 0, 1, epoch=1)
        epochs.append([(x.numpy().tobytes(), y.tolist()) for x, y in batches])
    assert not proxy.allowances
    assert epochs[0] == epochs[1]
