"""What a person asks to launch, and the run that it becomes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING

from tui import __version__
from tui.errors import UsageError
from tui.pod.run import Run, make_run_id
from tui.pod.slice import Slice
from tui.runs.launch.phases import PhaseTimeouts

if TYPE_CHECKING:
    from tui.settings import Settings


@dataclass(frozen=True)
class LaunchRequest:
    """What a person asked to launch; what they did not say is the profile's or the default."""

    slice_: Slice
    argv: tuple[str, ...]
    name: str | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    sync: Path | None = None
    env_by_name: tuple[str, ...] = ()
    """The variables of which only the name was given: their values are secret."""
    conda_env: str | None = None
    venv: str | None = None
    workdir: str | None = None
    runtime: str | None = None
    on_failure: str = "stop"
    restarts: int = 0
    """How many times the gang is launched again after a failure."""
    grace: float = 30.0
    on_end: tuple[str, ...] = ()
    """What is done when the run has ended: `tui.runs.launch.on_end_actions` knows the actions."""
    look: bool = False
    """Whether its keeper looks at the workers before it launches, and does not where a check fails."""
    timeouts: PhaseTimeouts = field(default_factory=PhaseTimeouts)


def check_request(request: LaunchRequest) -> None:
    """Refuse what cannot be meant, before anything is reached. Raises UsageError."""
    if not request.argv:
        raise UsageError("no command to launch", remedy="tpu-tui launch SLICE -- COMMAND …")
    if request.restarts < 0:
        raise UsageError(f"--restarts {request.restarts}", why="a run cannot be restarted less than never")
    if request.sync and not request.sync.is_dir():
        raise UsageError(f"{request.sync} is no directory", remedy="--sync takes the directory to copy")
    if request.on_end:
        from tui.runs.launch.on_end_actions import check_on_end

        check_on_end(request.on_end, request.slice_.zone, workers=len(request.slice_.workers))


def run_from(request: LaunchRequest, slice_: Slice, settings: Settings) -> Run:
    """The run with an id of its own; `slice_` is the request's with its workers' host keys."""
    return Run(
        id=make_run_id(request.name or slice_.name),
        slice=slice_.name,
        argv=request.argv,
        workers=slice_.workers,
        env=request.env,
        env_by_name=request.env_by_name,
        name=request.name,
        zone=slice_.zone,
        project=slice_.project or settings.project,
        profile=settings.profile,
        accelerator_type=slice_.accelerator_type,
        slice_created=slice_.created,
        cores_per_worker=slice_.cores_per_worker,
        runtime=request.runtime or settings.runtime,
        run_root=settings.run_root,
        workdir=request.workdir,
        conda_env=request.conda_env,
        venv=request.venv,
        on_failure=request.on_failure,
        restarts=request.restarts,
        grace=request.grace,
        on_end=request.on_end,
        created=datetime.now(timezone.utc).isoformat(timespec="seconds").replace("+00:00", "Z"),
        spot=_spot(slice_),
        versions={"tpu-tui": __version__, **({"runtime": slice_.runtime_version} if slice_.runtime_version else {})},
    )


def _spot(slice_: Slice) -> bool | None:
    """Return whether the slice can be taken away at any time; None where its source tells nothing of that."""
    known = [flag for flag in (slice_.spot, slice_.preemptible) if flag is not None]
    return any(known) if known else None
