"""A user's request to launch, and the run that it becomes."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path, PurePath

from tui import __version__
from tui.errors import UsageError
from tui.pod.job_options import JobOptions
from tui.pod.run import Run, make_run_id
from tui.pod.slice import Slice
from tui.runs.launch.launch_spec import Preflight
from tui.runs.launch.on_end_actions import check_on_end
from tui.runs.launch.phases import PhaseTimeouts
from tui.settings import Settings

_SLICE_FIELDS = ("runtime_version", "source", "network")
"""Fields of a slice that checks need and run.json does not hold."""
_PYTHON = "python"


@dataclass(frozen=True)
class LaunchRequest:
    """A user's request to launch."""

    slice_: Slice
    job: JobOptions
    name: str | None = None
    sync: Path | None = None
    preflight: bool = False
    """Whether the keeper checks the workers first, and does not launch if a check fails."""
    timeouts: PhaseTimeouts = field(default_factory=PhaseTimeouts)


def check_request(request: LaunchRequest) -> None:
    """Reject an invalid request before any worker is contacted. Raises UsageError."""
    if not request.job.argv:
        raise UsageError("no command to launch", remedy="tpu-tui launch SLICE -- COMMAND …")
    if request.job.restarts < 0:
        raise UsageError(f"--restarts {request.job.restarts}", why="the number of restarts cannot be negative")
    if request.sync and not request.sync.is_dir():
        raise UsageError(f"{request.sync} is not a directory", remedy="--sync takes the directory to copy")
    check_on_end(request.job.on_end, request.slice_)


def run_from(request: LaunchRequest, slice_: Slice, settings: Settings) -> Run:
    """Return a new run with a new id; `slice_` is the request's slice with its workers' host keys."""
    return Run(
        id=make_run_id(request.name or slice_.name),
        slice=slice_.name,
        job=request.job,
        workers=slice_.workers,
        name=request.name,
        zone=slice_.zone,
        source=slice_.source,
        project=slice_.project or settings.project,
        profile=settings.profile,
        accelerator_type=slice_.accelerator_type,
        tpu_node=slice_.tpu_node,
        node_endpoints=slice_.node_endpoints,
        slice_created=slice_.created,
        cores_per_worker=slice_.cores_per_worker,
        run_root=settings.run_root,
        created=datetime.now(timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        spot=_spot(slice_),
        versions={"tpu-tui": __version__, **({"runtime": slice_.runtime_version} if slice_.runtime_version else {})},
    )


def make_preflight(request: LaunchRequest, settings: Settings) -> Preflight:
    """Return how the workers are checked for a request."""
    fields = {name: getattr(request.slice_, name) for name in _SLICE_FIELDS}
    return Preflight(fields, settings.thresholds, wants_versions(request))


def wants_versions(request: LaunchRequest) -> bool:
    """Return whether a request names an interpreter that is on the workers before the run's code is.

    The interpreter that every login finds is left to `check`: with a version manager, it takes longer to start than
    all other checks.
    """
    if request.job.docker_image:
        return False
    program = request.job.argv[0] if request.job.argv else ""
    named = "/" in program and PurePath(program).name.startswith(_PYTHON)
    return bool(named or request.job.venv or request.job.conda_env) and not _comes_with_code(request)


def _comes_with_code(request: LaunchRequest) -> bool:
    """Return whether the interpreter or the working directory lies in the tree that the launch itself copies."""
    program = [path for path in request.job.argv[:1] if "/" in path]
    paths = [path for path in (request.job.venv, request.job.workdir, *program) if path]
    return request.sync is not None and any(not path.startswith(("/", "~")) for path in paths)


def _spot(slice_: Slice) -> bool | None:
    """Return whether the slice can be taken away at any time; None where its source does not say."""
    flags = [flag for flag in (slice_.spot, slice_.preemptible) if flag is not None]
    return any(flags) if flags else None
