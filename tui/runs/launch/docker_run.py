"""Run a job in a container: the `docker run` that a worker executes, as torch_xla's xla_dist builds it."""

from __future__ import annotations

from collections.abc import Mapping

from tui.errors import UsageError
from tui.pod.job_options import DEFAULT_CONTAINER, JobOptions
from tui.pod.xrt_cluster import RESERVED_VARIABLES

LABEL = "tpu-tui"
"""Label by which a worker finds a run's container to remove it: its processes belong to Docker's daemon."""
_ATTEMPT = "TPU_TUI_ATTEMPT"


def check_docker(job: JobOptions) -> None:
    """Refuse options that contradict each other. Raises UsageError."""
    option = next((name for name in ("docker_container", "docker_run_flag") if getattr(job, name)), None)
    if option and not job.docker_image:
        raise UsageError(f"--{option.replace('_', '-')} needs an image", remedy="add --docker-image IMAGE")
    env_option = next((name for name in ("conda_env", "venv") if getattr(job, name)), None)
    if env_option and job.docker_image:
        flag = "--" + env_option.replace("_", "-")
        raise UsageError(f"{flag} and --docker-image exclude each other", why="the image has its own environment")


def docker_words(
    job: JobOptions, label: str, runtime: Mapping[str, str], env: Mapping[str, str], others: Mapping[str, str]
) -> list[str]:
    """Return the words that run a job in a container with these variables.

    Values travel in the environment of `docker run`, not on its command line. Of the XRT runtime's variables, the
    container gets those that xla_dist passes; the others are for the server, which runs outside the container.
    """
    passed = RESERVED_VARIABLES if job.runtime == "xrt" else tuple(runtime)
    names = dict.fromkeys((*passed, *env, *others, _ATTEMPT))
    return [
        *("docker", "run", f"--name={job.docker_container or DEFAULT_CONTAINER}", "--network=host"),
        f"--label={LABEL}={label}",
        *job.docker_run_flag,
        *(argument for name in names for argument in ("-e", name)),
        job.docker_image or "",
        *job.argv,
    ]
