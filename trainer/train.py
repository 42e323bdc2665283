# ruff: noqa: E402
"""Train a ResNet on every core of a slice: `python -m trainer.train --data gs://bucket/prefix`.

The same code on TPU (PJRT_DEVICE=TPU) and on XLA's CPU device (PJRT_DEVICE=CPU). One process a core; each reads
its own share of the shards, all hold the same parameters after every step. Read from the bottom up: `launch` starts
the processes, `train` is one of them.
"""

from __future__ import annotations

import contextlib
import math
import os
import sys
import time
from dataclasses import dataclass
from datetime import datetime

from trainer.config import OptimizerConfig, TrainConfig, read_command_line, settle_device
from trainer.progress import write_line

settle_device(os.environ)  # torch_xla looks at PJRT_DEVICE when it is imported
if __name__ == "__main__":
    COMMAND_LINE = read_command_line()  # wrong arguments and --help are answered before the seconds of importing
    write_line("==> Loading PyTorch and PyTorch/XLA ..")

import torch
import torch_xla
import torch_xla.core.xla_model as xm
from torch import nn

from trainer import data, memory, models, progress, split
from trainer.compilation import Compilation
from trainer.data import Dataset
from trainer.errors import BELOW_TARGET, TrainerError
from trainer.launch import Stopping, launch
from trainer.progress import RateTracker, Waiting
from trainer.replicas import Replicas
from trainer.resumption import Resumption, average_statistics, fingerprint

LEARNING_RATE_BATCH = 256  # samples a step that --learning-rate is meant for
ALMOST_ONE = 1 - 1e-6


def learning_rate(config: OptimizerConfig, world: int, step: int, steps_per_epoch: int) -> float:
    """The rate for a step of the whole run: scaled to the global batch, linear warm-up, then half a cosine to 0.

    Linear scaling and gradual warm-up as in Goyal et al., "Accurate, Large Minibatch SGD" (2017).
    """
    peak = config.learning_rate * config.batch_size * world / LEARNING_RATE_BATCH
    rate = peak
    if (step + 1) / steps_per_epoch < config.warmup_epochs:
        rate = peak * (step + 1) / steps_per_epoch / config.warmup_epochs
    elif config.epochs > config.warmup_epochs:
        done = (step / steps_per_epoch - config.warmup_epochs) / (config.epochs - config.warmup_epochs)
        rate = peak * 0.5 * (1 + math.cos(math.pi * min(1.0, max(0.0, done))))
    # PyTorch/XLA makes the factor 1 a constant of the graph, and would compile another one for that step.
    return ALMOST_ONE if rate == 1 else rate


@dataclass
class Run:
    """One replica's run: the model on its device and what is needed to train it."""

    replicas: Replicas
    config: TrainConfig
    stopping: Stopping
    data: Dataset
    model: nn.Module
    optimizer: torch.optim.SGD
    resumption: Resumption
    compilation: Compilation

    @property
    def leads(self) -> bool:
        """Whether this replica speaks for all."""
        return self.replicas.rank == 0


def start(replicas: Replicas, config: TrainConfig, stopping: Stopping) -> Run:
    """Find the data, build the model or find it in a checkpoint, and see that both fit."""
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
    resumption = Resumption(replicas, config, found, model, optimizer)
    compilation = Compilation(replicas.label)
    return Run(replicas, config, stopping, found, model, optimizer, resumption, compilation)


def train_epoch(run: Run, epoch: int, first: int = 0) -> float | None:
    """One epoch, from step `first` on; returns the slice's samples a second, or None when the run is to stop."""
    replicas, config, saves = run.replicas, run.config, run.resumption
    batch_size = config.optimizer.batch_size
    steps, loader = data.train_epoch(config, run.data, replicas.rank, replicas.world, epoch, first)
    criterion = nn.CrossEntropyLoss(label_smoothing=config.optimizer.label_smoothing)
    run.model.train()
    if run.leads:
        write_line(progress.train_begin_line(epoch, datetime.now()))
    began = time.monotonic()
    tracker = RateTracker()
    waiting = Waiting()

    def report(loss: torch.Tensor, step: int) -> None:
        value = loss.item()  # waits for the device: done on the steps that are printed, and only there
        rates = tracker.rate(), tracker.global_rate()
        write_line(progress.training_line(replicas.label, epoch, step, value, *rates, datetime.now()))

    for step, (images, labels) in enumerate(waiting.timed(loader), first):
        with run.compilation.of("training step"):
            for group in run.optimizer.param_groups:
                group["lr"] = learning_rate(config.optimizer, replicas.world, (epoch - 1) * steps + step, steps)
            with _precision(config):
                scores = run.model(images.to(replicas.device))
            loss = criterion(scores.float(), labels.to(replicas.device))
            loss.backward()
            tracker.add(batch_size)
            if step % config.log_steps == 0:
                xm.add_step_closure(report, args=(loss.detach(), step))  # runs once the step's graph has
            # The gradients' mean over all replicas, and the step. The vote makes all stop at the same step.
            stop = replicas.step(run.optimizer, run.stopping.requested)
        if stop:
            _say_stopping(run, f"at epoch {epoch} step {step}")
            saves.save(epoch, step + 1)
            return None
        if saves.due((epoch - 1) * steps + step + 1):
            saves.save(epoch, step + 1)

    took = time.monotonic() - began
    slice_rate = float(replicas.total(torch.tensor([tracker.global_rate()])).item())
    waits = replicas.gather(waiting.seconds)
    if run.leads:
        write_line(progress.train_end_line(epoch, took, (steps - first) * batch_size, slice_rate, datetime.now()))
        write_line(progress.waiting_line(epoch, waits, took))
    if config.metrics_debug:
        write_line(run.compilation.metrics_line(epoch))
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
        with run.compilation.of("evaluation"):
            with _precision(run.config):
                chosen = run.model(images.to(replicas.device)).argmax(dim=1)
            correct += (chosen == labels.to(replicas.device)).sum()  # padding equals no class
            samples += int((labels != data.PADDING).sum())
            torch_xla.sync()
        if step % run.config.log_steps == 0 and samples:
            accuracy = 100 * int(correct.item()) / samples
            write_line(progress.test_line(replicas.label, epoch, step, accuracy, datetime.now()))
        if run.stopping.requested:
            break
    mine = torch.tensor([int(correct.item()), samples, run.stopping.requested], dtype=torch.float32)
    hits, total, stop = replicas.total(mine).tolist()
    if stop:
        _say_stopping(run, f"in the evaluation of epoch {epoch}")
        run.resumption.save(epoch, run.resumption.steps)
        return None
    reduced = float(100 * hits / max(1, total))
    if run.leads:
        own = 100 * float(mine[0]) / max(1, samples)
        write_line(progress.test_end_line(epoch, reduced, own, samples, datetime.now()))
    return reduced


def train(replicas: Replicas, config: TrainConfig, stopping: Stopping) -> int:
    """One replica, from start to end; returns its exit code."""
    began = time.monotonic()
    run = start(replicas, config, stopping)
    if config.profiler_port is not None:
        run.compilation.serve_profiler(config.profiler_port)
    saves = run.resumption
    position = saves.resume()
    slice_rate = 0.0
    for epoch in range(position.epoch, config.optimizer.epochs + 1):
        first = position.step if epoch == position.epoch else 0
        if first < saves.steps:
            trained = train_epoch(run, epoch, first)
            if trained is None:
                return 0
            slice_rate = trained
        if run.data.val is not None:
            accuracy = evaluate(run, epoch)
            if accuracy is None:
                return 0
            if saves.best is None or accuracy > saves.best:
                before = saves.best or 0.0
                saving = " - saving model..." if config.checkpoint.directory else ""
                if run.leads:
                    improved = f"improved from {before:.2f}% to {accuracy:.2f}%{saving}"
                    write_line(f"Epoch {epoch} validation accuracy {improved}")
                saves.best = accuracy
                saves.save(epoch + 1, 0, best=True)
    saves.save(config.optimizer.epochs + 1, 0)
    _verify_in_step(run)
    if run.leads:
        for line in progress.total_lines(time.monotonic() - began, saves.best, slice_rate):
            write_line(line)
    return _judge_accuracy(run)


def _precision(config: TrainConfig) -> contextlib.AbstractContextManager[object]:
    return torch.autocast("xla", dtype=torch.bfloat16) if config.bf16 else contextlib.nullcontext()


def _judge_accuracy(run: Run) -> int:
    target, best = run.config.target_accuracy, run.resumption.best
    if target is None or (best is not None and best >= target):
        return 0
    if run.leads:
        reached = f"Max Accuracy {best or 0.0:.2f}% is below the target of {target:g}%"
        write_line(f"{reached}. Train longer, or see whether the learning rate fits.", descriptor=2)
    return BELOW_TARGET


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


def _say_stopping(run: Run, where: str) -> None:
    run.stopping.requested = True
    if run.replicas.core == 0:
        write_line(f"Stopping on SIGTERM {where}")


if __name__ == "__main__":
    sys.exit(launch(train, COMMAND_LINE))
