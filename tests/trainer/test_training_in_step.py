"""Tests of equal results: the parameters, losses and saved state do not depend on the number of workers and cores."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from statistics import fmean

import pytest

from tests.trainer.conftest import SAVED_RUN, Pod, Worker, skip_without_packages

skip_without_packages()

GLOBAL_BATCH = 16
STEPS = 6
LOSS = re.compile(r"\| Training Device=xla:0/(\d+) Epoch=1 Step=(\d+) Loss=([\d.]+) .*")


def loss_curve(workers: list[Worker]) -> list[float]:
    """Return the mean loss over all replicas, step by step."""
    found = [match for worker in workers for match in map(LOSS.fullmatch, worker.lines) if match]
    return [fmean(float(match[3]) for match in found if int(match[2]) == step) for step in range(STEPS)]


def test_the_same_global_batch_gives_the_same_loss_and_one_set_of_parameters_however_it_is_split(
    pods: Callable[[], Pod],
) -> None:
    curves = {}
    for workers, cores in ((1, 1), (1, 2), (2, 2)):
        world = workers * cores
        batch = ["--batch-size", str(GLOBAL_BATCH // world), "--learning-rate", "3", "--momentum", "0.5"]
        fake = ["--fake-data", "--image-size", "32", "--steps-per-epoch", str(STEPS), "--warmup-epochs", "0.5"]
        arguments = ["--model", "tiny", "--epochs", "1", "--log-steps", "1", "--timeout", "60", *batch, *fake]
        ended = pods().run(arguments, workers=workers, cores=cores)
        assert [worker.exit_code for worker in ended] == [0] * workers, ended
        subject = f"All {world} replicas hold the same" if world > 1 else "The replica's"
        assert f"\n{subject} parameters: sha256 " in ended[0].out
        curves[workers, cores] = loss_curve(ended)
    alone = curves[1, 1]
    assert alone[-1] < 0.99 * alone[0]  # the model has learned, so that a wrong mean of gradients would show
    for curve in curves.values():
        assert curve == pytest.approx(alone, abs=3e-5)


def test_the_saved_state_does_not_depend_on_the_rank_that_saves(saved: Path) -> None:
    import torch

    from trainer.checkpoint import store
    from trainer.storage import objects

    own = [torch.load(f"{saved}.rank{rank}") for rank in (0, 1)]
    path = str(saved / "checkpoint-000001.json")
    state = store.load(str(saved), store.Pointer.from_json(objects.read(path), path)).floats
    assert own[0]
    for name, first in own[0].items():
        assert not torch.equal(first, own[1][name])
        assert torch.allclose(state[f"model.{name}"], (first + own[1][name]) / 2)


def test_a_run_resumed_on_fewer_cores_repeats_the_epoch_and_reports_it(
    pod: Pod, colours: str, checkpoints: Path
) -> None:
    [after] = pod.run([*SAVED_RUN, "--data", colours, "--checkpoint-dir", str(checkpoints)], cores=1)
    assert after.exit_code == 0, after
    [printed] = [line for line in after.lines if line.startswith("Resumed from ")]
    assert printed.endswith(
        "at epoch 1 after step 0, from the epoch's beginning: the 3 steps done in it are repeated, "
        "because data, batch, cores or seed have changed"
    )
    assert [match[2] for match in map(LOSS.fullmatch, after.lines) if match] == ["0", "1", "2"]
