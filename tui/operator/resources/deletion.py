"""Delete resources in stages: what uses others first, all of a stage at once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from tui.aio.fan_out import gather_rows
from tui.cloud.api_errors import is_missing
from tui.cloud.compute.resource_listing import ComputeResources
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
        turns = asyncio.Semaphore(_AT_ONCE)
        for stage in in_order_of_deletion(resources):
            work = [partial(self._delete_reporting, resource, turns) for resource in stage]
            async with aclosing(gather_rows(work)) as steps:
                async for step in steps:
                    yield step

    async def _delete_reporting(
        self, resource: CloudResource, turns: asyncio.Semaphore, report: Callable[[DeletionStep], None]
    ) -> None:
        try:
            async with turns:
                await self._delete(resource, lambda line: report(DeletionStep(resource, line)))
        except TpuTuiError as error:
            if not is_missing(error):
                report(DeletionStep(resource, problem=error))
                return
            report(DeletionStep(resource, f"{resource.kind} {resource.name} is gone already"))
        except Exception as error:
            what = f"{resource.kind} {resource.name} cannot be deleted"
            report(DeletionStep(resource, problem=TpuTuiError(what, why=f"{type(error).__name__}: {error}")))
            return
        report(DeletionStep(resource, is_gone=True))

    async def _delete(self, resource: CloudResource, report: Callable[[str], None]) -> None:
        if resource.kind in (SLICE, QUEUED, GROUP) and self._live_runs is not None:
            await _require_no_runs(resource, self._live_runs)
        if resource.kind == BUCKET:
            await self._delete_bucket(BucketUrl(resource.name), report)
            return
        if resource.kind == QUEUED:
            lines = self._tpu.queue.delete(resource.zone or "", resource.name, force=True)
        elif resource.kind == SLICE:
            lines = self._tpu.lifecycle.delete(resource.zone or "", resource.name)
        else:
            lines = self._compute.delete(resource)
        async for line in lines:
            report(line)

    async def _delete_bucket(self, url: BucketUrl, report: Callable[[str], None]) -> None:
        """Delete a bucket, with its objects unless it has to be unused."""

        def count(deleted: int) -> None:
            report(f"{deleted:,} object{'s are' if deleted != 1 else ' is'} deleted from {url}")

        report(f"requested the deletion of {url}")
        async with self._open_buckets() as buckets:
            if self._live_runs is not None:
                await buckets.delete_empty(url)
            else:
                await buckets.delete(url, count)
        report(f"{url} is deleted")


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
