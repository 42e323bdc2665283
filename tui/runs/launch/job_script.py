"""What a worker runs: the job's environment and command as one piece of sh, exact to the byte."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence

from tui.errors import UsageError
from tui.pod.run import Run
from tui.pod.worker import Worker

MAX_ARGUMENT_BYTES = 128 * 1024
"""Bytes at which Linux refuses one argument or `K=V` (MAX_ARG_STRLEN, its final NUL included)."""
MAX_TOTAL_BYTES = 2 * 1024 * 1024 - 128 * 1024
"""Bytes that arguments and environment may have together (a quarter of the usual stack, less what logins add)."""
COORDINATOR_PORT = 8476
MESH_PORT = 8477
XRT_PORT = 51011
RUNTIMES = ("pjrt", "cpu", "xrt", "none")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_OWN = ("TPU_TUI_RUN", "TPU_TUI_SLICE", "TPU_TUI_WORKER", "TPU_TUI_WORKERS", "TPU_TUI_COORDINATOR")
"""The variables that give a job its place, and are always set; a user may know the number of cores better."""
_XRT_OWN = (
    "XRT_TPU_CONFIG",
    "XRT_MESH_SERVICE_ADDRESS",
    "XRT_LOCAL_WORKER",
    "XRT_SHARD_ORDINAL",
    "XRT_SHARD_WORLD_SIZE",
    "CLOUD_TPU_TASK_ID",
    "TPU_NUM_DEVICES",
)
_DEFAULT_DEVICES = 8
_CONDA = """\
tt_conda=$(command -v conda || :)
for tt_w in "$CONDA_EXE" ~/miniconda3/bin/conda ~/miniforge3/bin/conda ~/anaconda3/bin/conda /opt/conda/bin/conda; do
  [ -n "$tt_conda" ] || { [ -x "$tt_w" ] && tt_conda=$tt_w; }
done
[ -n "$tt_conda" ] || { echo "no conda found for the environment "NAME >&2; exit 127; }
tt_w=$("$tt_conda" shell.posix activate NAME) || exit 127
eval "$tt_w"
unset tt_conda tt_w
"""


def check_job(argv: Sequence[str], env: Mapping[str, str], runtime: str) -> None:
    """Refuse what no worker could run. Raises UsageError naming the argument or variable."""
    if not argv or not argv[0]:
        raise UsageError("nothing to run", remedy="give the command after `--`")
    if runtime not in RUNTIMES:
        raise UsageError(f"no runtime {runtime!r}", remedy="one of " + ", ".join(RUNTIMES))
    for name, value in env.items():
        if _NAME.fullmatch(name) is None:
            raise UsageError(f"{name!r} is not a variable's name")
        if name in _OWN:
            raise UsageError(f"{name} is set on every worker by tpu-tui", remedy="leave it out of --env")
        if runtime == "xrt" and name in _XRT_OWN:
            raise UsageError(f"{name} is set per worker by --runtime xrt", remedy="leave it out of --env")
        _check_text(f"the variable {name}", f"{name}={value}")
    for place, word in enumerate(argv):
        _check_text(f"argument {place}", word)
    together = sum(_length(word) + 9 for word in [*argv, *(f"{name}={value}" for name, value in env.items())])
    if together > MAX_TOTAL_BYTES:
        raise UsageError(
            f"arguments and environment are {together} bytes together",
            why=f"the kernel takes about {MAX_TOTAL_BYTES}",
            remedy="put them into a file",
        )


def job_environment(run: Run, worker: Worker, env: Mapping[str, str]) -> dict[str, str]:
    """Return the job's variables on one worker; the user's take precedence except over tpu-tui's own names."""
    first = run.workers[0]
    coordinator = first.internal_ip or first.hostname or first.external_ip or "localhost"
    given = {"PYTHONUNBUFFERED": "1", "TPU_NAME": run.slice, **_runtime_environment(run, worker), **env}
    leader = f"{_bracketed(coordinator)}:{COORDINATOR_PORT}"
    place = (run.id, run.slice, str(worker.index), str(len(run.workers)), leader)
    cores = {} if run.cores_per_worker is None else {"TPU_TUI_CORES": str(run.cores_per_worker)}
    return {**cores, **given, **dict(zip(_OWN, place, strict=True))}


def job_text(run: Run, worker: Worker, env: Mapping[str, str], code: str | None = None) -> str:
    """Return the sh text that the worker sources before it executes the job's words.

    `code` is the directory that the working tree was synced to; it is where the job starts unless the run names a
    workdir (a relative one lies in it).
    """
    lines = [f"export {name}={shlex.quote(value)}" for name, value in job_environment(run, worker, env).items()]
    lines += [f"cd {_path(directory)} || exit 1" for directory in (code, run.job.workdir) if directory]
    if run.job.conda_env:
        lines.append(_CONDA.replace("NAME", shlex.quote(run.job.conda_env)).rstrip("\n"))
    if run.job.venv:
        lines.append(_venv(run.job.venv))
    if run.job.runtime == "xrt":
        lines.append(
            f'[ -n "$tt_check" ] || python3 -m torch_xla.core.xrt_run_server --port {XRT_PORT} --restart || exit 1'
        )
    lines.append("set -- " + " ".join(shlex.quote(word) for word in run.job.argv))
    return "\n".join(lines) + "\n"


def _venv(path: str) -> str:
    return (
        f"tt_w={_path(path)}; case $tt_w in /*) ;; *) tt_w=$PWD/$tt_w ;; esac\n"
        '[ -x "$tt_w/bin/python" ] || { echo "no virtual environment at $tt_w" >&2; exit 127; }\n'
        'export VIRTUAL_ENV="$tt_w" PATH="$tt_w/bin:$PATH"; unset PYTHONHOME tt_w'
    )


def _path(path: str) -> str:
    """Return the path as sh: a leading `~` is the worker's home, everything else is exact."""
    if path == "~":
        return '"$HOME"'
    if path.startswith("~/"):
        return '"$HOME"/' + shlex.quote(path[2:]) if path[2:] else '"$HOME"'
    return shlex.quote(path if not path.startswith("-") else f"./{path}")


def _runtime_environment(run: Run, worker: Worker) -> dict[str, str]:
    if run.job.runtime == "pjrt":
        return {"PJRT_DEVICE": "TPU"}
    if run.job.runtime == "cpu":
        return {"PJRT_DEVICE": "CPU"}
    if run.job.runtime == "xrt":
        return _xrt_environment(run, worker)
    return {}


def _xrt_environment(run: Run, worker: Worker) -> dict[str, str]:
    """Return the variables that torch_xla's own launcher gave each worker of a TPU VM slice up to torch_xla 2.0."""
    addresses = [item.internal_ip or item.hostname or "localhost" for item in run.workers]
    place = [item.index for item in run.workers].index(worker.index)
    config = "|".join(f"c_localservice;{index};{address}:{XRT_PORT}" for index, address in enumerate(addresses))
    return {
        "XRT_TPU_CONFIG": config,
        "XRT_MESH_SERVICE_ADDRESS": f"{addresses[0]}:{MESH_PORT}",
        "XRT_LOCAL_WORKER": f"c_localservice:{place}",
        "XRT_SHARD_ORDINAL": str(place),
        "XRT_SHARD_WORLD_SIZE": str(len(addresses)),
        "CLOUD_TPU_TASK_ID": str(place),
        "TPU_NUM_DEVICES": str(run.cores_per_worker or _DEFAULT_DEVICES),
    }


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _length(text: str) -> int:
    return len(text.encode("utf-8", "surrogateescape"))


def _check_text(what: str, text: str) -> None:
    if "\0" in text:
        raise UsageError(f"{what} holds a NUL byte", why="no program can be given one")
    if _length(text) + 1 > MAX_ARGUMENT_BYTES:
        raise UsageError(
            f"{what} is {_length(text)} bytes long",
            why="Linux refuses arguments and variables of 128 KiB or more",
            remedy="put it into a file and sync that",
        )
