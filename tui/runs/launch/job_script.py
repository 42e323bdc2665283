"""Build what a worker runs: the job's environment and command as a piece of sh, exact to the byte.

For a job in a container, that is the `docker run` that torch_xla's xla_dist builds.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence

from tui.errors import UsageError
from tui.pod.job_options import DEFAULT_CONTAINER, OPTIONS, JobOptions
from tui.pod.ports import COORDINATOR_PORT
from tui.pod.run import Run
from tui.pod.worker import Worker
from tui.pod.xrt_cluster import RESERVED_VARIABLES, XrtCluster

MAX_ARGUMENT_BYTES = 128 * 1024
"""Bytes at which Linux refuses one argument or `K=V` (MAX_ARG_STRLEN, its final NUL included)."""
MAX_TOTAL_BYTES = 2 * 1024 * 1024 - 128 * 1024
"""Limit in bytes on arguments and environment together (a quarter of the usual stack, less what logins add)."""
LABEL = "tpu-tui"
"""Label by which a worker finds a run's container to remove it: its processes belong to Docker's daemon."""
_ATTEMPT = "TPU_TUI_ATTEMPT"
_RUNTIMES = tuple(OPTIONS["runtime"].choices)
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_OWN = ("TPU_TUI_RUN", "TPU_TUI_SLICE", "TPU_TUI_WORKER", "TPU_TUI_WORKERS", "TPU_TUI_COORDINATOR")
"""The variables that give a job its place and that users cannot set; they may set TPU_TUI_CORES."""
_CONDA = """\
tt_conda=$(command -v conda || :)
for tt_w in "$CONDA_EXE" ~/miniconda3/bin/conda ~/miniforge3/bin/conda ~/anaconda3/bin/conda /opt/conda/bin/conda \
    /anaconda3/bin/conda; do
  [ -n "$tt_conda" ] || { [ -x "$tt_w" ] && tt_conda=$tt_w; }
done
[ -n "$tt_conda" ] || { echo "no conda found for the environment "NAME >&2; exit 127; }
tt_w=$("$tt_conda" shell.posix activate NAME) || exit 127
eval "$tt_w"
unset tt_conda tt_w
"""

_DOCKER = """\
[ -n "$tt_check" ] || echo LABEL >"$1/container" || exit 1
[ -z "$tt_check" ] || ! command -v docker >/dev/null || docker version >/dev/null || exit 1
"""


def check_job(argv: Sequence[str], env: Mapping[str, str], runtime: str) -> None:
    """Raise a UsageError that names the argument or variable for a job that no worker could run."""
    if not argv or not argv[0]:
        raise UsageError("nothing to run", remedy="give the command after `--`")
    if runtime not in _RUNTIMES:
        raise UsageError(f"no runtime {runtime!r}", remedy="one of " + ", ".join(_RUNTIMES))
    for name, value in env.items():
        if _NAME.fullmatch(name) is None:
            raise UsageError(f"{name!r} is not a variable's name")
        if name in _OWN:
            raise UsageError(f"{name} is set on every worker by tpu-tui", remedy="leave it out of --env")
        if runtime == "xrt" and name in RESERVED_VARIABLES:
            raise UsageError(f"{name} is set per worker by --runtime xrt", remedy="leave it out of --env")
        _check_text(f"the variable {name}", f"{name}={value}")
    for index, argument in enumerate(argv):
        _check_text(f"argument {index}", argument)
    together = sum(_length(text) + 9 for text in [*argv, *(f"{name}={value}" for name, value in env.items())])
    if together > MAX_TOTAL_BYTES:
        raise UsageError(
            f"arguments and environment are {together} bytes together",
            why=f"the kernel takes about {MAX_TOTAL_BYTES}",
            remedy="put them into a file",
        )


def check_docker(job: JobOptions) -> None:
    """Refuse options that contradict each other. Raises UsageError."""
    option = next((name for name in ("docker_container", "docker_run_flag") if getattr(job, name)), None)
    if option and not job.docker_image:
        raise UsageError(f"--{option.replace('_', '-')} needs an image", remedy="add --docker-image IMAGE")
    env_option = next((name for name in ("conda_env", "venv") if getattr(job, name)), None)
    if env_option and job.docker_image:
        flag = "--" + env_option.replace("_", "-")
        raise UsageError(f"{flag} and --docker-image exclude each other", why="the image has its own environment")


def job_environment(run: Run, worker: Worker, env: Mapping[str, str]) -> dict[str, str]:
    """Return the job's variables on one worker; the user's take precedence except over those in `_OWN`."""
    return {**_defaults(run), **_runtime_environment(run, worker), **env, **_place(run, worker)}


def xrt_cluster(run: Run) -> XrtCluster:
    """Return the cluster of a run's workers for the XRT runtime, with the TPU Node that they drive."""
    addresses = [_address(worker) for worker in run.workers]
    return XrtCluster(
        addresses,
        run.accelerator_type,
        run.node_endpoints,
        server_port=run.job.tpuvm_server_port,
        cores_per_worker=run.cores_per_worker,
    )


def job_text(run: Run, worker: Worker, env: Mapping[str, str], code: str | None = None) -> str:
    """Return the sh text that the worker sources before it executes the job's command.

    `code` is the directory to which the working tree was synced. The job starts there, or in the run's workdir,
    which may be relative to it.
    """
    lines = [f"export {name}={shlex.quote(value)}" for name, value in job_environment(run, worker, env).items()]
    lines += [f"cd {_path(directory)} || exit 1" for directory in (code, run.job.workdir) if directory]
    if run.job.conda_env:
        lines.append(_CONDA.replace("NAME", shlex.quote(run.job.conda_env)).rstrip("\n"))
    if run.job.venv:
        lines.append(_venv(run.job.venv))
    if run.job.runtime == "xrt" and xrt_cluster(run).has_server:
        port = run.job.tpuvm_server_port
        lines.append(
            f'[ -n "$tt_check" ] || python3 -m torch_xla.core.xrt_run_server --port {port} --restart || exit 1'
        )
    argv: Sequence[str] = run.job.argv
    if run.job.docker_image:
        label = f"{run.id}/{worker.index}"
        lines.append(_DOCKER.replace("LABEL", f"{LABEL}={label}").rstrip("\n"))
        own = {**_defaults(run), **_place(run, worker)}
        argv = _docker_words(run.job, label, _runtime_environment(run, worker), env, own)
    lines.append("set -- " + " ".join(shlex.quote(argument) for argument in argv))
    return "\n".join(lines) + "\n"


def _docker_words(
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


def _venv(path: str) -> str:
    return (
        f"tt_w={_path(path)}; case $tt_w in /*) ;; *) tt_w=$PWD/$tt_w ;; esac\n"
        '[ -x "$tt_w/bin/python" ] || { echo "no virtual environment at $tt_w" >&2; exit 127; }\n'
        'export VIRTUAL_ENV="$tt_w" PATH="$tt_w/bin:$PATH"; unset PYTHONHOME tt_w'
    )


def _path(path: str) -> str:
    """Return the path as a word of sh: a leading `~` is the worker's home, everything else is literal."""
    if path in ("~", "~/"):
        return '"$HOME"'
    if path.startswith("~/"):
        return '"$HOME"/' + shlex.quote(path[2:])
    return shlex.quote(path if not path.startswith("-") else f"./{path}")


def _runtime_environment(run: Run, worker: Worker) -> dict[str, str]:
    if run.job.runtime == "xrt":
        return xrt_cluster(run).environment([item.index for item in run.workers].index(worker.index))
    device = {"pjrt": "TPU", "cpu": "CPU"}.get(run.job.runtime)
    return {"PJRT_DEVICE": device} if device else {}


def _defaults(run: Run) -> dict[str, str]:
    cores = {} if run.cores_per_worker is None else {"TPU_TUI_CORES": str(run.cores_per_worker)}
    return {**cores, "PYTHONUNBUFFERED": "1", "TPU_NAME": run.tpu_node or run.slice}


def _place(run: Run, worker: Worker) -> dict[str, str]:
    coordinator = f"{_address(run.workers[0])}:{COORDINATOR_PORT}"
    values = (run.id, run.slice, str(worker.index), str(len(run.workers)), coordinator)
    return dict(zip(_OWN, values, strict=True))


def _address(worker: Worker) -> str:
    """Return the address at which the other workers reach this one, in brackets where it is IPv6."""
    host = worker.internal_ip or worker.hostname or worker.external_ip or "localhost"
    return f"[{host}]" if ":" in host else host


def _length(text: str) -> int:
    return len(text.encode("utf-8", "surrogateescape"))


def _check_text(label: str, text: str) -> None:
    if "\0" in text:
        raise UsageError(f"{label} holds a NUL byte", why="no program can be given one")
    if _length(text) + 1 > MAX_ARGUMENT_BYTES:
        raise UsageError(
            f"{label} is {_length(text)} bytes long",
            why="Linux refuses arguments and variables of 128 KiB or more",
            remedy="put it into a file and sync that",
        )
