# ruff: noqa: E402
"""Train a ResNet on every core of a slice: `python -m trainer.train --data gs://bucket/prefix`.

The same code on TPU (PJRT_DEVICE=TPU) and on XLA's CPU device (PJRT_DEVICE=CPU). One process a core; each reads
its own share of the shards, all hold the same parameters after every step. Read from the bottom up: `main` starts
the processes, `train` is one of them.
"""

from __future__ import annotations

import hashlib
import math
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

from trainer.config import OptimizerConfig, TrainConfig, parse, settle_device

settle_device(os.environ)  # torch_xla looks at PJRT_DEVICE when it is imported

import torch
import torch_xla
import torch_xla.core.xla_model as xm
from torch import nn

from trainer import data, memory, models, progress, split
from trainer.data import Dataset
from trainer.errors import REFUSED, ConfigError, TrainerError
from trainer.launch import Stopping, launch
from trainer.progress import RateTracker, write_line
from trainer.replicas import Replicas

LEARNING_RATE_BATCH = 256  # samples a step that --learning-rate is meant for


def learning_rate(config: OptimizerConfig, world: int, step: int, steps_per_epoch: int) -> float:
    """The rate for a step of the whole run: scaled to the global batch, linear warm-up, then half a cosine to 0.

    Linear scaling and gradual warm-up as in Goyal et al., "Accurate, Large Minibatch SGD" (2017).
    """
    peak = config.learning_rate * config.batch_size * world / LEARNING_RATE_BATCH
    epoch = (step + 1) / steps_per_epoch
    if epoch < config.warmup_epochs:
        return peak * epoch / config.warmup_epochs
    if config.epochs <= config.warmup_epochs:
        return peak
    done = (epoch - config.warmup_epochs) / (config.epochs - config.warmup_epochs)
    return peak * 0.5 * (1 + math.cos(math.pi * min(1.0, done)))


@dataclass
class Run:
    """One replica's run: the model on its device and what is needed to train it."""

    replicas: Replicas
    config: TrainConfig
    stopping: Stopping
    data: Dataset
    model: nn.Module
    optimizer: torch.optim.SGD
    compiled: set[str] = field(default_factory=set)

    @property
    def leads(self) -> bool:
        """Whether this replica speaks for all."""
        return self.replicas.rank == 0


def start(replicas: Replicas, config: TrainConfig, stopping: Stopping) -> Run:
    """Find the data, build the model, and see that both fit."""
    if replicas.rank == 0:
        write_line("==> Preparing data..")
    found = replicas.share(lambda: data.find(config, replicas.world))
    model = models.build(config.model, found.classes, config.seed)
    parameters = sum(p.numel() for p in model.parameters())
    if config.memory_check and config.replicas.device == "CPU":
        machines = replicas.gather(memory.this_machine())
        each = memory.needed(config.model, parameters, config.optimizer.batch_size, found.image_size)
        replicas.share(lambda: memory.check(machines, each))
    model.to(replicas.device)
    optimizer = torch.optim.SGD(
        model.parameters(),
        lr=config.optimizer.learning_rate,
        momentum=config.optimizer.momentum,
        weight_decay=config.optimizer.weight_decay,
    )
    if config.optimizer.momentum:
        # As SGD itself would in its first step; but then the second step would be another graph to compile.
        for p in model.parameters():
            optimizer.state[p]["momentum_buffer"] = torch.zeros_like(p)
    torch_xla.sync()
    if replicas.rank == 0:
        _introduce(replicas, config, found, parameters)
    return Run(replicas, config, stopping, found, model, optimizer)


def train_epoch(run: Run, epoch: int) -> float | None:
    """One epoch; returns the slice's samples a second, or None when the run is to stop."""
    replicas, config = run.replicas, run.config
    batch_size = config.optimizer.batch_size
    steps, loader = data.train_epoch(config, run.data, replicas.rank, replicas.world, epoch)
    criterion = nn.CrossEntropyLoss()
    run.model.train()
    if run.leads:
        write_line(progress.train_begin_line(epoch, datetime.now()))
    began = time.monotonic()
    tracker = RateTracker()

    def report(loss: torch.Tensor, step: int) -> None:
        value = loss.item()  # waits for the device: done on the steps that are printed, and only there
        rates = tracker.rate(), tracker.global_rate()
        write_line(progress.training_line(replicas.label, epoch, step, value, *rates, datetime.now()))

    for step, (images, labels) in enumerate(loader):
        compiling = _announce_compilation(run, "training step")
        for group in run.optimizer.param_groups:
            group["lr"] = learning_rate(config.optimizer, replicas.world, (epoch - 1) * steps + step, steps)
        scores = run.model(images.to(replicas.device))
        loss = criterion(scores, labels.to(replicas.device))
        loss.backward()
        tracker.add(batch_size)
        if step % config.log_steps == 0:
            xm.add_step_closure(report, args=(loss.detach(), step))  # runs once the step's graph has
        # The gradients' mean over all replicas, and the step. The vote makes all replicas stop at the same step.
        if replicas.step(run.optimizer, run.stopping.requested):
            _say_stopping(run, f"at epoch {epoch} step {step}")
            return None
        if compiling is not None:
            _tell_compiled(run, "training step", compiling)

    slice_rate = float(replicas.total(torch.tensor([tracker.global_rate()])).item())
    if run.leads:
        took = time.monotonic() - began
        write_line(progress.train_end_line(epoch, took, steps * batch_size, slice_rate, datetime.now()))
    return slice_rate


@torch.no_grad()
def evaluate(run: Run, epoch: int) -> float | None:
    """Accuracy in percent over the validation shards, each sample once; None when the run is to stop."""
    replicas = run.replicas
    average_statistics(run.model, replicas)
    _, loader = data.evaluation(run.config, run.data, replicas.rank, replicas.world)
    run.model.eval()
    correct = torch.zeros((), dtype=torch.int64, device=replicas.device)
    torch_xla.sync()  # zero would else be a constant of the first step's graph, and the second another graph
    samples = 0
    for step, (images, labels) in enumerate(loader):
        compiling = _announce_compilation(run, "evaluation")
        chosen = run.model(images.to(replicas.device)).argmax(dim=1)
        correct += (chosen == labels.to(replicas.device)).sum()  # padding equals no class
        samples += int((labels != data.PADDING).sum())
        torch_xla.sync()
        if step % run.config.log_steps == 0 and samples:
            accuracy = 100 * int(correct.item()) / samples
            write_line(progress.test_line(replicas.label, epoch, step, accuracy, datetime.now()))
        if compiling is not None:
            _tell_compiled(run, "evaluation", compiling)
        if run.stopping.requested:
            break
    mine = torch.tensor([int(correct.item()), samples, run.stopping.requested], dtype=torch.float32)
    hits, total, stop = replicas.total(mine).tolist()
    if stop:
        _say_stopping(run, f"in the evaluation of epoch {epoch}")
        return None
    reduced = float(100 * hits / total)
    if run.leads:
        own = 100 * float(mine[0]) / max(1, samples)
        write_line(progress.test_end_line(epoch, reduced, own, samples, datetime.now()))
    return reduced


def average_statistics(model: nn.Module, replicas: Replicas) -> None:
    """Batch norm's running statistics come from each replica's own batches: make them the mean over all."""
    buffers = [buffer for buffer in model.buffers() if buffer.is_floating_point()]
    flat = torch.cat([buffer.cpu().reshape(-1) for buffer in buffers])
    mean = replicas.total(flat) / replicas.world
    for buffer, part in zip(buffers, torch.split(mean, [buffer.numel() for buffer in buffers]), strict=True):
        buffer.copy_(part.view_as(buffer).to(buffer.device))
    torch_xla.sync()


def fingerprint(model: nn.Module) -> str:
    """A hash of everything the model has learned, the same on replicas that are in step."""
    digest = hashlib.sha256()
    for name, value in sorted(model.state_dict().items()):
        digest.update(name.encode() + value.cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()


def train(replicas: Replicas, config: TrainConfig, stopping: Stopping) -> None:
    """One replica, from start to end."""
    began = time.monotonic()
    run = start(replicas, config, stopping)
    best: float | None = None
    slice_rate = 0.0
    for epoch in range(1, config.optimizer.epochs + 1):
        trained = train_epoch(run, epoch)
        if trained is None:
            return
        slice_rate = trained
        if run.data.val is not None:
            accuracy = evaluate(run, epoch)
            if accuracy is None:
                return
            if run.leads and (best is None or accuracy > best):
                before = 0.0 if best is None else best
                write_line(f"Epoch {epoch} validation accuracy improved from {before:.2f}% to {accuracy:.2f}%")
            best = accuracy if best is None else max(best, accuracy)
    _verify_in_step(run)
    if run.leads:
        for line in progress.total_lines(time.monotonic() - began, best, slice_rate):
            write_line(line)


def _verify_in_step(run: Run) -> None:
    average_statistics(run.model, run.replicas)
    prints = run.replicas.gather(fingerprint(run.model))

    def compare() -> None:
        odd = [rank for rank, each in enumerate(prints) if each != prints[0]]
        if odd:
            raise TrainerError(
                f"The parameters of ranks {odd} differ from rank 0's", why="the replicas fell out of step"
            )

    run.replicas.share(compare)
    if run.leads:
        write_line(f"All {run.replicas.world} replicas hold the same parameters: sha256 {prints[0][:16]}")


def _introduce(replicas: Replicas, config: TrainConfig, found: Dataset, parameters: int) -> None:
    batch = config.optimizer.batch_size
    write_line(
        f"{config.model}, {parameters / 1e6:.1f} M parameters, {found.image_size}x{found.image_size} pixels, "
        f"{found.classes} classes, batch {batch} on each of {replicas.world} cores, "
        f"{config.optimizer.epochs} epochs"
    )
    if found.train is None:
        write_line("Fake data: one made-up batch a core, again and again")
        return
    steps, dropped = split.train_batches(found.train.samples, replicas.world, batch)
    val = f"; {found.val.samples} for validation" if found.val else ""
    write_line(
        f"{found.train.samples} training samples in {len(found.train.urls)} shards: {steps} steps an epoch, "
        f"{dropped} samples dropped{val}"
    )


def _announce_compilation(run: Run, what: str) -> float | None:
    """Say that the next step takes long, and why; returns when it began, or None where it is compiled already."""
    if what in run.compiled:
        return None
    run.compiled.add(what)
    write_line(f"Compiling the {what} for {run.replicas.label}, once; this can take a minute ...")
    return time.monotonic()


def _tell_compiled(run: Run, what: str, began: float) -> None:
    xm.wait_device_ops()
    write_line(f"Compiled the {what} for {run.replicas.label} in {time.monotonic() - began:.1f} s")


def _say_stopping(run: Run, where: str) -> None:
    run.stopping.requested = True
    if run.replicas.core == 0:
        write_line(f"Stopping on SIGTERM {where}")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run this worker's replicas to their end; returns the exit code."""
    try:
        config = parse(sys.argv[1:] if arguments is None else arguments, os.environ)
    except ConfigError as error:
        # The same on every worker, for all are started with the same arguments: one says it.
        if os.environ.get("TPU_TUI_WORKER", "0") == "0":
            write_line(str(error), descriptor=2)
        return REFUSED
    return launch(train, config)


if __name__ == "__main__":
    sys.exit(main())
