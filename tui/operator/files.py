"""Files of workers, and buckets: copy files to this machine, create and delete buckets."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from pathlib import Path

from tui.checks.buckets import storage_region
from tui.cloud.storage.bucket_lifecycle import BucketFacts, BucketLifecycle, OnDeleted
from tui.cloud.storage.buckets import BucketUrl, parse_url
from tui.errors import TpuTuiError, UsageError
from tui.operator.connections import Connections
from tui.pod.slice import Slice
from tui.ssh.fetch.fetch_files import FetchedFile, OnReceived, fetch_files


class Files:
    """Files on the workers of slices, and the buckets that slices use."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections

    async def fetch(
        self,
        slice_: Slice,
        remotes: Sequence[str],
        directory: Path,
        ranks: Sequence[int],
        on_received: OnReceived | None = None,
    ) -> AsyncGenerator[FetchedFile | TpuTuiError, None]:
        """Copy files, directories or globs of workers below a directory; yield a file or an error as it is known.

        Raises UsageError for a remote name or a directory that cannot be used.
        """
        fleet = await self._connections.fleet(slice_)
        async for row in fetch_files(fleet, ranks, remotes, directory, on_received):
            yield row

    def region_for(self, slice_: Slice) -> str:
        """Return the region of a slice's zone, in small letters. Raises UsageError for a slice without one."""
        region = storage_region(slice_.zone)
        if region is None:
            raise UsageError(f"the region of {slice_.name} is unknown", why="it has no zone of Google Cloud")
        return region.lower()

    async def create_bucket(self, text: str, slice_: Slice) -> str:
        """Create the bucket `gs://NAME` in a slice's region and return its location, in small letters."""
        self._connections.require_changes("creating a bucket")
        async with BucketLifecycle(self._connections.settings) as buckets:
            location = await buckets.create(bucket_url(text), self.region_for(slice_), {"slice": slice_.name})
        return location.lower()

    async def bucket_facts(self, text: str) -> BucketFacts:
        """Return who made the bucket `gs://NAME`, and how long its deleted objects are kept."""
        async with BucketLifecycle(self._connections.settings) as buckets:
            return await buckets.facts(bucket_url(text))

    async def delete_bucket(self, text: str, on_deleted: OnDeleted | None = None) -> int:
        """Delete the bucket `gs://NAME` with everything in it; return the number of its objects."""
        self._connections.require_changes("deleting a bucket")
        async with BucketLifecycle(self._connections.settings) as buckets:
            return await buckets.delete(bucket_url(text), on_deleted)


def bucket_url(text: str) -> BucketUrl:
    """Parse `gs://NAME`. Raises UsageError for anything else, also for an object."""
    url = parse_url(text, example="gs://bucket")
    if url.name:
        raise UsageError(f"{text} is not a bucket", remedy=f"name the bucket only: gs://{url.bucket}")
    return url
