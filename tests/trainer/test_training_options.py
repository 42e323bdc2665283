"""Tests of what --bf16 and --label-smoothing do to a run's losses, on XLA's device."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from tests.trainer.conftest import Pod, skip_without_packages

skip_without_packages()

SEED, BATCH, SIZE, CLASSES = 5, 16, 32, 10
LOSS = re.compile(r"\| Training Device=xla:0/0 Epoch=1 Step=\d+ Loss=([\d.]+) .*")
RUN = ["--model", "tiny", "--seed", str(SEED), "--batch-size", str(BATCH), "--timeout", "60", "--log-steps", "1"]
FAKE = [
    "--fake-data",
    "--image-size",
    str(SIZE),
    "--classes",
    str(CLASSES),
    "--epochs",
    "1",
    "--steps-per-epoch",
    "6",
]
LEARNING = ["--learning-rate", "3", "--momentum", "0.5", "--warmup-epochs", "0.5"]


@pytest.fixture(scope="module")
def bf16(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Return the options of a training in bfloat16 that saves a checkpoint, in the directory named last."""
    return ["--bf16", "--checkpoint-dir", str(tmp_path_factory.mktemp("kept"))]


@pytest.fixture(scope="module")
def losses(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., list[float]]:
    """Return a function that runs a training with more options once, and returns its losses."""
    known: dict[tuple[str, ...], list[float]] = {}

    def run(*options: str) -> list[float]:
        if options not in known:
            pod = Pod(tmp_path_factory.mktemp("options"))
            [worker] = pod.run([*RUN, *FAKE, *LEARNING, *options])
            assert worker.exit_code == 0, worker
            known[options] = [float(match[1]) for match in map(LOSS.fullmatch, worker.lines) if match]
        return known[options]

    return run


def test_label_smoothing_gives_the_loss_that_its_formula_gives_on_the_same_scores(
    losses: Callable[..., list[float]],
) -> None:
    import torch

    from trainer.data import synthetic
    from trainer.model import resnet

    [(images, labels)] = synthetic.batches(batch=BATCH, size=SIZE, classes=CLASSES, seed=SEED, rank=0, steps=1)
    with torch.no_grad():
        scores = resnet.build("tiny", CLASSES, SEED)(images)
    unlikely = scores.logsumexp(1, keepdim=True) - scores  # -log of each class's probability
    right, uniform = unlikely[torch.arange(BATCH), labels].mean(), unlikely.mean()
    plain, smoothed = losses()[0], losses("--label-smoothing", "0.3")[0]
    assert plain == pytest.approx(float(right), abs=2e-5)
    assert smoothed == pytest.approx(float(0.7 * right + 0.3 * uniform), abs=2e-5)
    assert abs(smoothed - plain) > 1e-3  # so that the two cannot be confused


def test_bf16_rounds_what_is_computed_and_learns_equally(losses: Callable[..., list[float]], bf16: list[str]) -> None:
    whole, rounded = losses(), losses(*bf16)
    assert len(whole) == len(rounded) == 6
    assert whole != rounded
    assert rounded == pytest.approx(whole, rel=0.004)  # the most that one value loses with its 8 bits
    assert rounded[-1] < 0.99 * rounded[0]


def test_bf16_keeps_parameters_and_momentum_in_float32(losses: Callable[..., list[float]], bf16: list[str]) -> None:
    import torch

    from trainer.checkpoint import store
    from trainer.storage import objects

    assert losses(*bf16)
    directory = bf16[-1]
    path = f"{directory}/checkpoint-000001.json"
    saved = store.load(directory, store.Pointer.from_json(objects.read(path), path)).floats
    assert {value.dtype for value in saved.values()} == {torch.float32}
    weights = saved["model.body.0.weight"]
    assert not torch.equal(weights, weights.bfloat16().float())
