"""Check the workers and buckets of a launch concurrently, before it begins."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence

from tui.aio.fan_out import gather_rows
from tui.checks.before_launch import before_launch
from tui.checks.buckets import bucket_rows
from tui.checks.check_row import CheckRow, Report
from tui.cloud.storage.buckets import Buckets
from tui.operator.connections import Connections
from tui.pod.slice import Slice
from tui.runs.launch.job_script import job_text
from tui.runs.launch.launch_request import LaunchRequest, run_from, wants_versions
from tui.settings import Settings

BUCKET_TIMEOUT_S = 5.0
"""How long Cloud Storage may take to answer before a bucket's region counts as unknown."""


async def check_before_launch(connections: Connections, request: LaunchRequest) -> AsyncIterator[CheckRow]:
    """Yield a row for everything that can fail this launch, as soon as it is known: workers, interpreter, buckets.

    Workers and buckets that do not answer are rows, not errors. Raises what `Connections.fleet` raises for a slice
    that is not ready, before the first row. Connections stay open.
    """
    slice_, settings = request.slice_, connections.settings
    fleet = await connections.fleet(slice_)

    async def workers(report: Report) -> None:
        async for row in before_launch(
            slice_,
            fleet,
            thresholds=settings.thresholds,
            run_root=settings.run_root,
            runtime=request.job.runtime,
            job=_job_environment(settings, request),
        ):
            report(row)

    async def buckets(report: Report) -> None:
        for row in await check_buckets(settings, slice_, request.job.argv, request.job.env):
            report(row)

    async for row in gather_rows([workers, buckets]):
        yield row


async def check_buckets(
    settings: Settings, slice_: Slice, texts: Sequence[str], env: Mapping[str, str] | None = None
) -> list[CheckRow]:
    """Return a row for each bucket that the texts or the variables' values name with `gs://`."""
    async with Buckets(settings, patience=BUCKET_TIMEOUT_S) as buckets:
        return await bucket_rows(texts, env or {}, slice_, buckets)


def _job_environment(settings: Settings, request: LaunchRequest) -> Callable[[int], str] | None:
    """Return a function from worker index to job script, None where no versions are wanted."""
    if not wants_versions(request):
        return None
    run = run_from(request, request.slice_, settings)
    by_index = {worker.index: worker for worker in run.workers}
    return lambda index: job_text(run, by_index[index], request.job.env)
