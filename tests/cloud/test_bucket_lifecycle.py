"""Tests of whole buckets: created once in the right location, deleted with all their objects."""

from __future__ import annotations

import asyncio
import contextlib
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
async def test_objects_are_deleted_page_by_page(
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
async def test_a_taken_name_and_a_missing_bucket_are_reported_in_a_sentence(buckets: BucketLifecycle) -> None:
    with pytest.raises(UsageError, match="you have it already, in europe-west4"):
        await buckets.create(parse_url("gs://shards"), "europe-west4", {})
    with pytest.raises(UsageError, match="there is no such bucket"):
        await buckets.delete(URL)


@needs_store
async def test_only_buckets_of_tpu_tui_are_listed_and_marked_if_they_are_empty(
    buckets: BucketLifecycle, tmp_path: Path
) -> None:
    await buckets.create(URL, "europe-west4", {"slice": "pod"})
    full = parse_url("gs://full-runs")
    await buckets.create(full, "europe-west4", {})
    (tmp_path / "x").write_text("x")
    await buckets.upload(tmp_path / "x", full / "x")

    rows = {row.name: row for row in (await buckets.list_own()).resources}

    assert rows.keys() == {"night-runs", "full-runs"}, "the store's first bucket, shards, has no label"
    empty, used = rows["night-runs"], rows["full-runs"]
    assert (empty.kind, empty.zone, empty.made_by_us) == ("bucket", "europe-west4", True)
    assert (empty.is_empty, empty.cost_relevant, used.is_empty, used.cost_relevant) == (True, False, False, True)
    assert empty.labels["slice"] == "pod"
    assert empty.age_s() in range(60)
    assert (await buckets.facts(URL)).is_own
    assert not (await buckets.facts(parse_url("gs://shards"))).is_own


@needs_store
async def test_an_unused_bucket_is_deleted_only_while_it_is_empty(buckets: BucketLifecycle, tmp_path: Path) -> None:
    await buckets.create(URL, "europe-west4", {})
    (tmp_path / "x").write_text("x")
    await buckets.upload(tmp_path / "x", URL / "x")

    with pytest.raises(UsageError, match="something is stored in it"):
        await buckets.delete_empty(URL)

    assert await buckets.exists(URL / "x")
    client = await buckets._open()
    await asyncio.to_thread(client.bucket(URL.bucket).blob("x").delete)
    await buckets.delete_empty(URL)
    assert not await buckets.exists(URL)


class _Service(BaseHTTPRequestHandler):
    """A store that keeps the posted bucket and loses the first answer; a bucket of another project is refused."""

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


class _LosesDeletion(BaseHTTPRequestHandler):
    """A store with one bucket of old versions and deleted objects, which loses the answer to its deletion."""

    deletions: ClassVar[list[str]] = []

    def do_GET(self) -> None:
        if "/o?" in self.path:
            objects = [{"name": "old", "generation": "7"}] if "softdeleted=true" in self.path.lower() else []
            self._answer(200, {"items": objects})
        elif "/b?" in self.path:
            if "pageToken=first" in self.path and not self.deletions:
                self.deletions.append("token")
                self._answer(400, {"error": {"code": 400, "message": "the page token has expired"}})
            elif "pageToken" in self.path:
                self._answer(200, {"items": [_BUCKET]})
            else:
                self._answer(200, {"items": [], "nextPageToken": "first"})
        else:
            self._answer(200, _BUCKET)

    def do_DELETE(self) -> None:
        self.deletions.append(self.path)
        status = 503 if len(self.deletions) == 1 else 404
        self._answer(status, {"error": {"code": status, "message": "gone"}})

    _answer = _Service._answer
    log_message = _Service.log_message


_BUCKET = {
    "name": "night-runs",
    "location": "EU",
    "labels": {"created-by": "tpu-tui"},
    "softDeletePolicy": {"retentionDurationSeconds": "604800"},
}


@pytest.fixture
def loses_deletion(tmp_path: Path) -> Iterator[BucketLifecycle]:
    _LosesDeletion.deletions = []
    with _serving(_LosesDeletion) as endpoint:
        yield BucketLifecycle(Settings(home=tmp_path, project="p", endpoints={"storage": endpoint}), patience=10)


async def test_a_deletion_whose_answer_is_lost_has_succeeded(loses_deletion: BucketLifecycle) -> None:
    assert await loses_deletion.delete(URL) == 0
    assert len(_LosesDeletion.deletions) == 2
    await loses_deletion.close()


async def test_soft_deleted_objects_count_as_stored_and_an_expired_page_token_restarts_the_list(
    loses_deletion: BucketLifecycle,
) -> None:
    (row,) = (await loses_deletion.list_own()).resources
    assert (row.name, row.is_empty, row.cost_relevant) == ("night-runs", False, True)
    assert _LosesDeletion.deletions == ["token"]
    facts = await loses_deletion.facts(URL)
    assert (facts.is_own, facts.retention_s) == (True, 604_800)
    await loses_deletion.close()


@contextlib.contextmanager
def _serving(handler: type[BaseHTTPRequestHandler]) -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def service() -> Iterator[str]:
    _Service.posted = []
    with _serving(_Service) as endpoint:
        yield endpoint


async def test_the_request_holds_location_maker_and_slice_and_a_lost_answer_is_no_conflict(
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


async def test_a_name_of_another_project_is_reported_as_such(service: str, tmp_path: Path) -> None:
    buckets = BucketLifecycle(Settings(home=tmp_path, project="p", endpoints={"storage": service}), patience=10)
    try:
        with pytest.raises(UsageError, match="another project has that name"):
            await buckets.create(parse_url("gs://foreign"), "europe-west4", {})
    finally:
        await buckets.close()
