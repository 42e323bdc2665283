"""The trainer's loop on XLA's CPU device: the cost of its input and of averaging gradients."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import repeat
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from tests.bench.figures import Figure, at_least, at_most

if TYPE_CHECKING:
    from trainer.config import TrainConfig
    from trainer.distributed.replicas import Replicas
    from trainer.distributed.signals import StopSignal

ROUNDS = 7
"""How often both loops alternate; the figure is the median of the rounds' ratios."""

SAMPLES = 8192
"""Training images of 32 pixels in the streamed set."""


@dataclass(frozen=True)
class Loop:
    """A model whose training from shards is compared with training on one batch that stays on the device."""

    model: str
    batch: int
    steps: int
    target: float
    is_kept: bool = True
    """Whether samples stay in memory from one epoch to the next, which is the default."""


LOOPS = (Loop("resnet18", 32, 10, 0.98), Loop("tiny", 64, 128, 0.9), Loop("tiny", 64, 128, 0.0, is_kept=False))
FASTER = 2.5
WAITING = 2.0
"""Percent of an epoch's time that a replica may wait for its input."""


def figures() -> Iterator[Figure]:
    """Yield ratios of steps per second, the share of time spent waiting for data, and ratios of averaging times."""
    if importlib.util.find_spec("torch_xla") is None:
        yield Figure("the training loop", "PyTorch/XLA is not installed")
        return
    with tempfile.TemporaryDirectory() as directory:
        where = _images(Path(directory) / "set")
        for loop in LOOPS:
            found = _measured("loop", where, loop)
            what = f"{loop.model}, batch {loop.batch}: steps/s from shards / on one resident batch"
            if not loop.is_kept:
                yield Figure(f"{what}, each epoch read again (--keep-samples 0)", f"{found['ratio']:.3f} ×")
                continue
            yield at_least(what, found["ratio"], loop.target, "×", 3)
            yield at_most(f"{loop.model}, batch {loop.batch}: waiting for data", found["waiting"], WAITING, "%", 2)
        found = _measured("averaging", where, LOOPS[0])
        took = f"(gloo, 2 processes, {found['per_parameter']:.0f} ms / {found['flat']:.0f} ms)"
        yield at_least(f"resnet18's gradients, a call each / one flat {took}", found["ratio"], FASTER, "×")


def _images(out: Path) -> str:
    from trainer.shards import command, sources

    source = sources.shapes(SAMPLES, 10, 32, seed=1)
    command.make(source, str(out), samples_per_shard=512, repeat={}, seed=1)
    return str(out)


def _measured(what: str, where: str, loop: Loop) -> dict[str, float]:
    """Measure in a separate process, which gets XLA's device in its environment."""
    command = [
        sys.executable,
        "-m",
        "tests.bench.training",
        what,
        where,
        loop.model,
        str(loop.batch),
        str(loop.steps),
        *([] if loop.is_kept else ["--keep-samples", "0"]),
    ]
    environ = {**os.environ, "PJRT_DEVICE": "CPU", "OMP_NUM_THREADS": "1"}
    environ = {name: value for name, value in environ.items() if not name.startswith("TPU_TUI_")}
    ended = subprocess.run(command, env=environ, capture_output=True, text=True)
    if ended.returncode:
        raise RuntimeError(f"{' '.join(command)} failed: {ended.stderr}")
    found: dict[str, float] = json.loads(ended.stdout.splitlines()[-1])
    return found


# --- in the measured process --------------------------------------------------------------------------------------


def _measure(what: str, where: str, model: str, batch: str, steps: str, *more: str) -> int:
    from trainer.distributed.launcher import launch
    from trainer.options import parse

    cores, loop = ("2", _averaging) if what == "averaging" else ("1", _loop)
    plan = ["--batch-size", batch, "--steps-per-epoch", steps, "--log-steps", "10", "--epochs", "1000"]
    return launch(loop, parse(["--model", model, "--data", where, *plan, "--num-cores", cores, *more], os.environ))


def _loop(replicas: Replicas, config: TrainConfig, stopping: StopSignal) -> int:
    """Time epochs from shards and epochs on one resident batch, alternating.

    The first epoch of each, which compiles, is left out; the first one from shards also reads the shards that later
    ones may find in memory.
    """
    import torch_xla.core.xla_model as xm

    from trainer.data.batching import Batch
    from trainer.data.prefetch import BatchQueue, EpochPrefetcher
    from trainer.metrics.tensorboard import EventFile
    from trainer.train.loop import train_epoch
    from trainer.train.setup import TrainingRun, start

    waited: list[float] = []

    class WaitingTimes(EventFile):
        def add(self, step: int, **values: float) -> None:
            waited.extend(value for name, value in values.items() if name == "epoch_waiting_percent")

    class Resident(EpochPrefetcher[Batch]):
        def begin(self, epoch: int, first: int = 0) -> None:
            pass

        def epoch(self, epoch: int, first: int = 0) -> Iterator[Batch]:
            return repeat(one, from_shards.resumption.steps)

    from_shards = replace(start(replicas, config, stopping), events=WaitingTimes(None))
    images, labels = next(from_shards.input.epoch(1))
    one = images.to(replicas.device), labels.to(replicas.device)
    resident = replace(from_shards, input=Resident(lambda *_: BatchQueue(lambda: iter(()))))

    def seconds(run: TrainingRun, epoch: int) -> float:
        began = time.perf_counter()
        train_epoch(run, epoch)
        xm.wait_device_ops()
        return time.perf_counter() - began

    ratios, shares = [], []
    for epoch in range(1, ROUNDS + 2):
        order = (from_shards, resident) if epoch % 2 else (resident, from_shards)
        took = [seconds(run, epoch) for run in order]
        turn = order.index(from_shards)
        ratios.append(took[1 - turn] / took[turn])
        shares.append(waited[-2:][turn])
    print(json.dumps({"ratio": median(ratios[1:]), "waiting": median(shares[1:])}), flush=True)
    return 0


def _averaging(replicas: Replicas, config: TrainConfig, _: StopSignal) -> int:
    """Time the averaging, from gradients on the device to their mean on the device."""
    import torch
    import torch.distributed as dist
    import torch_xla
    import torch_xla.core.xla_model as xm

    from trainer.distributed.replicas import GlooReplicas
    from trainer.model import resnet

    assert isinstance(replicas, GlooReplicas)
    model = resnet.build(config.model, 10, 1).to(replicas.device)
    parameters = list(model.parameters())
    made = [torch.randn(p.shape) for p in parameters]

    def flat() -> None:
        replicas.average(parameters)

    def per_parameter() -> None:
        for p in parameters:
            assert p.grad is not None
            mean = p.grad.cpu()
            dist.all_reduce(mean)
            p.grad = (mean / replicas.world).to(replicas.device)

    def milliseconds(average: Callable[[], None]) -> float:
        for p, gradient in zip(parameters, made, strict=True):
            p.grad = gradient.to(replicas.device)
        torch_xla.sync(wait=True)
        dist.barrier()
        began = time.perf_counter()
        average()
        torch_xla.sync()
        xm.wait_device_ops()
        return 1000 * (time.perf_counter() - began)

    for average in (flat, per_parameter, flat, per_parameter):
        milliseconds(average)
    rounds = [(milliseconds(flat), milliseconds(per_parameter)) for _ in range(3 * ROUNDS)]
    if replicas.rank == 0:
        found: dict[str, Any] = {"ratio": median(slow / fast for fast, slow in rounds)}
        found["flat"] = median(fast for fast, _ in rounds)
        found["per_parameter"] = median(slow for _, slow in rounds)
        print(json.dumps(found), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(_measure(*sys.argv[1:]))
