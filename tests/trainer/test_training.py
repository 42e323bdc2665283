"""Real trainings of a few steps, in real processes, as tpu-tui starts them."""

from __future__ import annotations

import os
import re
import signal
import socket
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

import pytest

for package in ("torch", "torch_xla", "torchvision", "webdataset"):
    pytest.importorskip(package, reason=f"{package} is not installed")

if TYPE_CHECKING:
    from tests.trainer.conftest import Pod

TRAINING = re.compile(
    r"\| Training Device=xla:0/(\d+) Epoch=(\d+) Step=(\d+) Loss=([\d.]+) "
    r"Rate=[\d.]+ GlobalRate=[\d.]+ Time=\d\d:\d\d:\d\d"
)
SMALL = ["--model", "resnet10", "--batch-size", "8", "--log-steps", "1", "--timeout", "60"]


def losses(lines: list[str]) -> list[float]:
    return [float(match[4]) for match in map(TRAINING.fullmatch, lines) if match]


def test_two_workers_train_to_a_lower_loss_and_the_same_parameters(pod: Pod, colours: str) -> None:
    options = ["--epochs", "2", "--warmup-epochs", "0.25", "--learning-rate", "0.1", "--steps-per-epoch", "10"]
    workers = pod.run([*SMALL, "--data", colours, *options], workers=2)
    assert [worker.exit_code for worker in workers] == [0, 0], workers
    for rank, worker in enumerate(workers):
        mine = losses(worker.lines)
        assert len(mine) == 2 * 10
        assert median(mine[10:]) < 0.5 * mine[0]
        assert {m[1] for m in map(TRAINING.fullmatch, worker.lines) if m} == {str(rank)}
        assert any(line.startswith(f"Compiling the training step for xla:0/{rank}") for line in worker.lines)
        assert [line for line in worker.lines if line.startswith("| Test Device=")]
    spoken = "\n".join(workers[0].lines)
    assert re.search(r"^Epoch 1 train begin \d\d:\d\d:\d\d$", spoken, re.M)
    assert re.search(r"^Epoch 2 train end .*, Replica Train Samples=80, Reduced GlobalRate=[\d.]+$", spoken, re.M)
    assert re.search(r"^Epoch 2 test end .*, Replica Test Samples=24$", spoken, re.M)
    assert re.search(r"^All 2 replicas hold the same parameters: sha256 [0-9a-f]{16}$", spoken, re.M)
    assert re.search(r"^Max Accuracy: [\d.]+%$", spoken, re.M)
    assert "Epoch 1 train" not in "\n".join(workers[1].lines)


def test_a_worker_of_two_cores_stops_on_sigterm_at_one_step_and_leaves_nobody(pod: Pod) -> None:
    pod.start([*SMALL, "--fake-data", "--image-size", "32", "--steps-per-epoch", "100000"], cores=2)
    pod.await_text(0, "Step=1 ")
    ranks = [int(pid) for pid in _children(pod.processes[0].pid)]
    assert len(ranks) == 2
    os.kill(pod.processes[0].pid, signal.SIGTERM)
    [worker] = pod.wait()
    assert worker.exit_code == 128 + signal.SIGTERM
    assert re.search(r"^Stopping on SIGTERM at epoch 1 step \d+$", worker.out, re.M)
    by_rank = [[m[3] for m in map(TRAINING.fullmatch, worker.lines) if m and m[1] == rank] for rank in "01"]
    assert by_rank[0] == by_rank[1]
    assert "Traceback" not in worker.err
    assert not [pid for pid in ranks if Path(f"/proc/{pid}").exists()]


def test_when_a_rank_is_killed_its_parent_says_which_and_the_others_end(pod: Pod) -> None:
    arguments = [*SMALL, "--fake-data", "--image-size", "32", "--steps-per-epoch", "100000"]
    pod.start(arguments, workers=2)
    pod.await_text(1, "Step=0 ")
    [victim] = _children(pod.processes[1].pid)
    os.kill(int(victim), signal.SIGKILL)
    other, killed = pod.wait()
    assert killed.exit_code == 128 + signal.SIGKILL
    assert "Rank 1 (worker 1, core 0) was killed by SIGKILL" in killed.err
    assert other.exit_code == 75
    assert "Rank 0 (worker 0, core 0): Another rank ended or froze" in other.err
    assert "Traceback" not in other.err + killed.err


def test_what_concerns_all_ranks_is_said_by_one(pod: Pod, shapes: str) -> None:
    workers = pod.run([*SMALL, "--data", shapes + "-not-there"], workers=2)
    assert [worker.exit_code for worker in workers] == [2, 2]
    assert "There is no directory" in workers[0].err
    assert len([line for line in workers[0].err.splitlines() if line]) == 1
    assert workers[1].err == ""


def test_workers_that_do_not_come_are_named(pod: Pod) -> None:
    [worker] = pod.run([*SMALL, "--fake-data", "--timeout", "1"], TPU_TUI_WORKERS="3")
    assert worker.exit_code == 2
    assert "2 of 3 ranks did not come within 1 s: missing from worker 1, 2" in worker.err


def test_a_tpu_that_is_not_there_is_told(pod: Pod) -> None:
    if any(Path("/dev").glob("accel*")) or any(Path("/dev/vfio").glob("[0-9]*")):
        pytest.skip("there is a TPU here")
    [worker] = pod.run(["--fake-data"], PJRT_DEVICE="TPU")
    assert worker.exit_code == 2
    assert worker.err.splitlines()[-1].startswith("There is no TPU on this machine")


def _children(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/task/{pid}/children").read_text().split()


def test_the_coordinators_port_may_be_in_use_on_another_address() -> None:
    from trainer.errors import TrainerError
    from trainer.rendezvous import listen

    with socket.create_server(("127.0.91.2", 0)) as other:
        port = other.getsockname()[1]
        with listen(("127.0.91.3", port)) as own:
            assert own.getsockname() == ("127.0.91.3", port)
        with pytest.raises(TrainerError, match=rf"cannot listen on 127.0.91.2:{port}"):
            listen(("127.0.91.2", port))


def test_gloo_takes_the_interface_that_leads_to_the_coordinator() -> None:
    from trainer.rendezvous import interface_towards

    assert interface_towards("127.0.91.1", 1) == "lo"
    assert interface_towards("name.invalid", 1) is None


def test_the_learning_rate_warms_up_scales_with_the_batch_and_decays_to_nothing() -> None:
    from trainer.config import OptimizerConfig
    from trainer.train import learning_rate

    config = OptimizerConfig(batch_size=128, learning_rate=0.1, epochs=5, warmup_epochs=1)
    rates = [learning_rate(config, 4, step, 10) for step in range(50)]
    assert max(rates) == pytest.approx(0.2)
    assert rates[0] == pytest.approx(0.02)
    assert rates.index(max(rates)) in (9, 10)
    assert rates[-1] == pytest.approx(0, abs=1e-9)
    assert rates[:10] == sorted(rates[:10])
    assert rates[10:] == sorted(rates[10:], reverse=True)
