from __future__ import annotations

import json
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.run_records import make_run
from tui.errors import UsageError
from tui.pod.job_options import DEFAULT_CONTAINER, JobOptions
from tui.pod.run import Run
from tui.pod.worker import Worker
from tui.pod.xrt_cluster import RESERVED_VARIABLES
from tui.runs.launch.job_script import MAX_ARGUMENT_BYTES, check_docker, check_job, job_environment, job_text
from tui.runs.launch.launch_spec import LaunchSpec, check_spec
from tui.ssh.config.access import Access

XLA_DIST: dict[str, Any] = json.loads((Path(__file__).parents[1] / "pod" / "data" / "xla_dist.json").read_text())
"""Environments and docker commands that xla_dist's own code computed."""
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


def test_unknown_values_are_not_set_and_given_values_win() -> None:
    env = job_environment(a_run(cores_per_worker=None, runtime="none"), WORKERS[0], {"PYTHONUNBUFFERED": ""})
    assert "TPU_TUI_CORES" not in env
    assert "PJRT_DEVICE" not in env
    assert env["PYTHONUNBUFFERED"] == ""
    assert job_environment(a_run(runtime="cpu"), WORKERS[0], {})["PJRT_DEVICE"] == "CPU"
    assert job_environment(a_run(), WORKERS[0], {"TPU_TUI_CORES": "4"})["TPU_TUI_CORES"] == "4"
    assert job_environment(a_run(), WORKERS[0], {"TPU_NAME": "local"})["TPU_NAME"] == "local"


def test_variables_that_are_set_per_worker_cannot_be_given_by_the_user() -> None:
    with pytest.raises(UsageError, match="TPU_TUI_WORKER is set on every worker"):
        check_job(["x"], {"TPU_TUI_WORKER": "3"}, "pjrt")


def test_xrt_gives_each_worker_the_variables_of_xla_dist_and_a_server_of_its_own() -> None:
    case = XLA_DIST["environments"]["v3-32, server on port 51012"]
    workers = [Worker(index, internal_ip=address) for index, address in enumerate(case["addresses"])]
    options = {"accelerator_type": case["accelerator_type"], "cores_per_worker": 8, "tpuvm_server_port": 51012}
    run = make_run("r-20261121-101500-00aa", "pod", ("true",), workers, runtime="xrt", **options)
    for worker, wanted in zip(workers, case["workers"], strict=True):
        env = job_environment(run, worker, {})
        own = ("TPU_TUI_", "PYTHONUNBUFFERED", "TPU_NAME")
        assert {name: value for name, value in env.items() if not name.startswith(own)} == wanted
        assert "python3 -m torch_xla.core.xrt_run_server --port 51012 --restart" in job_text(run, worker, {})
    assert job_environment(run, workers[1], {"TPU_HOST_BOUNDS": "1,4,1"})["TPU_HOST_BOUNDS"] == "1,4,1"
    for name in RESERVED_VARIABLES:
        with pytest.raises(UsageError, match=f"{name} is set per worker by --runtime xrt"):
            check_job(["x"], {name: "1"}, "xrt")


def test_vms_that_drive_a_tpu_node_get_its_endpoints_and_no_server_also_from_a_record() -> None:
    case = XLA_DIST["environments"]["TPU Node v3-32 with a group of 4 VMs"]
    workers = [Worker(index, internal_ip=address) for index, address in enumerate(case["addresses"])]
    options = {"accelerator_type": "v3-32", "tpu_node": "my-tpu", "node_endpoints": tuple(case["node_endpoints"])}
    planned = make_run("r-20261121-101500-00aa", "users", ("true",), workers, runtime="xrt", **options)
    run = Run.from_json(json.loads(json.dumps(planned.to_json())))
    for worker, wanted in zip(run.workers, case["workers"], strict=True):
        env = job_environment(run, worker, {})
        own = ("TPU_TUI_", "PYTHONUNBUFFERED", "TPU_NAME")
        assert {name: value for name, value in env.items() if not name.startswith(own)} == wanted
        assert (env["TPU_NAME"], env["TPU_TUI_SLICE"]) == ("my-tpu", "users")
        assert "xrt_run_server" not in job_text(run, worker, {})
    with pytest.raises(UsageError, match="drives TPU Node my-tpu, which PJRT cannot use"):
        check_spec(LaunchSpec(make_run("r", "users", ("true",), workers, runtime="pjrt", **options), {}, Access()))
    gone = make_run("r", "users", ("true",), workers, runtime="xrt", tpu_node="my-tpu")
    with pytest.raises(UsageError, match="TPU Node my-tpu, which users drives, does not exist"):
        check_spec(LaunchSpec(gone, {}, Access()))


def test_a_worker_is_reached_by_ipv6_in_brackets() -> None:
    workers = [Worker(0, internal_ip="fd00::2")]
    env = job_environment(make_run("r", "pod", ("true",), workers, runtime="xrt"), workers[0], {})
    assert env["XRT_TPU_CONFIG"] == "c_localservice;0;[fd00::2]:51011"
    assert env["TPU_TUI_COORDINATOR"] == "[fd00::2]:8476"


@pytest.mark.parametrize("name", XLA_DIST["docker"])
def test_docker_is_run_as_by_xla_dist_plus_a_label_and_the_variables_of_the_job(name: str) -> None:
    wanted = XLA_DIST["docker"][name]
    image = wanted.index("gcr.io/tpu-pytorch/xla:r2.0")
    container = wanted[2].removeprefix("--name=")
    run = a_run(
        argv=tuple(wanted[image + 1 :]),
        runtime="xrt",
        docker_image=wanted[image],
        docker_container=None if container == DEFAULT_CONTAINER else container,
        docker_run_flag=("--rm=true", "--shm-size=50GB"),
    )
    text = job_text(run, WORKERS[1], {"XLA_USE_BF16": "1", "ANY_OTHER": "ENV_VAR"})
    words = shlex.split(text.splitlines()[-1])[2:]
    label, place = f"--label=tpu-tui={run.id}/1", words.index("gcr.io/tpu-pytorch/xla:r2.0")
    assert words[4] == label
    own = [words[index + 1] for index in range(image + 1, place, 2)]
    assert [word for word in words[: image + 1] if word != label] + words[place:] == wanted
    assert own == [
        "TPU_TUI_CORES",
        "PYTHONUNBUFFERED",
        "TPU_NAME",
        "TPU_TUI_RUN",
        "TPU_TUI_SLICE",
        "TPU_TUI_WORKER",
        "TPU_TUI_WORKERS",
        "TPU_TUI_COORDINATOR",
        "TPU_TUI_ATTEMPT",
    ]


def test_a_container_under_pjrt_gets_the_variable_of_the_runtime() -> None:
    text = job_text(a_run(docker_image="image"), WORKERS[0], {"LR": "0.1"})
    assert " -e PJRT_DEVICE -e LR -e TPU_TUI_CORES " in text
    assert text.endswith(" image true\n")


def test_a_port_for_the_xrt_server_is_refused_where_there_is_none() -> None:
    with pytest.raises(UsageError, match="--tpuvm-server-port needs the XRT runtime"):
        check_spec(LaunchSpec(a_run(tpuvm_server_port=51012), {}, Access()))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"docker_container": "mine"}, "--docker-container needs an image"),
        ({"docker_run_flag": ("--rm",)}, "--docker-run-flag needs an image"),
        ({"docker_image": "x", "conda_env": "e"}, "--conda-env and --docker-image exclude each other"),
        ({"docker_image": "x", "venv": "e"}, "--venv and --docker-image exclude each other"),
    ],
)
def test_docker_options_that_contradict_each_other_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        check_docker(JobOptions(("true",), **options))


@pytest.mark.bash
@pytest.mark.parametrize("shell", ["dash", "bash"])
def test_words_and_values_arrive_byte_for_byte(shell: str) -> None:
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


def test_a_missing_virtual_environment_or_directory_ends_the_job(tmp_path: Path) -> None:
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
def test_a_job_that_cannot_run_is_refused(argv: list[str], env: dict[str, str], runtime: str, named: str) -> None:
    with pytest.raises(UsageError, match=named):
        check_job(argv, env, runtime)


def test_the_largest_argument_that_runs_is_accepted() -> None:
    check_job(["x", "a" * (MAX_ARGUMENT_BYTES - 1)], {}, "pjrt")
    subprocess.run(["/bin/true", "a" * (MAX_ARGUMENT_BYTES - 1)], check=True)
    with pytest.raises(OSError, match="too long"):
        subprocess.run(["/bin/true", "a" * MAX_ARGUMENT_BYTES], check=True)
