"""Checks that the buckets a command names are in the slice's region, and that its ranges of shards exist.

Reads within a region are fastest and free (Cloud TPU documentation, "Training on TPU Pods"; Cloud Storage
documentation, bucket locations and pricing). A range is written as in shells and WebDataset,
`gs://bucket/train-{000000..000639}.tar`; its first and its last shard are looked up.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Mapping, Sequence

from tui.checks.check_row import CheckRow, error_row, make_row
from tui.cloud.storage.buckets import BucketPlace, Buckets, parse_url
from tui.errors import CloudError, TpuTuiError
from tui.pod.slice import Slice
from tui.text.printable import one_line

DUAL_REGIONS: Mapping[str, tuple[str, ...]] = {
    "ASIA1": ("ASIA-NORTHEAST1", "ASIA-NORTHEAST2"),
    "EUR4": ("EUROPE-NORTH1", "EUROPE-WEST4"),
    "EUR5": ("EUROPE-WEST1", "EUROPE-WEST2"),
    "EUR7": ("EUROPE-WEST2", "EUROPE-WEST3"),
    "EUR8": ("EUROPE-WEST3", "EUROPE-WEST6"),
    "NAM4": ("US-CENTRAL1", "US-EAST1"),
}
"""The predefined dual-regions (Cloud Storage documentation, bucket locations)."""
_CONTINENTS = {"US": "US-", "EU": "EUROPE-", "ASIA": "ASIA-"}
_NOT_IN_EU = ("EUROPE-WEST2", "EUROPE-WEST6")
"""London and Zürich: the multi-region EU keeps its data within member states."""
_ZONE = re.compile(r"(?P<region>[a-z][a-z0-9-]*)-[a-z]")
_ADDRESS = re.compile(r"gs://(?P<bucket>[^/\s'\"`,;|&<>()?#]*)")
_BUCKET = re.compile(r"[a-z0-9][a-z0-9._-]{1,220}[a-z0-9]")
_SHELL = "$*{}[]~"
_RANGE = re.compile(r"\{(\d+)\.\.(\d+)\}")
_SHARDS = re.compile(r"gs://[a-z0-9][a-z0-9._-]+/(?:[^\s'\"`;|&<>()#,{]*\{\d+\.\.\d+\})+[^\s'\"`;|&<>()#,{}]*")
_SHELL_IN_SHARDS = re.compile(r"[$*?\[\]~\\]")
"""Characters that only the worker's shell expands, in a bucket's name and in a range."""


def storage_region(zone: str | None) -> str | None:
    """Return the region of a zone in capitals, as Cloud Storage names it; None if it is not a zone's name."""
    match = _ZONE.fullmatch(zone or "")
    return match["region"].upper() if match else None


def named_buckets(argv: Iterable[str], env: Mapping[str, str]) -> tuple[str, ...]:
    """Return the bucket names in the `gs://` addresses of a command, valid or not, without repetitions, in order."""
    texts = (*argv, *env.values())
    return tuple(dict.fromkeys(match["bucket"] for text in texts for match in _ADDRESS.finditer(text)))


def region_row(bucket: str, place: BucketPlace, slice_: Slice) -> CheckRow:
    """Return how a bucket's location fits the slice's zone."""
    region = storage_region(slice_.zone)
    finding = f"gs://{bucket} is in {place.location}"
    if region is None:
        return _row("unknown", f"{finding}; the slice's region is unknown")
    if place.location == region:
        return _row("pass", f"{finding}, as is the slice")
    regions = place.regions or DUAL_REGIONS.get(place.location, ())
    remedy = f"gcloud storage buckets create gs://NAME --location={region.lower()}, and copy the data there"
    if region in regions:
        detail = f"{finding}, which includes {region} and {' and '.join(name for name in regions if name != region)}"
        return _row("warn", f"{detail}: a bucket in one region is faster and cheaper", remedy)
    if not regions and _is_within(region, place.location):
        return _row("warn", f"{finding}, a multi-region around {region}: a regional bucket is faster", remedy)
    slow = "every read crosses regions, which is slow, is billed per GiB and keeps the cores waiting"
    return _row("fail", f"{finding}, the slice in {region}: {slow}", remedy)


def _is_within(region: str, continent: str) -> bool:
    prefix = _CONTINENTS.get(continent)
    if prefix is None or not region.startswith(prefix):
        return False
    return continent != "EU" or region not in _NOT_IN_EU


def _row(status: str, detail: str, remedy: str | None = None) -> CheckRow:
    return make_row("region", status, detail, remedy)


async def bucket_rows(argv: Sequence[str], env: Mapping[str, str], slice_: Slice, buckets: Buckets) -> list[CheckRow]:
    """Return a row for each bucket that a command or its environment names, and for each range of shards in one.

    A missing bucket fails. A bucket whose location cannot be read is unknown, and so is a name that only the
    worker's shell expands.
    """
    bucket_checks = (_check(name, slice_, buckets) for name in named_buckets(argv, env))
    shard_checks = (_check_shards(shards, buckets) for shards in named_ranges((*argv, *env.values())))
    return list(await asyncio.gather(*bucket_checks, *shard_checks))


async def _check(name: str, slice_: Slice, buckets: Buckets) -> CheckRow:
    shown = one_line(name)
    if any(sign in name for sign in _SHELL):
        return _row("unknown", f"gs://{shown}: only the worker's shell can expand this name")
    if not _BUCKET.fullmatch(name):
        return _row("fail", f"gs://{shown} is not a valid bucket name", "write it as gs://bucket/path")
    try:
        place = await buckets.place(name)
    except TpuTuiError as error:
        return _error_row("region", error)
    return region_row(name, place, slice_)


def _error_row(check: str, error: TpuTuiError) -> CheckRow:
    return error_row(check, "unknown" if isinstance(error, CloudError) else "fail", error)


def named_ranges(texts: Iterable[str]) -> tuple[str, ...]:
    """Return the ranges of objects in a command's words, without repetitions, in order."""
    ranges = (match[0] for text in texts for match in _SHARDS.finditer(text))
    return tuple(dict.fromkeys(shards for shards in ranges if not _SHELL_IN_SHARDS.search(shards)))


def first_and_last(shards: str) -> tuple[str, str]:
    """Return the first and the last address of a range."""
    return _RANGE.sub(lambda match: match[1], shards), _RANGE.sub(lambda match: match[2], shards)


async def _check_shards(shards: str, buckets: Buckets) -> CheckRow:
    addresses = [parse_url(address) for address in dict.fromkeys(first_and_last(shards))]
    try:
        answers = await asyncio.gather(*(buckets.exists(address) for address in addresses))
    except TpuTuiError as error:
        return _error_row("data", error)
    missing = [str(address) for address, exists in zip(addresses, answers, strict=True) if not exists]
    shown = one_line(shards)
    if not missing:
        return make_row("data", "pass", f"{shown}: the first and the last exist")
    detail = f"{shown}: there is no {one_line(' and no '.join(missing))}"
    folder = one_line(missing[0].rpartition("/")[0])
    return make_row("data", "fail", detail, f"list what is there: gcloud storage ls {folder}/")
