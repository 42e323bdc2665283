"""Delete resources in stages: what uses others first, all of a stage at once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tui.cloud.api_errors import is_missing
from tui.cloud.compute.resource_listing import COLLECTIONS, ComputeResources
from tui.cloud.storage.bucket_lifecycle import BucketLifecycle
from tui.cloud.storage.buckets import BucketUrl
from tui.errors import TpuTuiError, UsageError
from tui.pod.resources import BUCKET, GROUP, QUEUED, SLICE, CloudResource, in_order_of_deletion

if TYPE_CHECKING:
    from tui.cloud.tpu.tpu_api import TpuApi

_AT_ONCE = 8

LiveRuns = Callable[[CloudResource], Awaitable[list[str]]]
"""Returns the runs that live on a slice, a queued resource or a group now."""


@dataclass(frozen=True, slots=True)
class DeletionStep:
    """One line about one resource; its last step has `is_gone`, or the `problem` that prevented the deletion."""

    resource: CloudResource
    text: str = ""
    problem: TpuTuiError | None = None
    is_gone: bool = False


class Deletion:
    """Deletes resources with the client of each kind; with `live_runs`, those that are in use by then are kept."""

    def __init__(
        self,
        tpu: TpuApi,
        compute: ComputeResources,
        open_buckets: Callable[[], BucketLifecycle],
        live_runs: LiveRuns | None,
    ) -> None:
        self._tpu = tpu
        self._compute = compute
        self._open_buckets = open_buckets
        self._live_runs = live_runs

    async def run(self, resources: Sequence[CloudResource]) -> AsyncIterator[DeletionStep]:
        """Delete the resources stage by stage and yield the steps as they come."""
        for stage in in_order_of_deletion(resources):
            steps: asyncio.Queue[DeletionStep | None] = asyncio.Queue()
            work = asyncio.ensure_future(self._stage(stage, steps))
            try:
                while (step := await steps.get()) is not None:
                    yield step
            finally:
                work.cancel()
                await asyncio.wait({work})

    async def _stage(self, stage: Sequence[CloudResource], steps: asyncio.Queue[DeletionStep | None]) -> None:
        turns = asyncio.Semaphore(_AT_ONCE)

        async def delete(resource: CloudResource) -> None:
            async with turns:
                await self._delete_reporting(resource, steps)

        try:
            await asyncio.gather(*map(delete, stage))
        finally:
            steps.put_nowait(None)

    async def _delete_reporting(self, resource: CloudResource, steps: asyncio.Queue[DeletionStep | None]) -> None:
        try:
            async for line in self._delete(resource):
                steps.put_nowait(DeletionStep(resource, line))
        except TpuTuiError as error:
            if not is_missing(error):
                steps.put_nowait(DeletionStep(resource, problem=error))
                return
            steps.put_nowait(DeletionStep(resource, f"{resource.kind} {resource.name} is gone already"))
        except Exception as error:
            what = f"{resource.kind} {resource.name} cannot be deleted"
            problem = TpuTuiError(what, why=f"{type(error).__name__}: {error}")
            steps.put_nowait(DeletionStep(resource, problem=problem))
            return
        steps.put_nowait(DeletionStep(resource, is_gone=True))

    async def _delete(self, resource: CloudResource) -> AsyncIterator[str]:
        lines: AsyncIterator[str]
        if resource.kind in (SLICE, QUEUED, GROUP) and self._live_runs is not None:
            await _require_no_runs(resource, self._live_runs)
        if resource.kind == QUEUED:
            lines = self._tpu.queue.delete(resource.zone or "", resource.name, force=True)
        elif resource.kind == SLICE:
            lines = self._tpu.lifecycle.delete(resource.zone or "", resource.name)
        elif resource.kind in COLLECTIONS:
            lines = self._compute.delete(resource)
        elif resource.kind == BUCKET:
            lines = self._delete_bucket(resource)
        else:
            what = f"{resource.kind} {resource.name} cannot be deleted"
            raise UsageError(what, why="tpu-tui cannot delete that kind")
        async for line in lines:
            yield line

    async def _delete_bucket(self, resource: CloudResource) -> AsyncIterator[str]:
        buckets, url = self._open_buckets(), BucketUrl(resource.name)
        counts: asyncio.Queue[int] = asyncio.Queue()
        yield f"requested the deletion of {url}"
        work = asyncio.ensure_future(self._emptied(buckets, url, counts))
        try:
            while (deleted := await counts.get()) >= 0:
                yield f"{deleted:,} object{'s are' if deleted != 1 else ' is'} deleted from {url}"
            await work
        finally:
            work.cancel()
            await asyncio.wait({work})
            await buckets.close()
        yield f"{url} is deleted"

    async def _emptied(self, buckets: BucketLifecycle, url: BucketUrl, counts: asyncio.Queue[int]) -> None:
        """Delete a bucket, with its objects unless it has to be unused; -1 ends the counts."""
        try:
            if self._live_runs is not None:
                await buckets.delete_empty(url)
            else:
                await buckets.delete(url, counts.put_nowait)
        finally:
            counts.put_nowait(-1)


async def _require_no_runs(resource: CloudResource, live_runs: LiveRuns) -> None:
    """Raise UsageError if a run lives on a slice, and also where that cannot be known."""
    what = f"{resource.kind} {resource.name} was not deleted"
    remedy = f"name it to delete it anyway: tpu-tui resources delete {resource.ref}"
    try:
        runs = await live_runs(resource)
    except TpuTuiError as error:
        raise UsageError(what, why=f"it may have a live run ({error.sentence})", remedy=remedy) from None
    if runs:
        raise UsageError(what, why=f"live on it: {', '.join(runs)}", remedy=remedy)
