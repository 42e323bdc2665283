from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.cloud.test_buckets import needs_store
from tui.checks.buckets import bucket_rows, first_and_last, named_ranges
from tui.cloud.storage.buckets import Buckets, parse_url
from tui.localpod.bucket.bucket import Bucket
from tui.pod.slice import Slice
from tui.settings import Settings


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("--data=gs://b-1/train-{000000..000639}.tar", ("gs://b-1/train-{000000..000639}.tar",)),
        ("pipe:gsutil cat gs://b-1/{00..31}.tar|tar x", ("gs://b-1/{00..31}.tar",)),
        ("gs://b-1/{0..3}/x-{00..11}.tar,gs://b-2/{0..1}", ("gs://b-1/{0..3}/x-{00..11}.tar", "gs://b-2/{0..1}")),
        ("gs://b-1/out gs://b-1/{train,val}.tar /local/{00..31}.tar", ()),
        ("gs://b-1/$RUN/{00..31}.tar gs://b-1/*/{0..9}", ()),
    ],
)
def test_ranges_of_shards_are_found_where_a_command_names_them(text: str, found: tuple[str, ...]) -> None:
    assert named_ranges([text, text]) == found


def test_a_range_begins_and_ends_as_it_is_written() -> None:
    assert first_and_last("gs://b/{0..3}/x-{008..011}.tar") == ("gs://b/0/x-008.tar", "gs://b/3/x-011.tar")


@needs_store
async def test_a_missing_shard_is_named_before_the_launch(tmp_path: Path) -> None:
    server = Bucket(tmp_path / "store", name="shards", location="EUROPE-WEST4")
    await server.start(os.environ)
    buckets = Buckets(Settings(home=tmp_path, endpoints={"storage": server.endpoint}), patience=5)
    (tmp_path / "shard").write_bytes(b"x")
    try:
        for name in ("x-00.tar", "x-07.tar"):
            await buckets.upload(tmp_path / "shard", parse_url(f"gs://shards/{name}"))
        argv, pod = ["--data=gs://shards/x-{00..07}.tar"], Slice("pod", zone="europe-west4-a")
        rows = await bucket_rows([*argv, "--val=gs://shards/x-{00..08}.tar"], {}, pod, buckets)
    finally:
        await buckets.close()
        await server.close()

    assert [(row.check, row.status) for row in rows] == [("region", "pass"), ("data", "pass"), ("data", "fail")]
    assert rows[2].detail == "gs://shards/x-{00..08}.tar: there is no gs://shards/x-08.tar"
