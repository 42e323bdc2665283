"""`xla_dist`: the launch line of its documentation, on the real SSH workers of a local pod."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import LocalPod
from tui.commands.launch import job_options
from tui.commands.parser.parser import parse

RECORDED: dict[str, Any] = json.loads((Path(__file__).parents[1] / "pod" / "data" / "xla_dist.json").read_text())[
    "environments"
]
"""Environments that xla_dist's own code computed."""
OPTIONS = ("--tpu=local", "--conda-env=torch-xla-1.13", "--env", "XLA_USE_BF16=1", "--env", "ANY_OTHER=ENV_VAR")
COMMAND = ("python", "/usr/share/torch-xla-1.13/pytorch/xla/test/test_train_mp_imagenet.py", "--fake_data")
WRITE_ENVIRONMENT = """\
import json, os, sys
print("torch_xla.core.xla_model::mark_step", file=sys.stderr)
print("after a step", file=sys.stderr)
with open(os.environ["OUT"] + "/worker-" + os.environ["TPU_TUI_WORKER"], "w") as file:
    json.dump(dict(os.environ), file)
"""
CONDA = '#!/bin/sh\n[ "$1 $2" = "shell.posix activate" ] && echo "export CONDA_DEFAULT_ENV=$3"\n'
SERVER = """\
import os, sys
with open(os.environ["OUT"] + "/server-" + os.environ["TPU_TUI_WORKER"], "w") as file:
    file.write(" ".join(sys.argv[1:]))
"""


def test_the_documented_line_becomes_a_launch(pod: LocalPod) -> None:
    answer = pod.call("xla_dist", *OPTIONS, "--dry-run", "--json", "--", *COMMAND)
    document = answer.document
    shown = document.pop("dry_run")
    assert shown.count("export XRT_LOCAL_WORKER=c_localservice:") == 4
    assert shown.count(" (the rest as on the first, without XRT_TPU_CONFIG):\n") == 3
    launch = document.pop("launch")
    assert document == {
        "slice": "local",
        "command": list(COMMAND),
        "env": {"XLA_USE_BF16": "1", "ANY_OTHER": "ENV_VAR"},
        "runtime": "xrt",
        "conda_env": "torch-xla-1.13",
    }
    args = parse(shlex.split(launch)[1:])
    job = job_options(args, "cpu")
    assert (args.command, args.slice, job.argv, job.runtime) == ("launch", "local", COMMAND, "xrt")
    assert (job.env, job.conda_env) == (document["env"], "torch-xla-1.13")
    assert not pod.call("runs", "--offline", "--json").document


def test_every_worker_gets_the_environment_of_xla_dist(pod: LocalPod, tmp_path: Path) -> None:
    (tmp_path / "conda").write_text(CONDA)
    (tmp_path / "conda").chmod(0o755)
    package = tmp_path / "torch_xla" / "core"
    package.mkdir(parents=True)
    (package / "xrt_run_server.py").write_text(SERVER)
    env = {"OUT": tmp_path, "PYTHONPATH": tmp_path, "PATH": f"{tmp_path}:/usr/local/bin:/usr/bin:/bin"}
    words = [word for name, value in env.items() for word in ("--env", f"{name}={value}")]
    options = (*OPTIONS, *words, "--tpuvm-server-port=51012")
    answer = pod.run("xla_dist", *options, "--", "python3", "-c", WRITE_ENVIRONMENT)
    assert answer.code == 0, answer.errors
    assert "The same as: tpu-tui launch local --runtime xrt --conda-env torch-xla-1.13 " in answer.errors
    assert answer.out.count("after a step\n") == 4
    assert "mark_step" not in answer.out
    assert pod.call("logs", "last", "--worker", "0").raw.splitlines()[0] == b"torch_xla.core.xla_model::mark_step"
    found = [json.loads((tmp_path / f"worker-{index}").read_text()) for index in range(4)]
    (slice_,) = pod.call("slices", "--json").document
    recorded = json.dumps(RECORDED[slice_["accelerator_type"]]["workers"]).replace(":51011", ":51012")
    for index, worker in enumerate(pod.call("workers", "local", "--json").document):
        recorded = recorded.replace(f"10.164.0.{index + 2}:", f"{worker['internal_ip']}:")
        assert (tmp_path / f"server-{index}").read_text() == "--port 51012 --restart"
    names = set().union(*json.loads(recorded))
    assert [{name: each[name] for name in names if name in each} for each in found] == json.loads(recorded)
    for each in found:
        wanted = ("1", "ENV_VAR", "torch-xla-1.13")
        assert (each["XLA_USE_BF16"], each["ANY_OTHER"], each["CONDA_DEFAULT_ENV"]) == wanted


@pytest.mark.parametrize(
    ("words", "note"),
    [
        (("--vm", "vm-1", "--vm", "vm-2"), "--vm has no effect"),
        (("--restart-tpuvm-pod-server",), "--restart-tpuvm-pod-server has no effect"),
        (("--env", "A=$HOME"), "Words with $ or ` reach the job as they are"),
    ],
)
def test_options_without_effect_are_accepted_and_named(pod: LocalPod, words: tuple[str, ...], note: str) -> None:
    answer = pod.call("xla_dist", "--tpu", "local", *words, "--dry-run", "python3", "train.py")
    assert answer.code == 0, answer.errors
    assert note in answer.errors
    assert answer.out.startswith("tpu-tui launch local --runtime xrt ")
    assert "set -- python3 train.py\n" in answer.out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--tpu=local",), "no command to launch"),
        (("--tpu=nowhere", "python3"), "nowhere"),
        (("--tpu=local", "--env", "XRT_TPU_CONFIG=x", "python3"), "XRT_TPU_CONFIG is set per worker"),
        (("--tpu=local", "--conda-env=e", "--docker-image=i", "python3"), "--conda-env and --docker-image exclude"),
        (("--tpu=local", "--tpuvm-server-port=70000", "python3"), "--tpuvm-server-port 70000 is not a port"),
    ],
)
def test_invalid_command_lines_are_refused(pod: LocalPod, words: tuple[str, ...], message: str) -> None:
    answer = pod.call("xla_dist", *words)
    assert answer.code == 2
    assert message in answer.errors


def test_docker_options_reach_the_launch(pod: LocalPod) -> None:
    options = ("--docker-image=gcr.io/tpu-pytorch/xla:r2.0", "--docker-container=mine", "--docker-run-flag=--rm=true")
    answer = pod.call("xla_dist", "--tpu=local", *options, "--dry-run", "--", *COMMAND)
    line = answer.out.splitlines()[0]
    assert all(option.replace("=", " ", 1) in line for option in options[:2])
    assert "--docker-run-flag=--rm=true" in line
    assert "docker run --name=mine --network=host --label=tpu-tui=" in answer.out
