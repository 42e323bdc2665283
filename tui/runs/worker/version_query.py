"""Record the package versions of a run's interpreter, from its preflight checks or from a query after its start.

A launch does not wait for an interpreter: where the preflight queried no versions, workers are queried once they run.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import Any

from tui.checks.workers.check_facts import JOB, Facts, FactsQuery, ask_facts, ask_over_sessions
from tui.errors import TpuTuiError
from tui.pod.run import Run
from tui.pod.worker import Worker
from tui.runs.launch.job_script import job_text
from tui.runs.record.run_directory import RunDirectory
from tui.runs.record.run_status import status_of
from tui.runs.record.versions import PACKAGES, VERSIONS
from tui.ssh.fleet import Fleet
from tui.ssh.sync.upload import code_directory
from tui.text.ranks import format_ranks

INTERPRETERS = ("python", "torchrun", "accelerate")
"""Prefixes of the names of Python interpreters and of programs that start one."""

MOST_AT_ONCE = 16
"""Limit on the workers that start an interpreter for a query at the same time."""


def record_versions(directory: RunDirectory, all_facts: Sequence[Facts]) -> None:
    """Record the versions of the job's interpreter, where a worker reported any."""
    by_worker = {facts.worker: facts.versions for facts in all_facts if facts.versions}
    if by_worker:
        versions: dict[str, Any] = {
            name: _of_all({index: installed.get(name) for index, installed in by_worker.items()}) for name in PACKAGES
        }
        directory.append_event(VERSIONS, **versions)


def _of_all(by_worker: dict[int, str | None]) -> str | None:
    """Return the version that all workers have, or a text that lists the workers of each version."""
    by_version: dict[str | None, list[int]] = {}
    for index, version in sorted(by_worker.items()):
        by_version.setdefault(version, []).append(index)
    if len(by_version) == 1:
        return next(iter(by_version))
    texts = (f"{version or 'none'} on {format_ranks(indices)}" for version, indices in by_version.items())
    return f"mixed: {', '.join(texts)}"


def names_interpreter(run: Run) -> bool:
    """Return whether a run's command or environment determines which Python of the worker it uses."""
    if run.job.docker_image:
        return False
    program = PurePath(run.job.argv[0]).name if run.job.argv else ""
    return bool(program.startswith(INTERPRETERS) or run.job.venv or run.job.conda_env)


async def query_versions(
    directory: RunDirectory, run: Run, env: Mapping[str, str], fleet: Fleet, *, is_synced: bool
) -> None:
    """Query the workers of a started run for the versions of its interpreter, unless they are on record.

    A run whose command names no interpreter is left out: a session costs a login, and the answer might be about
    another interpreter. Errors are ignored: nothing depends on the versions.
    """
    if not names_interpreter(run) or status_of(directory).versions:
        return
    turns = asyncio.Semaphore(MOST_AT_ONCE)
    code_hash = directory.run.code_hash
    code = code_directory(run.run_root, code_hash) if is_synced and code_hash else None

    async def ask(worker: Worker) -> Facts | None:
        query = FactsQuery(run.run_root, versions=JOB, job=job_text(run, worker, env, code))
        try:
            async with turns:
                return await ask_facts(worker.index, ask_over_sessions(fleet), query)
        except TpuTuiError:
            return None

    answers = await asyncio.gather(*map(ask, run.workers))
    record_versions(directory, [facts for facts in answers if facts is not None])
