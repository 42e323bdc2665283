from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from trainer.config import MODELS, OptimizerConfig, ReplicaConfig, TrainConfig
from trainer.errors import ConfigError
from trainer.options import parse, prepare_environment

FAKE = ["--fake-data"]
ROOT = Path(__file__).parents[2]


def refusal(arguments: list[str], environ: dict[str, str] | None = None) -> str:
    with pytest.raises(ConfigError) as caught:
        parse(arguments, environ or {})
    return str(caught.value)


def test_resnet_50_on_one_cpu_core_is_the_default() -> None:
    config = parse(FAKE, {})
    assert (config.model, config.optimizer.batch_size, config.replicas.world) == ("resnet50", 128, 1)


def test_the_place_in_the_slice_comes_from_the_environment() -> None:
    environ = {
        "PJRT_DEVICE": "cpu",
        "TPU_TUI_WORKER": "2",
        "TPU_TUI_WORKERS": "4",
        "TPU_TUI_CORES": "8",
        "TPU_TUI_COORDINATOR": "10.164.0.43:8476",
    }
    place = parse(FAKE, environ).replicas
    assert place == ReplicaConfig("CPU", 2, 4, 8, ("10.164.0.43", 8476), 300.0)
    assert place.world == 32
    assert [place.rank(core) for core in (0, 7)] == [16, 23]


def test_the_number_of_cores_on_the_command_line_beats_the_environment() -> None:
    assert parse([*FAKE, "--num-cores", "3"], {"TPU_TUI_CORES": "8"}).replicas.cores == 3


def test_on_tpu_the_number_of_cores_is_fixed_and_cannot_be_chosen() -> None:
    assert parse(FAKE, {"PJRT_DEVICE": "TPU", "TPU_TUI_CORES": "8"}).replicas.device == "TPU"
    with pytest.raises(ConfigError, match="--num-cores works on CPU devices only"):
        parse([*FAKE, "--num-cores", "4"], {"PJRT_DEVICE": "TPU"})


def test_an_ipv6_coordinator_keeps_its_colons() -> None:
    assert parse(FAKE, {"TPU_TUI_COORDINATOR": "[::1]:8476"}).replicas.coordinator == ("::1", 8476)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], "No training data named"),
        (["--data", "x", "--fake-data"], "exclude one another"),
        ([*FAKE, "--val-shards", "x"], "--val-shards needs --train-shards"),
        ([*FAKE, "--model", "resnet51"], "no model 'resnet51'"),
        ([*FAKE, "--batch-size", "0"], "--batch-size"),
        ([*FAKE, "--batch-size", "many"], "invalid int value"),
        ([*FAKE, "--learning-rate", "0"], "--learning-rate"),
        ([*FAKE, "--momentum", "1"], "--momentum"),
        ([*FAKE, "--weight-decay", "-1"], "--weight-decay"),
        ([*FAKE, "--epochs", "0"], "--epochs"),
        ([*FAKE, "--warmup-epochs", "-1"], "--warmup-epochs"),
        ([*FAKE, "--steps-per-epoch", "0"], "--steps-per-epoch"),
        ([*FAKE, "--log-steps", "0"], "--log-steps"),
        ([*FAKE, "--num-cores", "0"], "between 1 and 512 cores"),
        ([*FAKE, "--num-cores", "100000"], "between 1 and 512 cores"),
        ([*FAKE, "--seed", "-1"], "--seed must lie between 0 and 4294967295"),
        ([*FAKE, "--learning-rate", "inf"], "--learning-rate must be more than 0, and at most 1e+09"),
        ([*FAKE, "--weight-decay", "nan"], "--weight-decay"),
        ([*FAKE, "--weight-decay", "1e300"], "--weight-decay must lie between 0 and 1e+09"),
        (["--data", "s3://b/x"], "s3:// cannot be used here. Name a directory, or gs://bucket/prefix"),
        (["--train-shards", "https://h/{0..3}.tar"], "or give pipe:curl -sSfL https://h/{0..3}.tar"),
        ([*FAKE, "--checkpoint-dir", "s3://b/x"], "--checkpoint-dir s3://b/x: s3:// cannot be used here"),
        (["--data", "pipe:cat x"], "--data pipe:cat x is a command"),
        ([*FAKE, "--checkpoint-dir", "pipe:cat"], "--checkpoint-dir pipe:cat is a command"),
        ([*FAKE, "--resume", "pipe:cat"], "--resume pipe:cat is a command"),
        ([*FAKE, "--logdir", "pipe:cat"], "--logdir pipe:cat is a command"),
        ([*FAKE, "--warmup-epochs", "inf"], "--warmup-epochs"),
        ([*FAKE, "--timeout", "1e12"], "--timeout must lie between 1 and 604800"),
        ([*FAKE, "--timeout", "0.5"], "--timeout"),
        ([*FAKE, "--batch-size", f"1{30 * '0'}"], "--batch-size must lie between 1 and 1000000"),
        ([*FAKE, "--loader-workers", "10000"], "--loader-workers must lie between 0 and 512"),
        ([*FAKE, "--image-size", "31"], "--image-size must lie between 32 and 4096"),
        ([*FAKE, "--image-size", "4097"], "--image-size must lie between 32 and 4096"),
        ([*FAKE, "--classes", "1"], "--classes"),
        ([*FAKE, "--classes", "99999999999"], "--classes must lie between 2 and 1000000"),
        ([*FAKE, "--shuffle-buffer", "0"], "--shuffle-buffer"),
        ([*FAKE, "--loader-workers", "-1"], "--loader-workers"),
        ([*FAKE, "--label-smoothing", "1"], "--label-smoothing"),
        ([*FAKE, "--checkpoint-steps", "5"], "Give --checkpoint-dir too"),
        ([*FAKE, "--checkpoint-dir", "x", "--checkpoint-steps", "0"], "--checkpoint-steps must be at least 1"),
        ([*FAKE, "--checkpoint-dir", ""], "--checkpoint-dir is empty"),
        (["--data", ""], "--data is empty"),
        ([*FAKE, "--target-accuracy", "76"], "--target-accuracy needs validation shards"),
        (["--data", "x", "--target-accuracy", "101"], "between 0 and 100"),
        ([*FAKE, "--profiler-port", "9012"], "works on TPU only. PJRT_DEVICE is CPU"),
        ([*FAKE, "--compilation-cache", "/tmp/compiled"], "works on TPU only. XLA's CPU device cannot read back"),
        ([*FAKE, "--on-bad-shard", "ignore"], "on-bad-shard"),
        ([*FAKE, "--nonsense"], "nrecognized arguments"),
    ],
)
def test_arguments_that_make_no_sense_are_refused_in_a_sentence(arguments: list[str], says: str) -> None:
    assert says in refusal(arguments)


@pytest.mark.parametrize(
    ("environ", "says"),
    [
        ({"PJRT_DEVICE": "CUDA"}, "PJRT_DEVICE=CUDA"),
        ({"TPU_TUI_WORKER": "4", "TPU_TUI_WORKERS": "4"}, "between 0 and 3"),
        ({"TPU_TUI_WORKERS": "four"}, "TPU_TUI_WORKERS=four"),
        ({"TPU_TUI_WORKERS": "2"}, "need TPU_TUI_COORDINATOR"),
        ({"TPU_TUI_COORDINATOR": "worker-0"}, "not host:port"),
        ({"TPU_TUI_COORDINATOR": "worker-0:70000"}, "not host:port"),
        ({"TPU_TUI_COORDINATOR": "worker-0:8²"}, "not host:port"),
    ],
)
def test_an_environment_that_makes_no_sense_is_refused_in_a_sentence(environ: dict[str, str], says: str) -> None:
    assert says in refusal(FAKE, environ)


def test_a_refusal_is_one_line_with_the_next_step_in_it() -> None:
    text = refusal([*FAKE, "--model", "vgg"])
    assert "\n" not in text
    assert all(name in text for name in MODELS)


def test_configs_built_in_code_are_checked_too() -> None:
    with pytest.raises(ConfigError):
        OptimizerConfig(batch_size=-1)
    with pytest.raises(ConfigError):
        TrainConfig(model="none")


def test_loader_processes_are_the_default_on_tpu_only() -> None:
    assert parse(FAKE, {"PJRT_DEVICE": "CPU"}).loader_workers == 0
    assert parse(FAKE, {"PJRT_DEVICE": "TPU"}).loader_workers == 4
    assert parse([*FAKE, "--loader-workers", "2"], {"PJRT_DEVICE": "CPU"}).loader_workers == 2


def test_a_device_chosen_in_the_environment_is_kept() -> None:
    environ = {"PJRT_DEVICE": "TPU"}
    prepare_environment(environ)
    assert environ["PJRT_DEVICE"] == "TPU"


def test_paths_may_be_file_urls_and_may_start_with_the_home_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    written = {
        "file:///data/set": "/data/set",
        "file://localhost/data/set": "/data/set",
        "file:/data/{a,b}.tar": "/data/{a,b}.tar",
        "~/my set/*.tar": "/home/me/my set/*.tar",
        "a~/x": "a~/x",
        "gs://b/file:x": "gs://b/file:x",
        "pipe:cat ~/x": "pipe:cat ~/x",
    }
    for given, expected in written.items():
        assert parse(["--train-shards", given], {}).data.train == expected
    assert parse([*FAKE, "--checkpoint-dir", "~/kept"], {}).checkpoint.directory == "/home/me/kept"


def test_a_path_in_a_home_directory_that_does_not_exist_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "~")  # as where the user has neither the variable nor an entry in /etc/passwd
    with pytest.raises(ConfigError, match="There is no home directory for ~/set"):
        parse(["--data", "~/set"], {})


def test_help_exits_with_0(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        parse(["--help"], {})
    assert ended.value.code == 0
    assert "--train-shards" in capsys.readouterr().out


@pytest.mark.parametrize(("arguments", "code"), [(["--help"], 0), (["--model", "vgg", "--fake-data"], 2)])
def test_the_command_answers_before_torch_is_loaded(arguments: list[str], code: int, tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text("raise SystemExit('torch was imported')")
    environ = {**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}"}
    ran = subprocess.run(
        [sys.executable, "-m", "trainer.train", *arguments], cwd=tmp_path, env=environ, capture_output=True, text=True
    )
    assert ran.returncode == code, ran.stderr
    assert "torch was imported" not in ran.stderr


def test_a_missing_tpu_is_reported_before_torch_is_loaded() -> None:
    if any(Path("/dev").glob("accel*")) or any(Path("/dev/vfio").glob("[0-9]*")):
        pytest.skip("there is a TPU here")
    environ = {**os.environ, "PJRT_DEVICE": "TPU"}
    command = [sys.executable, "-m", "trainer.train", *FAKE]
    ended = subprocess.run(command, cwd=ROOT, env=environ, capture_output=True, text=True)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert re.fullmatch(r"There is no TPU on this machine[^\n]*\n", ended.stderr)


def test_a_run_prints_at_once_that_it_is_loading_and_ctrl_c_then_ends_it_without_a_traceback(tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text("import os, signal\nos.kill(os.getpid(), signal.SIGINT)\n")
    environ = {**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}"}
    ran = subprocess.run(
        [sys.executable, "-m", "trainer.train", *FAKE],
        cwd=tmp_path,
        env=environ,
        capture_output=True,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # it may be ignored here
    )
    assert ran.stdout.splitlines() == ["==> Loading PyTorch and PyTorch/XLA .."]
    assert (ran.returncode, ran.stderr) == (-signal.SIGINT, "")


@pytest.mark.parametrize("arguments", ["train --model vgg --fake-data", "shards folder /nowhere --out /nowhere/set"])
def test_a_command_whose_standard_output_is_closed_reports_errors_nevertheless(arguments: str) -> None:
    shell = f'exec "$0" -m trainer.{arguments} >&-'
    ran = subprocess.run(["sh", "-c", shell, sys.executable], cwd=ROOT, stderr=subprocess.PIPE, text=True)
    assert ran.returncode == 2, ran.stderr
    assert re.match(r"There is no (model 'vgg'|directory /nowhere)", ran.stderr)


def test_no_other_file_takes_the_place_of_closed_standard_streams_not_even_in_children(tmp_path: Path) -> None:
    look = "import os; open('found', 'w').write(' '.join(os.readlink(f'/proc/self/fd/{n}') for n in range(3)))"
    (tmp_path / "torch.py").write_text(
        f"import subprocess, sys; sys.exit(subprocess.call([sys.executable, '-c', {look!r}]))"
    )
    environ = {**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}"}
    shell = 'exec "$0" -m trainer.train --fake-data <&- >&- 2>&-'
    assert subprocess.call(["sh", "-c", shell, sys.executable], cwd=tmp_path, env=environ) == 0
    assert (tmp_path / "found").read_text() == "/dev/null /dev/null /dev/null"


@pytest.mark.parametrize(("device", "reported"), [("TPU", "/tmp/compiled"), ("TPU", "no"), ("CPU", "no")])
def test_the_directory_of_compiled_graphs_can_be_set(device: str, reported: str) -> None:
    config = parse([*FAKE, "--compilation-cache", reported], {"PJRT_DEVICE": device})
    assert config.compilation_cache == reported
