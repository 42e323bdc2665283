"""Recover a run whose slice was taken away: wait for the slice, and copy the run's code to its new machines."""

from __future__ import annotations

import asyncio
from contextlib import aclosing, suppress
from dataclasses import replace
from pathlib import Path

from tui.aio.backoff import backoff
from tui.aio.timeouts import within
from tui.errors import LaunchError, TpuTuiError
from tui.pod.run import Run
from tui.runs.health.run_slice import API_TIMEOUT_S, RunSlice
from tui.runs.health.slice_monitor import FIRST_QUERY_PAUSE_S, LONGEST_QUERY_PAUSE_S
from tui.runs.keeper_timeouts import KeeperTimeouts
from tui.runs.record.run_directory import RunDirectory
from tui.ssh.fleet import Fleet
from tui.ssh.sync.bundle import read_bundle
from tui.ssh.sync.upload import send_bundle


async def wait_for_slice(directory: RunDirectory, timeouts: KeeperTimeouts) -> Run | None:
    """Wait for a healthy slice of the run's name and size; return the run with that slice's workers and endpoints.

    Return None if there is none within `lost_after`.
    """
    deadline = asyncio.get_running_loop().time() + timeouts.lost_after
    waits = backoff(min(FIRST_QUERY_PAUSE_S, timeouts.ask_after), LONGEST_QUERY_PAUSE_S)
    async with aclosing(RunSlice(directory)) as run_slice:
        while asyncio.get_running_loop().time() < deadline:
            with suppress(TpuTuiError, asyncio.TimeoutError):
                renewed = await within(_find_ready_slice(directory.run, run_slice), API_TIMEOUT_S)
                if renewed is not None:
                    return renewed
            await asyncio.sleep(next(waits))
    return None


async def _find_ready_slice(run: Run, run_slice: RunSlice) -> Run | None:
    slice_ = await run_slice.find()
    ready = slice_ is not None and slice_.state == "READY" and slice_.health in (None, "HEALTHY")
    if slice_ is None or not ready or len(slice_.workers) != len(run.workers):
        return None
    with_keys = await run_slice.with_host_keys(slice_)
    if any(old.host_keys and not new.host_keys for new, old in zip(with_keys.workers, run.workers, strict=True)):
        return None  # a new machine publishes its keys only when it has booted
    workers = (
        replace(new, user=new.user or old.user) for new, old in zip(with_keys.workers, run.workers, strict=True)
    )
    return replace(run, workers=tuple(workers), slice_created=slice_.created, node_endpoints=slice_.node_endpoints)


async def upload_code(run: Run, fleet: Fleet, tree_path: Path) -> None:
    """Copy the run's code to machines that may be new. Raises LaunchError when the code has changed here."""
    bundle = await asyncio.to_thread(read_bundle, tree_path)
    if bundle.tree.hash != run.code_hash:
        raise LaunchError(
            "the run's code cannot be copied to the new machines",
            why=f"{tree_path} has changed since the launch",
            remedy="launch the run again",
        )
    async for result in send_bundle(fleet, [worker.index for worker in run.workers], bundle, run_root=run.run_root):
        if isinstance(result, TpuTuiError):
            raise result
