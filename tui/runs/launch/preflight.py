"""The look at its workers that a launch begins with, over the connections that it goes on with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from tui.errors import LaunchError
from tui.runs.launch.job_script import job_text
from tui.runs.worker.version_query import record_versions

if TYPE_CHECKING:
    from tui.checks.grouped_rows import CheckFinding
    from tui.checks.workers.check_facts import Ask, Facts
    from tui.pod.run import Run
    from tui.pod.slice import Slice
    from tui.runs.launch.launch_request import LaunchRequest
    from tui.runs.launch.launch_spec import LaunchSpec
    from tui.runs.record.run_directory import RunDirectory
    from tui.settings import Settings
    from tui.ssh.fleet import Fleet

_TOLD_OF_SLICE = ("runtime_version", "source", "network")
"""What checks go by that run.json does not hold."""
_PYTHON = "python"


@dataclass(frozen=True)
class Look:
    """What a keeper is told, beside the run, to look at the workers before it launches.

    `slice` holds what the slice's source tells and a run does not keep, `thresholds` are a profile's. With `versions`
    each worker's interpreter is asked what it has.
    """

    slice: Mapping[str, Any] = field(default_factory=dict)
    thresholds: Mapping[str, float] = field(default_factory=dict)
    versions: bool = False

    @classmethod
    def before(cls, request: LaunchRequest, settings: Settings) -> Look:
        """The look that a request wants."""
        told = {name: getattr(request.slice_, name) for name in _TOLD_OF_SLICE}
        return cls(told, settings.thresholds, asks_for_versions(request))

    def slice_of(self, run: Run) -> Slice:
        """The slice of a run, as far as checks go by it."""
        from tui.pod.slice import Slice

        return Slice(
            run.slice,
            zone=run.zone,
            project=run.project,
            accelerator_type=run.accelerator_type,
            workers=run.workers,
            **self.slice,
        )


def asks_for_versions(request: LaunchRequest) -> bool:
    """Whether a request names an interpreter that is on the workers before the run's code is.

    The one that every login finds is left to `check`: behind a version manager it takes longer than all else.
    """
    program = request.job.argv[0] if request.job.argv else ""
    named = "/" in program and PurePath(program).name.startswith(_PYTHON)
    return bool(named or request.job.venv or request.job.conda_env) and not _comes_with_code(request)


def _comes_with_code(request: LaunchRequest) -> bool:
    """Whether the interpreter or the working directory lies in the tree that only the launch brings."""
    program = [word for word in request.job.argv[:1] if "/" in word]
    paths = [path for path in (request.job.venv, request.job.workdir, *program) if path]
    return request.sync is not None and any(not path.startswith(("/", "~")) for path in paths)


async def look(directory: RunDirectory, spec: LaunchSpec, wanted: Look, fleet: Fleet, ask: Ask) -> None:
    """Look whether the launch can work; what warns or fails becomes a note. Raises LaunchError when a check fails.

    `ask` makes a call on a worker in the session that its launch goes on in.
    """
    from tui.checks.before_launch import before_launch

    run = spec.run
    by_index = {worker.index: worker for worker in run.workers}
    facts: list[Facts] = []
    told = before_launch(
        wanted.slice_of(run),
        fleet,
        thresholds=wanted.thresholds,
        run_root=run.run_root,
        runtime=run.job.runtime,
        job=(lambda index: job_text(run, by_index[index], spec.env)) if wanted.versions else None,
        ask=ask,
        told=facts,
    )
    rows = [row async for row in told if row.hinders or row.status == "warn"]
    record_versions(directory, facts)
    if not rows:
        return
    from tui.checks.grouped_rows import digest

    found = digest(rows)
    for finding in found.findings:
        directory.append_event("note", text=finding.sentence, remedy=finding.remedy)
    for row in rows:
        if row.hinders and row.worker is not None:
            detail = f"{row.check}: {row.detail}"
            todo = row.remedy or ""
            directory.append_event(
                "phase", worker=row.worker, phase="check", status="failed", detail=detail, remedy=todo
            )
    if not found.ok:
        raise refusal(found.findings)


def refusal(findings: Sequence[CheckFinding]) -> LaunchError:
    """Why a launch is not begun: findings, the worst first, of which at least one speaks against it."""
    against = sum(finding.status == "fail" for finding in findings)
    taken = [finding for finding in findings if finding.status == "fail" and finding.check in ("runs", "device")]
    all_the_same = "put that right, or --skip-checks launches all the same"
    return LaunchError(
        "a check speaks against the launch" if against == 1 else f"{against} checks speak against the launch",
        why=findings[0].sentence,
        # What takes the chips refuses a launch that looks at nothing, too.
        remedy=(taken[0].remedy or "put that right") if taken else all_the_same,
    )
