"""Tests of the rehearsal job: it prints what trainers print, and says that it does not train."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tui.localpod.rehearsal.log_format import LOG_FORMATS, PREFIXES

TRAINING = re.compile(
    r"\| Training Device=xla:(?P<device>\d+)/(?P<core>\d+) Epoch=(?P<epoch>\d+) Step=(?P<step>\d+) "
    r"Loss=(?P<loss>[\d.]+|nan) Rate=(?P<rate>[\d.]+) GlobalRate=[\d.]+ Time=\d\d:\d\d:\d\d"
)
SHAPES = {
    "torch_xla": TRAINING.pattern,
    "no-epoch": r"\| Training Device=xla:\d+/\d+ Step=\d+ Loss=[\d.]+ Rate=[\d.]+ GlobalRate=[\d.]+ Time=[\d:]+",
    "old": r"\[xla:\d+/\d+\]\(\d+\) Loss=[\d.]+ Rate=[\d.]+ GlobalRate=[\d.]+ Time=\w{3} \w{3} [ \d]\d [\d:]+ \d{4}",
    "oldest": r"\[xla:\d+\]\(\d+\) Loss=[\d.]+ Rate=[\d.]+ GlobalRate=[\d.]+ Time=.*",
    "maxtext": r"I\d{4} [\d:.]+ \d+ metric_logger.py:214\] completed step: \d+, seconds: [\d.]+, .*loss: [\d.]+",
    "huggingface": r"\{'loss': '[\d.]+', 'grad_norm': '[\d.]+', 'learning_rate': '[\d.]+', 'epoch': '[\d.]+'\}",
    "lightning": r"Epoch \d+: +\d+%\|.{7}\| \d+/\d+ \[\d\d:\d\d<\d\d:\d\d, +[\d.]+s/it, loss=[\d.]+, v_num=\d+\]",
    "keras": r"\d+/\d+ \[[=.]{30}\] - 5s \d+ms/step - loss: [\d.]+ - acc: [\d.]+",
    "torchtitan": r".*\x1b\[31mstep: +\d+  \x1b\[32mloss: +[\d.]+ .*tps: [\d,]+ .*",
    "levanter": r"Progress on:train \d+it/\d+it rate:[\d.]+s/it .*loss=[\d.]+",
    "megatron": r"iteration +\d+/ +\d+ \| consumed samples: +\d+ \| .* \| lm loss: \d\.\d{6}E[+-]\d\d \|",
}


def rehearse(*options: str, **variables: str) -> subprocess.CompletedProcess[bytes]:
    """Run the rehearsal to its end, as fast as possible."""
    words = [sys.executable, "-m", "tui.localpod.rehearsal", *options]
    if "--interval" not in options and "--rate" not in options:
        words += ["--interval", "0"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("TPU_TUI_")} | variables
    return subprocess.run(words, env=environment, capture_output=True, check=False, timeout=60)


def training_lines(done: subprocess.CompletedProcess[bytes]) -> list[re.Match[str]]:
    """Return the training lines of torch_xla's dialect."""
    return [found for line in done.stdout.decode().splitlines() if (found := TRAINING.fullmatch(line))]


def cores_in(done: subprocess.CompletedProcess[bytes]) -> list[int]:
    return sorted({int(line["core"]) for line in training_lines(done)})


def start(*options: str, **streams: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-m", "tui.localpod.rehearsal", *options], **streams)


@pytest.mark.parametrize("dialect", sorted(LOG_FORMATS))
def test_the_first_and_the_last_line_say_that_nothing_is_trained(dialect: str) -> None:
    done = rehearse("--steps", "1", "--epochs", "1", "--dialect", dialect)
    first, *_, last = done.stdout.decode().splitlines()
    assert first.startswith("REHEARSAL: nothing is trained")
    assert "nothing was trained" in last
    assert done.returncode == 0


@pytest.mark.parametrize("dialect", sorted(LOG_FORMATS))
def test_the_lines_of_every_dialect_have_its_shape(dialect: str) -> None:
    lines = rehearse("--steps", "3", "--epochs", "1", "--dialect", dialect).stdout.decode().splitlines()
    assert sum(bool(re.fullmatch(SHAPES[dialect], line)) for line in lines) >= 3, lines


def test_each_core_of_each_worker_prints_once_per_step() -> None:
    done = rehearse("--steps", "5", "--epochs", "2", TPU_TUI_WORKER="2", TPU_TUI_WORKERS="4", TPU_TUI_CORES="8")
    assert cores_in(done) == list(range(16, 24))
    assert len(training_lines(done)) == 8 * 5 * 2


def test_ordinals_can_be_interleaved_over_the_workers() -> None:
    done = rehearse("--steps", "1", "--interleave", TPU_TUI_WORKER="1", TPU_TUI_WORKERS="4", TPU_TUI_CORES="3")
    assert cores_in(done) == [1, 5, 9]


def test_only_the_first_worker_prints_epochs() -> None:
    first = rehearse("--steps", "2", "--epochs", "2", "--worker", "0").stdout.decode()
    second = rehearse("--steps", "2", "--epochs", "2", "--worker", "1").stdout.decode()
    for printed in (
        "Epoch 2 train begin",
        "Epoch 2 train end",
        "Reduced Accuracy=",
        "Max Accuracy: ",
        "Avg. Global Rate: ",
    ):
        assert printed in first
        assert printed not in second


def test_the_loss_falls_and_the_same_seed_prints_the_same() -> None:
    runs = [training_lines(rehearse("--steps", "30", "--cores", "2", "--seed", seed)) for seed in ("4", "4", "5")]
    losses = [[line["loss"] for line in lines] for lines in runs]
    assert losses[0] == losses[1] != losses[2]
    assert float(losses[0][-1]) < 0.5 * float(losses[0][0])


def test_a_straggler_lags_and_is_slow() -> None:
    lines = training_lines(rehearse("--steps", "30", "--epochs", "2", "--cores", "4", "--straggler", "2"))
    last = {int(line["core"]): line for line in lines}
    reached = {core: (int(line["epoch"]), int(line["step"])) for core, line in last.items()}
    assert reached == {0: (2, 29), 1: (2, 29), 2: (1, 19), 3: (2, 29)}
    assert float(last[2]["rate"]) < 0.5 * float(last[1]["rate"])


def test_a_nan_starts_at_the_requested_step() -> None:
    lines = training_lines(rehearse("--steps", "10", "--epochs", "1", "--cores", "2", "--nan", "1@4"))
    gone = [(int(line["core"]), int(line["step"])) for line in lines if line["loss"] == "nan"]
    assert gone == [(1, step) for step in range(4, 10)]


def test_a_crash_comes_at_its_step_on_its_worker_with_its_code() -> None:
    options = ("--steps", "10", "--crash-at", "12", "--crash-worker", "1", "--exit-code", "7")
    crashed, other = (rehearse(*options, TPU_TUI_WORKER=worker, TPU_TUI_WORKERS="2") for worker in "10")
    assert (crashed.returncode, other.returncode) == (7, 0)
    assert len(training_lines(crashed)) == 12
    assert b"RuntimeError: REHEARSAL: worker 1 crashes on request" in crashed.stderr
    assert other.stderr == b""


def test_a_silent_worker_prints_nothing_until_sigterm() -> None:
    process = start("--interval", "0", "--silent", "0@2", "--worker", "0", stdout=subprocess.PIPE)
    assert process.stdout is not None
    while b"Step=1 " not in process.stdout.readline():
        pass
    assert process.poll() is None
    process.terminate()
    rest = process.stdout.read()
    process.stdout.close()
    assert process.wait(10) == 143
    assert rest.decode() == "REHEARSAL: SIGTERM received at epoch 1, step 2; ending\n"


def test_sigterm_ends_the_job_after_a_whole_line_with_a_last_line() -> None:
    process = start("--rate", "5000", "--steps", "1000000", "--cores", "8", stdout=subprocess.PIPE)
    assert process.stdout is not None
    for _ in range(100):
        process.stdout.readline()
    process.terminate()
    lines = process.stdout.read().decode().splitlines()
    process.stdout.close()
    assert process.wait(10) == 143
    assert lines[-1].startswith("REHEARSAL: SIGTERM received at epoch 1, step ")
    assert all(TRAINING.fullmatch(line) for line in lines[:-1])


def test_with_ignore_term_the_job_continues_after_sigterm() -> None:
    process = start("--rate", "500", "--ignore-term", stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    process.terminate()
    for _ in range(50):
        assert process.stdout.readline()
    assert process.poll() is None
    process.kill()
    process.stdout.close()
    assert process.wait(10) == -signal.SIGKILL


def test_a_closed_pipe_ends_the_job_without_a_traceback() -> None:
    process = start("--interval", "0", "--steps", "1000000", stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.readline()
    process.stdout.close()
    assert process.stderr.read() == b""
    process.stderr.close()
    assert process.wait(10) == 141


def test_junk_contains_what_real_logs_contain_and_loses_no_sample() -> None:
    done = rehearse("--steps", "300", "--epochs", "1", "--cores", "4", "--junk")
    for piece in (b"\r", b"\x1b]0;", b"\xff\xfe\0", b"[bold red]", b"|| Training Device=", "\u202e".encode()):
        assert piece in done.stdout
    assert max(map(len, done.stdout.split(b"\n"))) >= 1 << 20
    printed = re.findall(rb"Training Device=xla:\d+/\d+ Epoch=\d+ Step=\d+ Loss=[\d.]+ Rate=", done.stdout)
    assert len(printed) == 4 * 300


@pytest.mark.parametrize(
    ("prefix", "shape"),
    [
        ("xla_dist", r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d 10\.0\.0\.7 \[3\] "),
        ("xla_dist-undated", r"10\.0\.0\.7 \[3\] "),
        ("number", r"\[3\] "),
        ("skypilot", r"\(worker3, rank=3, pid=\d+, ip=10\.0\.0\.7\) "),
        ("ray", r"\x1b\[36m\(RayTrainWorker pid=\d+, ip=10\.0\.0\.7\)\x1b\[0m "),
        ("srun", r"3: "),
        ("mpirun", r"\[1,3\]<stdout>:"),
        ("pdsh", r"10\.0\.0\.7: "),
        ("torchrun", r"\[rank3\]: "),
    ],
)
def test_every_line_has_the_launchers_prefix(prefix: str, shape: str) -> None:
    options = ("--steps", "2", "--epochs", "1", "--worker", "3", "--address", "10.0.0.7", "--prefix", prefix)
    lines = rehearse(*options).stdout.decode().splitlines()
    assert len(lines) >= 4
    assert all(re.match(shape, line) for line in lines)
    assert set(PREFIXES) - {"none"} >= {prefix}


def test_each_line_is_one_write() -> None:
    reader, writer = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with reader:
        process = start("--interval", "0", "--steps", "20", "--epochs", "1", "--cores", "4", stdout=writer.fileno())
        writer.close()
        writes = list(iter(lambda: reader.recv(1 << 16), b""))
    assert process.wait(10) == 0
    assert len(writes) > 80
    assert all(data.count(b"\n") == 1 and data.endswith(b"\n") for data in writes)


def test_the_job_holds_its_workers_devices_open_while_it_runs(tmp_path: Path) -> None:
    device = tmp_path / "accel0"
    device.touch()
    words = [sys.executable, "-m", "tui.localpod.rehearsal", "--interval", "60"]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, env=os.environ | {"TPU_TUI_DEVICES": str(device)})
    assert process.stdout is not None
    process.stdout.readline()
    held = {str(entry.readlink()) for entry in Path(f"/proc/{process.pid}/fd").iterdir()}
    process.kill()
    process.stdout.close()
    process.wait()
    assert str(device) in held


@pytest.mark.parametrize("wrong", [("--nan", "3"), ("--silent", "x@1"), ("--steps", "0"), ("--dialect", "latin")])
def test_wrong_options_are_usage_errors(wrong: tuple[str, str]) -> None:
    done = rehearse(*wrong)
    assert done.returncode == 2
    assert wrong[0].encode() in done.stderr
    assert done.stdout == b""


def test_the_rehearsal_imports_no_large_library() -> None:
    code = "import sys, tui.localpod.rehearsal; print(sorted({name.partition('.')[0] for name in sys.modules}))"
    names = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout.decode()
    for heavy in ("asyncio", "asyncssh", "google", "numpy", "textual", "torch"):
        assert f"'{heavy}'" not in names
