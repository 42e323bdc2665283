"""Tests of trainings whose input hangs: SIGTERM saves and ends the training, and ends the commands it waited for."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.trainer import layouts
from tests.trainer.conftest import DEADLINE, Pod, skip_without_packages
from tests.waiting import is_running, wait_until

skip_without_packages()

TINY = ["--model", "tiny", "--batch-size", "8", "--log-steps", "1", "--classes", "10", "--image-size", "32"]
FOR_EVER = ["--epochs", "100000", "--shuffle-buffer", "1"]
"""Long enough that a training that waited for its grace period would take minutes, longer than the tests' timeout."""


def hanging(shapes: str, log: Path, after: int) -> str:
    """Return a pattern of eight shards from commands that hang once a process has opened more than `after` of them.

    Each command appends its reader's and its own process id to a log.
    """
    reported = f"read -r _ _ _ reader _ < /proc/$PPID/stat; echo $reader $$ >> {log}"
    hang = f"if [ $(grep -c ^$reader {log}) -gt {after} ]; then exec sleep 1000; fi"
    return f"pipe:{reported}; {hang}; cat {shapes}/shapes-train-{{000000..000007}}.tar"


def commands(log: Path) -> list[int]:
    """Return the process ids of the commands that were started."""
    return [int(line.split()[1]) for line in log.read_text().splitlines()] if log.exists() else []


@pytest.mark.parametrize(("cores", "entry_point"), [(1, layouts.as_on_tpu), (2, None)], ids=["as on TPU", "2 cores"])
def test_sigterm_saves_what_was_trained_before_the_input_hung(
    pods: Callable[[], Pod], shapes: str, tmp_path: Path, cores: int, entry_point: layouts.EntryPoint | None
) -> None:
    """Rank 0 has counted eight shards and got one, of four batches; a second core waits for rank 0."""
    log, checkpoints = tmp_path / "log", ["--checkpoint-dir", str(tmp_path / "kept")]
    pod = pods()
    source = ["--train-shards", hanging(shapes, log, after=9)]
    pod.start([*TINY, *source, *FOR_EVER, *checkpoints], cores=cores, entry_point=entry_point)
    pod.await_text(0, "xla:0/0 Epoch=1 Step=3 ")
    os.kill(pod.pid(0), signal.SIGTERM)
    [worker] = pod.wait()
    assert worker.exit_code == 143, worker
    assert worker.err == "No batch came for xla:0/0: step 4 of epoch 1 is skipped.\n"
    assert worker.lines[-1].endswith("at epoch 1 after step 4."), worker
    wait_until(lambda: not any(map(is_running, commands(log))), seconds=DEADLINE)
    log.unlink()
    source = ["--train-shards", hanging(shapes, log, after=1000)]
    [worker] = pods().run([*TINY, *source, "--shuffle-buffer", "1", "--epochs", "1", *checkpoints], cores=cores)
    assert worker.exit_code == 0, worker
    assert "Resumed" in worker.out
    assert "Step=4 " in next(line for line in worker.lines if "Training Device" in line)


BEFORE_THE_FIRST_STEP = "Stopping on SIGTERM before the first step.\n"


@pytest.mark.parametrize(
    ("workers", "cores", "entry_point"),
    [(2, 1, None), (2, 1, layouts.outlive_worker_0), (1, 2, None)],
    ids=["2 workers", "2 workers, of which worker 0 ends first", "2 cores"],
)
def test_each_worker_reports_sigterm_once_where_its_training_hangs_before_the_first_step(
    pod: Pod, shapes: str, tmp_path: Path, workers: int, cores: int, entry_point: layouts.EntryPoint | None
) -> None:
    log, checkpoints = tmp_path / "log", ["--checkpoint-dir", str(tmp_path / "kept")]
    arguments = [*TINY, "--train-shards", hanging(shapes, log, after=0), *FOR_EVER, *checkpoints]
    pod.start(arguments, workers=workers, cores=cores, entry_point=entry_point)
    wait_until(lambda: commands(log), seconds=DEADLINE)
    for worker in reversed(range(workers)):
        os.kill(pod.pid(worker), signal.SIGTERM)
    ended = pod.wait()
    assert [(worker.exit_code, worker.err) for worker in ended] == [(143, BEFORE_THE_FIRST_STEP)] * workers, ended
    wait_until(lambda: not any(map(is_running, commands(log))), seconds=DEADLINE)


def test_sigterm_is_reported_where_the_ranks_wait_for_the_tpu(pod: Pod) -> None:
    pod.start([*TINY, "--fake-data"], entry_point=layouts.wait_for_tpu)
    pod.await_text(0, "Waiting.")
    os.kill(pod.pid(0), signal.SIGTERM)
    [worker] = pod.wait()
    assert (worker.exit_code, worker.err) == (143, BEFORE_THE_FIRST_STEP), worker


def test_a_batch_that_hangs_in_an_evaluation_does_not_keep_a_run_from_saving(
    pod: Pod, shapes: str, tmp_path: Path
) -> None:
    log, checkpoints = tmp_path / "log", tmp_path / "kept"
    hang = f"[ -e {log} ] && echo 0 $$ >> {log} && exec sleep 1000; echo 0 $$ >> {log}"
    val = f"pipe:{hang}; cat {shapes}/shapes-val-000000.tar"
    source = ["--train-shards", f"{shapes}/shapes-train-{{000000..000007}}.tar", "--val-shards", val]
    pod.start([*TINY, *source, *FOR_EVER, "--steps-per-epoch", "2", "--checkpoint-dir", str(checkpoints)], cores=2)
    wait_until(lambda: len(commands(log)) > 1, seconds=DEADLINE)  # the first one only counted samples
    os.kill(pod.pid(0), signal.SIGTERM)
    [worker] = pod.wait()
    assert worker.exit_code == 143, worker
    assert "Stopping on SIGTERM in the evaluation of epoch 1" in worker.out
    assert "at epoch 1 after step 2." in worker.lines[-1]
    wait_until(lambda: not any(map(is_running, commands(log))), seconds=DEADLINE)
