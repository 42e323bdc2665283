from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.cloud.test_buckets import needs_store
from tui.checks.buckets import bucket_rows, named_buckets, region_row, storage_region
from tui.cloud.storage.buckets import BucketPlace, Buckets
from tui.errors import CloudError
from tui.localpod.bucket.bucket import Bucket
from tui.pod.slice import Slice
from tui.settings import Settings

POD = Slice("pod", zone="europe-west4-a")


@pytest.mark.parametrize(
    ("location", "regions", "zone", "status"),
    [
        ("EUROPE-WEST4", (), "europe-west4-a", "pass"),
        ("EUROPE-WEST1", (), "europe-west4-a", "fail"),
        ("EUR4", (), "europe-west4-a", "warn"),
        ("EUR5", (), "europe-west4-a", "fail"),
        ("EU", (), "europe-west4-a", "warn"),
        ("EU", (), "europe-west2-b", "fail"),
        ("US", (), "europe-west4-a", "fail"),
        ("US", (), "us-central2-b", "warn"),
        ("US", ("US-EAST1", "US-EAST4"), "us-central1-a", "fail"),
        ("US", ("US-CENTRAL1", "US-EAST4"), "us-central1-a", "warn"),
        ("NAM4", (), "us-central1-a", "warn"),
        ("ASIA", (), "asia-east1-c", "warn"),
        ("LOCAL", (), "local-a", "pass"),
        ("US", (), None, "unknown"),
    ],
)
def test_a_bucket_belongs_in_the_region_of_the_slice(
    location: str, regions: tuple[str, ...], zone: str | None, status: str
) -> None:
    row = region_row("data", BucketPlace(location, regions), Slice("pod", zone=zone))

    assert row.status == status
    assert "gs://data" in row.detail
    assert (row.remedy is not None) == (status in ("warn", "fail"))
    if status == "fail":
        assert "billed" in row.detail


def test_a_zone_is_its_region_and_a_letter() -> None:
    assert [storage_region(zone) for zone in ("us-central2-b", "local-a", None, "here")] == [
        "US-CENTRAL2",
        "LOCAL",
        None,
        None,
    ]


def test_buckets_are_found_wherever_a_command_names_them() -> None:
    argv = [
        "python",
        "train.py",
        "--data=gs://one/cifar-{000..639}.tar",
        "pipe:gsutil cat gs://two/x|tar",
        "gs://one",
    ]

    assert named_buckets(argv, {"OUT": "gs://three/out", "HOME": "/root"}) == ("one", "two", "three")
    assert named_buckets(["train.py", "--out=/tmp/gs"], {}) == ()
    listed = ["--data=gs://a-b/{00..31}.tar,gs://c_d/x", "pipe:gsutil cat gs://e.f/{00..31}.tar", "'gs://quoted'"]
    assert named_buckets(["sh", "-c", " ".join(listed)], {}) == ("a-b", "c_d", "e.f", "quoted")


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(home=tmp_path)


async def test_without_a_bucket_no_request_is_sent(settings: Settings) -> None:
    assert await bucket_rows(["python", "train.py"], {}, POD, Buckets(settings)) == []


async def test_names_that_no_bucket_can_have_are_reported_without_a_request(settings: Settings) -> None:
    rows = await bucket_rows(["gs://$BUCKET/x", "gs://Upper/x", "gs:///x"], {}, POD, Buckets(settings))

    assert [row.status for row in rows] == ["unknown", "fail", "fail"]


@needs_store
async def test_a_real_store_reports_where_its_bucket_is_and_which_is_missing(tmp_path: Path) -> None:
    server = Bucket(tmp_path / "store", name="shards", location="EUROPE-WEST4")
    await server.start(os.environ)
    buckets = Buckets(Settings(home=tmp_path, endpoints={"storage": server.endpoint}), patience=5)
    try:
        here, missing = await bucket_rows(["gs://shards/x"], {"OUT": "gs://shrads/y"}, POD, buckets)
        (far,) = await bucket_rows(["gs://shards"], {}, Slice("pod", zone="us-central1-a"), buckets)
    finally:
        await buckets.close()
        await server.close()

    assert (here.status, missing.status, far.status) == ("pass", "fail", "fail")
    assert "no such bucket" in missing.detail
    assert "US-CENTRAL1" in far.detail


async def test_a_location_that_may_not_be_read_is_unknown(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse(self: Buckets, bucket: str) -> BucketPlace:
        raise CloudError(f"bucket {bucket} cannot be read", why="no storage.buckets.get", remedy="ask for the role")

    monkeypatch.setattr(Buckets, "place", refuse)

    (row,) = await bucket_rows(["gs://secret/x"], {}, POD, Buckets(settings))

    assert (row.status, row.remedy) == ("unknown", "ask for the role")
    assert "storage.buckets.get" in row.detail
