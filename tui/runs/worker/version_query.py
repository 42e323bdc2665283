"""The versions that a run was launched with: what its look at the workers, or a question after their start, told.

A launch waits for no interpreter: where its look asked for no versions, workers are asked once they run.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from tui.errors import TpuTuiError
from tui.pod.run import Run
from tui.runs.record.run_directory import RunDirectory
from tui.runs.record.run_status import status_of
from tui.runs.record.versions import PACKAGES, VERSIONS
from tui.text.ranks import format_ranks

if TYPE_CHECKING:
    from tui.checks.workers.check_facts import Facts
    from tui.runs.launch.launch_spec import LaunchSpec
    from tui.ssh.fleet import Fleet

INTERPRETERS = ("python", "torchrun", "accelerate")
"""Beginnings of the names of programs that are Python, or run what they are given with it."""

ASKED_AT_ONCE = 16
"""Workers that start an interpreter at the same time."""


def record_versions(directory: RunDirectory, all_facts: Sequence[Facts]) -> None:
    """Put on record which versions the job's interpreter has, where a worker told any."""
    told = {facts.worker: facts.versions for facts in all_facts if facts.versions}
    if told:
        found: dict[str, Any] = {
            name: _of_all({index: having.get(name) for index, having in told.items()}) for name in PACKAGES
        }
        directory.append_event(VERSIONS, **found)


def _of_all(by_worker: dict[int, str | None]) -> str | None:
    """Return the version that all workers have, or which ones have which."""
    having: dict[str | None, list[int]] = {}
    for index, version in sorted(by_worker.items()):
        having.setdefault(version, []).append(index)
    if len(having) == 1:
        return next(iter(having))
    listed = (f"{version or 'none'} on {format_ranks(indices)}" for version, indices in having.items())
    return f"mixed: {', '.join(listed)}"


def names_interpreter(run: Run) -> bool:
    """Return whether a run's command or environment says which Python it uses."""
    program = PurePath(run.job.argv[0]).name if run.job.argv else ""
    return bool(program.startswith(INTERPRETERS) or run.job.venv or run.job.conda_env)


async def query_versions(directory: RunDirectory, spec: LaunchSpec, fleet: Fleet) -> None:
    """Ask the workers of a run that has begun which versions its interpreter has, unless that is on record.

    Nothing is asked of a run whose command names no interpreter: a session costs a login, and the answer might be
    another interpreter's. What hinders it is left aside: nothing of the run depends on it.
    """
    from tui.checks.workers.check_facts import JOB, Asking, ask_facts, over
    from tui.runs.launch.job_script import job_text
    from tui.ssh.sync.upload import code_directory

    if not names_interpreter(spec.run) or status_of(directory).versions:
        return
    run, turns = spec.run, asyncio.Semaphore(ASKED_AT_ONCE)
    hash_ = directory.run.code_hash
    code = code_directory(run.run_root, hash_) if spec.sync is not None and hash_ else None

    async def ask(place: int) -> Facts | None:
        worker = run.workers[place]
        asking = Asking(run.run_root, versions=JOB, job=job_text(run, worker, spec.env, code))
        try:
            async with turns:
                return await ask_facts(worker.index, over(fleet), asking)
        except TpuTuiError:
            return None

    heard = await asyncio.gather(*map(ask, range(len(run.workers))))
    record_versions(directory, [facts for facts in heard if facts is not None])
