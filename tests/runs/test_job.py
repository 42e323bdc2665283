from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.run_records import make_run
from tui.errors import UsageError
from tui.pod.run import Run
from tui.pod.worker import Worker
from tui.runs.launch.job_script import MAX_ARGUMENT_BYTES, check_job, job_environment, job_text

WORKERS = (Worker(0, internal_ip="10.0.0.1"), Worker(1, internal_ip="10.0.0.2"))


def a_run(**fields: object) -> Run:
    argv = fields.pop("argv", ("true",))
    assert isinstance(argv, tuple)
    return make_run("r-20261121-101500-00aa", "pod", argv, WORKERS, **{"cores_per_worker": 8, **fields})


def sourced(text: str, tail: str = "env -0", cwd: Path | None = None, shell: str = "sh") -> bytes:
    done = subprocess.run([shell, "-c", text + tail], capture_output=True, cwd=cwd, check=True)
    return done.stdout


def test_a_job_knows_its_place_in_the_pod() -> None:
    env = job_environment(a_run(), WORKERS[1], {})
    assert env["TPU_TUI_RUN"] == "r-20261121-101500-00aa"
    assert (env["TPU_TUI_SLICE"], env["TPU_TUI_WORKER"], env["TPU_TUI_WORKERS"]) == ("pod", "1", "2")
    assert (env["TPU_TUI_CORES"], env["TPU_TUI_COORDINATOR"]) == ("8", "10.0.0.1:8476")
    assert (env["PJRT_DEVICE"], env["PYTHONUNBUFFERED"], env["TPU_NAME"]) == ("TPU", "1", "pod")


def test_what_is_not_known_is_not_set_and_what_is_given_wins() -> None:
    env = job_environment(a_run(cores_per_worker=None, runtime="none"), WORKERS[0], {"PYTHONUNBUFFERED": ""})
    assert "TPU_TUI_CORES" not in env
    assert "PJRT_DEVICE" not in env
    assert env["PYTHONUNBUFFERED"] == ""
    assert job_environment(a_run(runtime="cpu"), WORKERS[0], {})["PJRT_DEVICE"] == "CPU"
    assert job_environment(a_run(), WORKERS[0], {"TPU_TUI_CORES": "4"})["TPU_TUI_CORES"] == "4"
    assert job_environment(a_run(), WORKERS[0], {"TPU_NAME": "local"})["TPU_NAME"] == "local"


def test_what_tells_a_job_its_place_is_not_given_by_hand() -> None:
    with pytest.raises(UsageError, match="TPU_TUI_WORKER is set on every worker"):
        check_job(["x"], {"TPU_TUI_WORKER": "3"}, "pjrt")


def test_xrt_gives_each_worker_its_own_variables() -> None:
    env = job_environment(a_run(runtime="xrt"), WORKERS[1], {})
    assert env["XRT_TPU_CONFIG"] == "c_localservice;0;10.0.0.1:51011|c_localservice;1;10.0.0.2:51011"
    assert env["XRT_MESH_SERVICE_ADDRESS"] == "10.0.0.1:8477"
    assert (env["XRT_LOCAL_WORKER"], env["XRT_SHARD_ORDINAL"]) == ("c_localservice:1", "1")
    assert (env["XRT_SHARD_WORLD_SIZE"], env["CLOUD_TPU_TASK_ID"], env["TPU_NUM_DEVICES"]) == ("2", "1", "8")
    with pytest.raises(UsageError, match="XRT_SHARD_ORDINAL"):
        check_job(["x"], {"XRT_SHARD_ORDINAL": "1"}, "xrt")


@pytest.mark.bash
@pytest.mark.parametrize("shell", ["dash", "bash"])
def test_words_and_values_arrive_to_the_byte(shell: str) -> None:
    nasty = ("a b", "it's", '"$HOME" `id` $(id) \\', "line\nbreak\n\n", "ünï \udcff", "*", "-n", "", "~", "!x", "\t")
    text = job_text(a_run(argv=("printf", *nasty)), WORKERS[0], {"V": "".join(nasty)})
    encoded = text.encode("utf-8", "surrogateescape")
    tail = b'shift; printf "%s\\0" "$@"; printf %s "$V"'
    out = subprocess.run([shell, "-c", encoded + tail], capture_output=True, check=True).stdout
    wanted = b"".join(word.encode("utf-8", "surrogateescape") + b"\0" for word in nasty)
    assert out == wanted + "".join(nasty).encode("utf-8", "surrogateescape")


def test_a_workdir_may_begin_with_a_tilde_or_lie_in_the_synced_code(tmp_path: Path) -> None:
    (tmp_path / "code it" / "sub").mkdir(parents=True)
    text = job_text(a_run(workdir="sub"), WORKERS[0], {"HOME": str(tmp_path)}, code="~/code it")
    assert sourced(text, "pwd -P").decode().strip() == str(tmp_path / "code it" / "sub")


def test_a_virtual_environment_comes_first_on_the_path(tmp_path: Path) -> None:
    python = tmp_path / "env" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.touch(mode=0o755)
    text = job_text(a_run(venv="env"), WORKERS[0], {"PYTHONHOME": "x"})
    values = dict(line.split(b"=", 1) for line in sourced(text, cwd=tmp_path).split(b"\0") if line)
    assert values[b"PATH"].startswith(f"{tmp_path}/env/bin:".encode())
    assert values[b"VIRTUAL_ENV"] == f"{tmp_path}/env".encode()
    assert b"PYTHONHOME" not in values


def test_a_missing_virtual_environment_or_directory_ends_it(tmp_path: Path) -> None:
    for run in (a_run(venv="none"), a_run(workdir="none")):
        done = subprocess.run(
            ["sh", "-c", job_text(run, WORKERS[0], {}) + "echo on"], cwd=tmp_path, capture_output=True
        )
        assert done.returncode != 0
        assert b"on\n" not in done.stdout


def test_a_conda_environment_is_activated_by_conda_itself(tmp_path: Path) -> None:
    conda = tmp_path / "conda"
    conda.write_text('#!/bin/sh\n[ "$1 $2 $3" = "shell.posix activate my env" ] && echo "export CONDA_PREFIX=/c"\n')
    conda.chmod(0o755)
    text = job_text(a_run(conda_env="my env"), WORKERS[0], {"PATH": f"{tmp_path}:/usr/bin:/bin"})
    assert b"CONDA_PREFIX=/c\0" in sourced(text)


@pytest.mark.parametrize(
    ("argv", "env", "runtime", "named"),
    [
        (["x", "a" * (MAX_ARGUMENT_BYTES)], {}, "pjrt", "argument 1"),
        (["x"], {"BIG": "é" * (MAX_ARGUMENT_BYTES // 2)}, "pjrt", "BIG"),
        (["x", "a\0b"], {}, "pjrt", "NUL"),
        (["x"], {"A B": "1"}, "pjrt", "A B"),
        ([], {}, "pjrt", "nothing to run"),
        (["x"], {}, "cuda", "cuda"),
        (["x"] * 20 + ["a" * 120_000] * 17, {}, "pjrt", "together"),
    ],
)
def test_what_no_kernel_would_run_is_refused(argv: list[str], env: dict[str, str], runtime: str, named: str) -> None:
    with pytest.raises(UsageError, match=named):
        check_job(argv, env, runtime)


def test_the_largest_argument_that_runs_is_let_through() -> None:
    check_job(["x", "a" * (MAX_ARGUMENT_BYTES - 1)], {}, "pjrt")
    subprocess.run(["/bin/true", "a" * (MAX_ARGUMENT_BYTES - 1)], check=True)
    with pytest.raises(OSError, match="too long"):
        subprocess.run(["/bin/true", "a" * MAX_ARGUMENT_BYTES], check=True)
