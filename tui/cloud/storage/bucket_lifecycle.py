"""Create and delete whole buckets of Cloud Storage."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from tui.cloud.storage.buckets import Buckets, BucketUrl
from tui.errors import CloudError, NoSuchResourceError, TpuTuiError, UsageError
from tui.pod.creation.machine_request import CREATED_BY
from tui.pod.resources import BUCKET, CloudResource, ResourceListing, is_made_by_us
from tui.text.timestamps import to_utc

_REQUEST = "tpu-tui-request"
"""The label that distinguishes, after a lost answer, a bucket of this request from one of another request."""
_ADMIN = "roles/storage.admin"
_PAGE_OBJECTS = 1000
_DELETIONS_AT_ONCE = 16
_ROUNDS = 3
"""How often a bucket is emptied while objects keep appearing in it."""

OnDeleted = Callable[[int], None]
"""Called with the number of deleted objects so far."""


@dataclass(frozen=True, slots=True)
class BucketFacts:
    """Whether tpu-tui created a bucket, and for how many seconds the service keeps deleted objects."""

    is_own: bool
    retention_s: int


class BucketLifecycle(Buckets):
    """The project's buckets as a whole. Each method raises UsageError or CloudError."""

    async def list_own(self) -> ResourceListing:
        """Return the project's buckets that tpu-tui created, each with whether nothing is stored in it."""
        client = await self._open()
        options = self._options()
        buckets = await self._ask("buckets cannot be listed", partial(_list_buckets, client, options), _ADMIN)
        own = [bucket for bucket in buckets if is_made_by_us(bucket.labels)]
        return ResourceListing(tuple(await asyncio.gather(*(self._row(client, bucket) for bucket in own))))

    async def _row(self, client: Any, bucket: Any) -> CloudResource:
        is_empty = await self._is_empty(client, bucket)
        return CloudResource(
            BUCKET,
            bucket.name,
            zone=str(bucket.location).lower(),
            created=to_utc(bucket.time_created),
            labels=dict(bucket.labels),
            made_by_us=True,
            cost_relevant=None if is_empty is None else not is_empty,
            is_empty=is_empty,
        )

    async def _is_empty(self, client: Any, bucket: Any) -> bool | None:
        """Return whether a bucket stores nothing, neither old versions nor soft-deleted objects; None if unknown."""
        options = self._options() | {"max_results": 1}
        what = f"objects of gs://{bucket.name} cannot be listed"

        async def has(**kind: bool) -> bool:
            return bool(await self._ask(what, lambda: list(client.list_blobs(bucket, **options, **kind))))

        try:
            return not (await has(versions=True) or (_retention_s(bucket) and await has(soft_deleted=True)))
        except TpuTuiError:
            return None

    async def facts(self, url: BucketUrl) -> BucketFacts:
        """Return who made a bucket and what its deletion leaves."""
        bucket = await self._bucket(url.bucket, f"{url} cannot be read", _ADMIN)
        return BucketFacts(is_made_by_us(bucket.labels), _retention_s(bucket))

    async def create(self, url: BucketUrl, location: str, labels: Mapping[str, str]) -> str:
        """Create a bucket with uniform access in a region and return its location, in capitals."""
        client = await self._open()
        bucket = client.bucket(url.bucket)
        request = secrets.token_hex(8)
        bucket.labels = {CREATED_BY[0]: CREATED_BY[1], _REQUEST: request, **labels}
        bucket.iam_configuration.uniform_bucket_level_access_enabled = True
        create = partial(client.create_bucket, bucket, location=location, **self._options())
        if not await self._without_conflict(f"{url} cannot be created", create):
            await self._require_own(url, request)
        return (await self.place(url.bucket)).location

    async def _require_own(self, url: BucketUrl, request: str) -> None:
        """Raise UsageError for a bucket that another request created."""
        what = f"{url} cannot be created"
        try:
            bucket = await self._bucket(url.bucket, what, _ADMIN)
        except TpuTuiError:
            raise UsageError(
                what, why="another project has that name", remedy="choose a name that no one else uses"
            ) from None
        if bucket.labels.get(_REQUEST) != request:
            location = str(bucket.location).lower()
            raise UsageError(what, why=f"you have it already, in {location}", remedy="use it, or choose another name")

    async def delete(self, url: BucketUrl, on_deleted: OnDeleted | None = None) -> int:
        """Delete all objects of a bucket, old versions included, and the bucket; return the number of objects."""
        what = f"{url} cannot be deleted"
        await self.place(url.bucket)
        client = await self._open()
        bucket = client.bucket(url.bucket)
        deleted = 0
        for _ in range(_ROUNDS):
            deleted = await self._empty(client, bucket, what, deleted, on_deleted)
            with contextlib.suppress(NoSuchResourceError):  # an earlier try, or another client, deleted it
                if not await self._without_conflict(what, partial(bucket.delete, **self._options())):
                    continue
            return deleted
        raise CloudError(what, why="objects keep appearing in it", remedy="stop the jobs that write to it")

    async def delete_empty(self, url: BucketUrl) -> None:
        """Delete a bucket in which nothing is stored. Raises UsageError if something is."""
        what = f"{url} cannot be deleted"
        client = await self._open()
        bucket = client.bucket(url.bucket)
        delete = partial(bucket.delete, **self._options())
        if not await self._is_empty(client, bucket) or not await self._without_conflict(what, delete):
            raise UsageError(what, why="something is stored in it", remedy=f"name it to delete it: {url}")

    async def _without_conflict(self, what: str, call: Callable[[], object]) -> bool:
        """Make a request; return False for a conflict: the name is taken, or the bucket is not empty."""
        from google.api_core.exceptions import Conflict, PreconditionFailed

        try:
            await self._ask(what, call, _ADMIN)
        except TpuTuiError as error:
            if not isinstance(error.__cause__, (Conflict, PreconditionFailed)):
                raise
            return False
        return True

    async def _empty(self, client: Any, bucket: Any, what: str, deleted: int, on_deleted: OnDeleted | None) -> int:
        slots = asyncio.Semaphore(_DELETIONS_AT_ONCE)
        options = self._options()

        async def remove(blob: Any) -> None:
            delete = partial(bucket.delete_blob, blob.name, generation=blob.generation, **options)
            async with slots:
                with contextlib.suppress(NoSuchResourceError):
                    await self._ask(what, delete)

        def page() -> list[Any]:
            return list(client.list_blobs(bucket, versions=True, max_results=_PAGE_OBJECTS, **options))

        while blobs := await self._ask(what, page):
            await asyncio.gather(*map(remove, blobs))
            deleted += len(blobs)
            if on_deleted is not None:
                on_deleted(deleted)
        return deleted


def _list_buckets(client: Any, options: Mapping[str, Any]) -> list[Any]:
    """Return the project's buckets; if a page token expires, the listing begins again, once."""
    from google.api_core.exceptions import BadRequest

    try:
        return list(client.list_buckets(**options))
    except BadRequest:
        return list(client.list_buckets(**options))


def _retention_s(bucket: Any) -> int:
    """Return how long the service keeps, and charges, deleted objects."""
    return int(bucket.soft_delete_policy.retention_duration_seconds or 0)
