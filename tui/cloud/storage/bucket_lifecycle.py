"""Create and delete whole buckets of Cloud Storage."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from tui.cloud.storage.buckets import Buckets, BucketUrl
from tui.errors import CloudError, TpuTuiError, UsageError

CREATED_BY = ("created-by", "tpu-tui")
"""The label of everything that tpu-tui creates."""
_REQUEST = "tpu-tui-request"
"""The label that tells a bucket of this request from another one's after a lost answer."""
_ADMIN = "roles/storage.admin"
_PAGE_OBJECTS = 1000
_DELETIONS_AT_ONCE = 16
_ROUNDS = 3
"""How often a bucket is emptied in which something still appears."""

OnDeleted = Callable[[int], None]
"""Called with the number of deleted objects so far."""


class BucketLifecycle(Buckets):
    """The project's buckets as a whole; each call raises UsageError or CloudError."""

    async def create(self, url: BucketUrl, location: str, labels: Mapping[str, str]) -> str:
        """Create a bucket with uniform access in a region and return its location, in capitals."""
        client = await self._open()
        bucket = client.bucket(url.bucket)
        request = secrets.token_hex(8)
        bucket.labels = {CREATED_BY[0]: CREATED_BY[1], _REQUEST: request, **labels}
        bucket.iam_configuration.uniform_bucket_level_access_enabled = True
        create = partial(client.create_bucket, bucket, location=location, **self._options(self._retry_s))
        if not await self._ask(f"{url} cannot be created", partial(_succeeds, create), _ADMIN):
            await self._require_own(client, url, request)
        return await self.location(url.bucket)

    async def _require_own(self, client: Any, url: BucketUrl, request: str) -> None:
        """Raise UsageError for a bucket that another request created."""
        what = f"{url} cannot be created"
        read = partial(client.get_bucket, url.bucket, **self._options(self._retry_s))
        try:
            found = await self._ask(what, read, _ADMIN)
        except TpuTuiError:
            raise UsageError(
                what, why="another project has that name", remedy="choose a name that no one else uses"
            ) from None
        if found.labels.get(_REQUEST) != request:
            where = str(found.location).lower()
            raise UsageError(what, why=f"you have it already, in {where}", remedy="use it, or choose another name")

    async def delete(self, url: BucketUrl, on_deleted: OnDeleted | None = None) -> int:
        """Delete all objects of a bucket, old versions included, and the bucket; return the number of objects."""
        what = f"{url} cannot be deleted"
        await self.place(url.bucket)
        client = await self._open()
        bucket = client.bucket(url.bucket)
        deleted = 0
        for _ in range(_ROUNDS):
            deleted = await self._empty(client, bucket, what, deleted, on_deleted)
            delete = partial(bucket.delete, **self._options(self._retry_s))
            if await self._ask(what, partial(_succeeds, delete), _ADMIN):
                return deleted
        raise CloudError(what, why="objects keep appearing in it", remedy="stop the jobs that write to it")

    async def _empty(self, client: Any, bucket: Any, what: str, deleted: int, on_deleted: OnDeleted | None) -> int:
        turn = asyncio.Semaphore(_DELETIONS_AT_ONCE)
        options = self._options(self._retry_s)

        async def remove(blob: Any) -> None:
            delete = partial(bucket.delete_blob, blob.name, generation=blob.generation, **options)
            async with turn:
                await self._ask(what, partial(_unless_missing, delete))

        def page() -> list[Any]:
            return list(client.list_blobs(bucket, versions=True, max_results=_PAGE_OBJECTS, **options))

        while blobs := await self._ask(what, page):
            await asyncio.gather(*map(remove, blobs))
            deleted += len(blobs)
            if on_deleted is not None:
                on_deleted(deleted)
        return deleted


def _succeeds(call: Callable[[], object]) -> bool:
    """Make a call; return False where the service reports a conflict: the name is taken, the bucket is not empty."""
    from google.api_core.exceptions import Conflict, PreconditionFailed

    try:
        call()
    except (Conflict, PreconditionFailed):
        return False
    return True


def _unless_missing(call: Callable[[], object]) -> None:
    from google.api_core.exceptions import NotFound

    with contextlib.suppress(NotFound):  # an earlier try, or another client, deleted it
        call()
