"""Whole buckets: created once in the right place, deleted with everything in them."""

from __future__ import annotations

import asyncio
import json
import os
import threading
from collections.abc import AsyncIterator, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pytest

from tests.stores import needs_store
from tui.cloud.storage.bucket_lifecycle import BucketLifecycle
from tui.cloud.storage.buckets import parse_url
from tui.errors import CloudError, UsageError
from tui.localpod.bucket.bucket import Bucket
from tui.settings import Settings

URL = parse_url("gs://night-runs")


@pytest.fixture
async def buckets(tmp_path: Path) -> AsyncIterator[BucketLifecycle]:
    server = Bucket(tmp_path / "store", name="shards", location="EUROPE-WEST4")
    await server.start(os.environ)
    client = BucketLifecycle(Settings(home=tmp_path, endpoints={"storage": server.endpoint}), patience=5)
    try:
        yield client
    finally:
        await client.close()
        await server.close()


@needs_store
async def test_a_bucket_is_created_filled_and_deleted_with_all_its_objects(
    buckets: BucketLifecycle, tmp_path: Path
) -> None:
    assert await buckets.create(URL, "europe-west4", {"slice": "pod"}) == "EUROPE-WEST4"
    (tmp_path / "x").write_text("x")
    await asyncio.gather(*(buckets.upload(tmp_path / "x", URL / f"a/{number}") for number in range(40)))
    seen: list[int] = []
    assert await buckets.delete(URL, seen.append) == 40
    assert seen[-1] == 40
    assert not await buckets.exists(URL)


@needs_store
async def test_deleting_goes_page_by_page(
    buckets: BucketLifecycle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tui.cloud.storage.bucket_lifecycle._PAGE_OBJECTS", 7)
    await buckets.create(URL, "europe-west4", {})
    (tmp_path / "x").write_text("x")
    for number in range(15):
        await buckets.upload(tmp_path / "x", URL / str(number))
    seen: list[int] = []
    assert await buckets.delete(URL, seen.append) == 15
    assert seen == [7, 14, 15]


@needs_store
async def test_a_bucket_in_which_objects_keep_appearing_is_named(buckets: BucketLifecycle, tmp_path: Path) -> None:
    await buckets.create(URL, "europe-west4", {})
    (tmp_path / "x").write_text("x")
    await buckets.upload(tmp_path / "x", URL / "first")
    empty = buckets._empty

    async def refill(*arguments: Any) -> int:
        deleted = await empty(*arguments)
        await buckets.upload(tmp_path / "x", URL / "again")
        return deleted

    buckets._empty = refill  # type: ignore[method-assign]
    with pytest.raises(CloudError, match="objects keep appearing"):
        await buckets.delete(URL)


@needs_store
async def test_a_name_that_is_taken_and_a_bucket_that_is_missing_are_sentences(buckets: BucketLifecycle) -> None:
    with pytest.raises(UsageError, match="you have it already, in europe-west4"):
        await buckets.create(parse_url("gs://shards"), "europe-west4", {})
    with pytest.raises(UsageError, match="there is no such bucket"):
        await buckets.delete(URL)


class _Service(BaseHTTPRequestHandler):
    """Stores the bucket that is posted and loses the first answer; a bucket of another project is refused."""

    posted: ClassVar[list[tuple[str, dict[str, Any]]]] = []

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.posted.append((self.path, body))
        if body["name"] == "foreign" or len(self.posted) > 1:
            self._answer(409, {"error": {"code": 409, "message": "taken"}})
        else:
            self._answer(503, {"error": {"code": 503, "message": "try again"}})

    def do_GET(self) -> None:
        if "/foreign" in self.path:
            self._answer(403, {"error": {"code": 403, "message": "no access"}})
        else:
            self._answer(200, self.posted[-1][1] | {"location": self.posted[0][1]["location"].upper()})

    def _answer(self, status: int, document: dict[str, Any]) -> None:
        data = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        """Print nothing."""


@pytest.fixture
def service() -> Iterator[str]:
    _Service.posted = []
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Service)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


async def test_the_request_names_place_maker_and_slice_and_a_lost_answer_is_no_conflict(
    service: str, tmp_path: Path
) -> None:
    buckets = BucketLifecycle(Settings(home=tmp_path, project="p", endpoints={"storage": service}), patience=10)
    try:
        assert await buckets.create(URL, "europe-west4", {"slice": "pod"}) == "EUROPE-WEST4"
    finally:
        await buckets.close()
    (path, body), *again = _Service.posted
    assert "project=p" in path
    assert body["location"].lower() == "europe-west4"
    request = body["labels"].pop("tpu-tui-request")
    assert request
    assert body["labels"] == {"created-by": "tpu-tui", "slice": "pod"}
    assert body["iamConfiguration"]["uniformBucketLevelAccess"]["enabled"] is True
    assert [repeated["labels"]["tpu-tui-request"] for _, repeated in again] == [request]


async def test_a_name_of_another_project_is_told_apart(service: str, tmp_path: Path) -> None:
    buckets = BucketLifecycle(Settings(home=tmp_path, project="p", endpoints={"storage": service}), patience=10)
    try:
        with pytest.raises(UsageError, match="another project has that name"):
            await buckets.create(parse_url("gs://foreign"), "europe-west4", {})
    finally:
        await buckets.close()
