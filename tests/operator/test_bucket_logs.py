"""Logs in a bucket: the content of the object, its local copy, and errors on the way."""

from __future__ import annotations

import asyncio
import gc
import gzip
import json
import os
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.logs.shapes import SAMPLE_LOG, generated_log, training
from tests.stores import needs_store
from tui.cloud.storage import buckets
from tui.errors import CloudError, UsageError
from tui.localpod.bucket.bucket import Bucket
from tui.operator.bucket_logs import BucketLogs
from tui.settings import Settings


@dataclass
class Store:
    """A real object store, and the settings with which logs in it are opened."""

    server: Bucket
    settings: Settings

    @property
    def logs(self) -> BucketLogs:
        return BucketLogs(self.settings)

    async def put(self, name: str, data: bytes) -> str:
        source = self.settings.home / "uploaded"
        source.write_bytes(data)
        store = buckets.Buckets(Settings(home=self.settings.home, endpoints={"storage": self.server.endpoint}))
        url = await store.upload(source, buckets.parse_url(f"gs://logs/{name}"))
        await store.close()
        return str(url)

    @property
    def copies(self) -> list[Path]:
        return [path for path in (self.settings.home / "cache" / "objects").rglob("*") if path.is_file()]


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    server = Bucket(tmp_path / "store", name="logs")
    await server.start(os.environ)
    try:
        yield Store(server, Settings(home=tmp_path, endpoints={"storage": server.endpoint}))
    finally:
        await server.close()


class FaultyProxy:
    """A proxy before the store that breaks off its first `breaks` answers `after` some bytes, or hangs there."""

    def __init__(self, port: int, *, breaks: int = 0, after: int = 0, hangs: bool = False) -> None:
        self._port = port
        self._breaks = breaks
        self._after = after
        self._hangs = hangs
        self.hung = asyncio.Event()
        self._server: asyncio.Server | None = None
        self._serving: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> str:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        for task in self._serving:
            task.cancel()
        await asyncio.gather(*self._serving, return_exceptions=True)

    async def _serve(self, client: asyncio.StreamReader, answer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._serving.add(task)
        store, ask = await asyncio.open_connection("127.0.0.1", self._port)
        asking = asyncio.create_task(_pass_on(client, ask))
        try:
            await self._answer(store, answer, asking)
        finally:
            asking.cancel()
            for writer in (answer, ask):
                writer.transport.abort()
            await asyncio.gather(asking, answer.wait_closed(), ask.wait_closed(), return_exceptions=True)

    async def _answer(
        self, store: asyncio.StreamReader, answer: asyncio.StreamWriter, asking: asyncio.Task[None]
    ) -> None:
        sent = 0
        with suppress(ConnectionError):
            while data := await store.read(16 * 1024):
                sent += len(data)
                if self._after and sent > self._after and (self._hangs or self._breaks):
                    self._breaks -= 1
                    if self._hangs:
                        self.hung.set()
                        await asyncio.wait([asking])
                    break
                answer.write(data)
                await answer.drain()


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(ConnectionError):
        while data := await reader.read(16 * 1024):
            writer.write(data)
            await writer.drain()


@needs_store
async def test_a_log_in_a_bucket_has_the_lines_of_its_file_compressed_or_not(store: Store) -> None:
    from backports import zstd

    data = SAMPLE_LOG.read_bytes()
    wanted = SAMPLE_LOG.read_bytes().splitlines()
    for name, stored in (("a.log", data), ("a b/ü.log.gz", gzip.compress(data)), ("a/.log.zst", zstd.compress(data))):
        log = await store.logs.open(await store.put(name, stored))
        assert log.name == f"gs://logs/{name}"
        assert [line.data for line in log.lines()] == wanted


@needs_store
async def test_a_second_opening_reads_the_copy_until_the_object_changes(store: Store) -> None:
    url = await store.put("out.log", f"{training(core=1)}\n".encode())
    first = await store.logs.open(url)
    before = first.path.stat()
    assert (await store.logs.open(url)).path.stat().st_ino == before.st_ino
    assert first.path.name == "out.log"

    await store.put("out.log", f"{training(core=2)}\n".encode())

    newer = await store.logs.open(url)
    assert [row.core for row in newer.snapshot().rows()] == [2]
    assert store.copies == [newer.path]


@needs_store
@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("gs://lgos/out.log", "there is no such bucket"),
        ("gs://logs/none.log", "there is no such object"),
        ("gs://logs", "it names no object"),
        ("gs://logs/run/", "it names no object"),
    ],
)
async def test_a_missing_bucket_or_object_is_reported(store: Store, url: str, why: str) -> None:
    with pytest.raises(UsageError) as caught:
        await store.logs.open(url)
    assert caught.value.sentence == f"{url.rstrip('/') if url == 'gs://logs' else url} cannot be read: {why}"


@needs_store
async def test_an_object_that_is_no_log_is_reported_by_its_address(store: Store) -> None:
    for name, data in (("empty.log", b""), ("a.zip", b"PK\x03\x04" + bytes(100))):
        url = await store.put(name, data)
        with pytest.raises(UsageError) as caught:
            await store.logs.open(url)
        assert caught.value.what.startswith(url)
    cut = await store.put("cut.log.gz", gzip.compress(generated_log(2_000, 8))[:-500])
    log = await store.logs.open(cut)
    assert len(log.snapshot()) == 8
    assert log.problem is not None
    assert cut in log.problem.what


@needs_store
async def test_without_the_store_the_copy_is_shown_with_a_warning(store: Store) -> None:
    url = await store.put("out.log", SAMPLE_LOG.read_bytes())
    other = await store.put("other.log", SAMPLE_LOG.read_bytes())
    assert (await store.logs.open(url)).staleness_error is None
    with pytest.raises(UsageError, match="not on this machine"):
        await store.logs.open(other, offline=True)

    await store.server.close()

    log = await store.logs.open(url)
    assert len(log.snapshot()) == 16
    assert log.staleness_error is not None
    assert log.staleness_error.exit_code == 3
    assert "cannot be reached" in log.staleness_error.why
    assert (await store.logs.open(url, offline=True)).staleness_error is None
    with pytest.raises(CloudError, match="cannot be reached"):
        await store.logs.open(other)


@needs_store
async def test_copies_are_limited_in_size_and_a_larger_object_leaves_none(store: Store) -> None:
    lines = f"{training(core=1)}\n".encode() * 100
    urls = [await store.put(f"{name}.log", lines) for name in "abc"]
    logs = BucketLogs(store.settings, most_bytes=2 * len(lines) + 10)
    opened = [await logs.open(url) for url in urls]
    assert [log.path.exists() for log in opened] == [False, True, True]

    once = await logs.open(await store.put("large.log", lines * 3))

    assert len(once.snapshot()) == 1
    path = once.path
    del once
    gc.collect()
    assert not path.exists()
    assert len(store.copies) <= 2


@needs_store
async def test_a_download_that_breaks_off_continues_where_it_was(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(buckets, "PART_BYTES", 100_000)
    data = generated_log(5_000, 8)
    url = await store.put("out.log", data)
    async with FaultyProxy(store.server.port, breaks=2, after=60_000) as endpoint:
        through = Settings(home=store.settings.home, endpoints={"storage": endpoint})
        log = await BucketLogs(through).open(url)
    assert log.path.read_bytes() == data


@needs_store
async def test_a_cancelled_download_leaves_nothing(store: Store) -> None:
    url = await store.put("out.log", generated_log(5_000, 8))
    proxy = FaultyProxy(store.server.port, after=60_000, hangs=True)
    async with proxy as endpoint:
        opening = asyncio.create_task(
            BucketLogs(Settings(home=store.settings.home, endpoints={"storage": endpoint})).open(url)
        )
        await asyncio.wait_for(proxy.hung.wait(), 60)
        opening.cancel()
        with pytest.raises(asyncio.CancelledError):
            await opening
    assert store.copies == []


async def test_a_bucket_that_may_not_be_read_is_reported_with_the_role_that_is_needed(tmp_path: Path) -> None:
    expected = {"error": {"code": 403, "message": "a@b.example does not have storage.objects.get access"}}
    body = json.dumps(expected).encode()

    refusing: set[asyncio.Task[None]] = set()

    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        refusing.add(task)
        try:
            await reader.readuntil(b"\r\n\r\n")
            head = f"HTTP/1.1 403 Forbidden\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n"
            writer.write(f"{head}Connection: close\r\n\r\n".encode() + body)
            await writer.drain()
        finally:
            writer.transport.abort()

    server = await asyncio.start_server(refuse, "127.0.0.1", 0)
    endpoint = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    with pytest.raises(CloudError) as caught:
        await BucketLogs(Settings(home=tmp_path, endpoints={"storage": endpoint})).open("gs://private/out.log")
    server.close()
    for task in refusing:
        task.cancel()
    await asyncio.gather(*refusing, return_exceptions=True)
    assert "storage.objects.get" in caught.value.why
    assert "roles/storage.objectViewer" in caught.value.remedy
