from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.cloud.test_compute_requests import answering
from tests.sshd import free_port
from tests.stores import needs_store
from tui.cloud.storage.buckets import Buckets, BucketUrl, parse_url
from tui.errors import CloudError, UsageError
from tui.localpod.bucket.bucket import Bucket
from tui.operator.files import bucket_url
from tui.settings import Settings

pytestmark = pytest.mark.timing


@dataclass
class Store:
    server: Bucket
    buckets: Buckets
    url: BucketUrl


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    server = Bucket(tmp_path / "store", name="shards", location="EUROPE-WEST4")
    await server.start(os.environ)
    buckets = Buckets(Settings(home=tmp_path, endpoints={"storage": server.endpoint}), patience=5)
    try:
        yield Store(server, buckets, parse_url(server.url))
    finally:
        await buckets.close()
        await server.close()


@pytest.mark.parametrize(
    ("text", "bucket", "name"),
    [
        ("gs://shards", "shards", ""),
        ("gs://shards/", "shards", ""),
        ("gs://shards/cifar/train-{000000..000639}.tar", "shards", "cifar/train-{000000..000639}.tar"),
        ("gs://my_bucket.example.com/a//b ", "my_bucket.example.com", "a//b "),
    ],
)
def test_an_address_is_a_bucket_and_a_name(text: str, bucket: str, name: str) -> None:
    url = parse_url(text)

    assert (url.bucket, url.name) == (bucket, name)


@pytest.mark.parametrize("text", ["", "shards", "s3://shards/x", "gs://", "gs:///x", "gs://UPPER/x", "/tmp/gs://x"])
def test_an_invalid_address_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="not a Cloud Storage address") as caught:
        parse_url(text)
    assert caught.value.remedy == ("write it as gs://upper/x" if "UPPER" in text else "write it as gs://bucket/path")


@pytest.mark.parametrize(
    ("text", "why", "remedy"),
    [
        ("gs://Upper", "a bucket's name has no capital letters", "write it as gs://upper"),
        ("gs://B", "a bucket's name has no capital letters", "write it as gs://bucket"),
        ("gs://b", "a bucket's name has 3 to 222 characters", "write it as gs://bucket"),
        ("shards", "", "write it as gs://bucket"),
    ],
)
def test_an_invalid_name_of_a_bucket_is_refused_with_its_cause(text: str, why: str, remedy: str) -> None:
    with pytest.raises(UsageError) as caught:
        bucket_url(text)
    assert (caught.value.why, caught.value.remedy) == (why, remedy)


@needs_store
async def test_the_location_of_a_bucket_is_read(store: Store) -> None:
    assert (await store.buckets.place("shards")).location == "EUROPE-WEST4"


@needs_store
async def test_an_uploaded_file_is_stored_unchanged(store: Store, tmp_path: Path) -> None:
    path = tmp_path / "report.md"
    path.write_bytes(os.urandom(300_000))
    assert not await store.buckets.exists(store.url / "runs/report.md")

    target = await store.buckets.upload(path, parse_url("gs://shards/runs/"))

    assert str(target) == "gs://shards/runs/report.md"
    assert await store.buckets.exists(target)
    blob = store.buckets._client.bucket(target.bucket).blob(target.name)
    assert blob.download_as_bytes() == path.read_bytes()


@needs_store
async def test_a_missing_bucket_is_reported(store: Store, tmp_path: Path) -> None:
    path = tmp_path / "report.md"
    path.write_text("text")

    assert not await store.buckets.exists(parse_url("gs://shrads"))
    for ask in (store.buckets.place("shrads"), store.buckets.upload(path, parse_url("gs://shrads/x"))):
        with pytest.raises(UsageError) as caught:
            await ask
        assert caught.value.why == "there is no such bucket"


@needs_store
async def test_only_files_are_uploaded(store: Store, tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "absent"):
        with pytest.raises(UsageError, match="is not a file"):
            await store.buckets.upload(path, store.url)


async def test_a_store_that_is_down_is_reported_with_the_time_of_the_attempts(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path, endpoints={"storage": f"http://127.0.0.1:{free_port()}"})
    buckets = Buckets(settings, patience=0.5)

    with pytest.raises(CloudError) as caught:
        await buckets.place("shards")

    assert "is down or cannot be reached (tried for" in caught.value.why
    await buckets.close()


@needs_store
async def test_an_object_of_another_owner_is_replaced_by_force_only(store: Store, tmp_path: Path) -> None:
    path, url = tmp_path / "report.md", parse_url("gs://shards/runs/night.md")

    async def stored() -> bytes:
        content: bytes = store.buckets._client.bucket(url.bucket).blob(url.name).download_as_bytes()
        return content

    for text in ("first", "second"):
        path.write_text(text)
        await store.buckets.upload(path, url, owner="night-1")
    assert await stored() == b"second"
    path.write_text("another")
    with pytest.raises(UsageError, match="is not replaced") as refused:
        await store.buckets.upload(path, url, owner="night-2")
    assert "night-1" in refused.value.why
    assert "--force" in refused.value.remedy
    assert await stored() == b"second"
    await store.buckets.upload(path, url, owner="night-2", force=True)
    assert await stored() == b"another"
    await store.buckets.upload(path, url, owner="night-2")


@needs_store
async def test_an_object_without_an_owner_is_not_replaced(store: Store, tmp_path: Path) -> None:
    path, url = tmp_path / "notes.md", parse_url("gs://shards/runs/night.md")
    path.write_text("notes")
    await store.buckets.upload(path, url)
    with pytest.raises(UsageError, match="is not replaced"):
        await store.buckets.upload(path, url, owner="night-1")


@needs_store
async def test_of_two_uploads_at_the_same_time_one_is_refused(store: Store, tmp_path: Path) -> None:
    url = parse_url("gs://shards/runs/night.md")
    for name in ("a", "b"):
        (tmp_path / name).write_text(name)
    answers = await asyncio.gather(
        *(store.buckets.upload(tmp_path / name, url, owner=name) for name in ("a", "b")), return_exceptions=True
    )
    refused = [answer for answer in answers if isinstance(answer, UsageError)]
    assert len(refused) == 1
    assert "is not replaced" in refused[0].sentence


@pytest.mark.parametrize(
    "document", ['{"name": "b", "labels": 5}', '{"name": "b", "timeCreated": "yesterday"}', "[" * 100_000, ""]
)
async def test_a_server_that_is_not_cloud_storage_is_reported_in_a_sentence(tmp_path: Path, document: str) -> None:
    with answering(document.encode()) as address:
        async with Buckets(Settings(home=tmp_path, endpoints={"storage": address}), patience=5) as buckets:
            with pytest.raises(CloudError, match="does not answer as Cloud Storage does: answer"):
                await buckets.place("shards")
