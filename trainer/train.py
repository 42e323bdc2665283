# ruff: noqa: E402
"""Train a ResNet on every core of a slice: `python -m trainer.train --data gs://bucket/prefix`.

The same code runs on TPU (PJRT_DEVICE=TPU) and on XLA's CPU device (PJRT_DEVICE=CPU). One process per core runs
`train`: each reads its own share of the shards, and all hold the same parameters after every step.
"""

from __future__ import annotations

import contextlib
import math
import os
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import NoReturn

if __name__ == "__main__" and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # there is nothing to save yet: Ctrl-C ends it silently

from trainer.config import TrainConfig
from trainer.options import choose_device, read_command_line
from trainer.progress import write_line

choose_device(os.environ)  # torch_xla reads PJRT_DEVICE when it is imported
os.environ.setdefault(
    "TORCH_CPP_LOG_LEVEL", "ERROR"
)  # otherwise the end of another rank prints forty lines of C++ frames
if __name__ == "__main__":
    COMMAND_LINE = read_command_line()  # answers wrong arguments and --help before the seconds of importing
    write_line("==> Loading PyTorch and PyTorch/XLA ..")

import torch
import torch_xla
import torch_xla.core.xla_model as xm
from torch import nn

from trainer import progress
from trainer.checkpoint.resume import CALMER, Resumption, average_statistics, verify_in_step
from trainer.checkpoint.store import Position
from trainer.data import pipeline, synthetic
from trainer.data.pipeline import Batch, Dataset
from trainer.data.prefetch import BatchQueue, EpochPrefetcher
from trainer.data.sample_cache import SampleCache
from trainer.distributed import memory_check
from trainer.distributed.config_check import check_same_config
from trainer.distributed.launcher import launch
from trainer.distributed.replicas import Replicas, Verdict
from trainer.distributed.signals import StopSignal
from trainer.errors import BELOW_TARGET, ReportedElsewhereError, StoppedError, TrainerError
from trainer.metrics.tensorboard import EventFile
from trainer.model import resnet
from trainer.model.optimizer import learning_rate, set_rate, sgd
from trainer.model.xla_compilation import Compilation
from trainer.progress import RateTracker, WaitTimer, every_core, format_count


def train(replicas: Replicas, config: TrainConfig, stopping: StopSignal) -> int:
    """Run one replica from start to end; return its exit code. Raise StoppedError once a stopped run is saved."""
    began = time.monotonic()
    run = start(replicas, config, stopping)
    stopping.is_training = True
    with contextlib.closing(run.input):
        slice_rate = _train_epochs(run)
    run.resumption.save(config.optimizer.epochs + 1, 0)
    verify_in_step(run.model, replicas)  # nothing else would show that a replica fell out of step
    run.events.close()
    if run.leads:
        for line in progress.total_lines(time.monotonic() - began, run.resumption.best, slice_rate):
            write_line(line)
    return _judge_accuracy(run)


def _train_epochs(run: TrainingRun) -> float:
    """Train all epochs that are left; return the samples per second of the last one."""
    config, saves, position = run.config, run.resumption, run.begins
    slice_rate = 0.0
    for epoch in range(position.epoch, config.optimizer.epochs + 1):
        first = position.step if epoch == position.epoch else 0
        if first < saves.steps:  # otherwise it stopped in this epoch's evaluation, and only that is due
            slice_rate = train_epoch(run, epoch, first)
        accuracy = None if run.data.val is None else evaluate(run, epoch)
        run.events.flush()  # before a checkpoint, since a run that resumes from it does not write these again
        if accuracy is not None and (saves.best is None or accuracy > saves.best):
            if run.leads:
                write_line(progress.improved_line(epoch, saves.best, accuracy, saving=saves.keeps))
            saves.best = accuracy
            saves.save(epoch + 1, 0, best=True)
    return slice_rate


@dataclass
class TrainingRun:
    """One replica's run: the model on its device and what is needed to train it."""

    replicas: Replicas
    config: TrainConfig
    stopping: StopSignal
    data: Dataset
    model: nn.Module
    optimizer: torch.optim.SGD
    resumption: Resumption
    begins: Position
    input: EpochPrefetcher[Batch]
    cache: SampleCache
    compilation: Compilation
    events: EventFile
    diverged: str = ""  # where a loss was NaN or infinite; momentum makes all later ones so too

    @property
    def leads(self) -> bool:
        """Return whether this replica prints for all."""
        return self.replicas.rank == 0


def start(replicas: Replicas, config: TrainConfig, stopping: StopSignal) -> TrainingRun:
    """Find the data, build the model or restore it from a checkpoint, and check that they fit together."""
    if replicas.rank == 0:
        write_line("==> Preparing data..")
    check_same_config(config, replicas)
    found = replicas.broadcast_slow_result(lambda: pipeline.find(config, replicas.world), config.replicas.timeout / 3)
    model = resnet.build(config.model, found.classes, config.seed)
    parameters = sum(p.numel() for p in model.parameters())
    if config.memory_check and config.replicas.device == "CPU":
        machines = replicas.gather(memory_check.read_machine_memory())
        each = memory_check.estimate_replica_mib(
            config.model, parameters, config.optimizer.batch_size, found.image_size
        )
        replicas.broadcast_result(lambda: memory_check.check_memory(machines, each))
    model.to(replicas.device)
    optimizer = sgd(model, config.optimizer)
    torch_xla.sync()  # puts parameters and momentum on the device, which the first step's graph would do otherwise
    if replicas.rank == 0:
        _introduce(replicas, config, found, parameters)
    resumption = Resumption(replicas, config, found, model, optimizer)
    position = resumption.resume()
    done = (position.epoch - 1) * resumption.steps + position.step
    events = replicas.on_rank_zero(lambda: EventFile(config.logdir, done), otherwise=EventFile(None))
    compilation = Compilation(replicas.label)
    if config.profiler_port is not None:
        compilation.serve_profiler(config.profiler_port)
    cache = SampleCache(config.data.keep)
    gives_up = partial(_gives_up, replicas, stopping)
    feed = EpochPrefetcher(partial(_training_batches, config, found, replicas, resumption.steps, cache, gives_up))
    return TrainingRun(
        replicas, config, stopping, found, model, optimizer, resumption, position, feed, cache, compilation, events
    )


def train_epoch(run: TrainingRun, epoch: int, first: int = 0) -> float:
    """Train one epoch from step `first` on; return the slice's samples per second."""
    replicas, config, saves = run.replicas, run.config, run.resumption
    batch_size, steps = config.optimizer.batch_size, saves.steps
    next_begins = max(first, _next_begins(config, steps))
    criterion = nn.CrossEntropyLoss(label_smoothing=config.optimizer.label_smoothing)
    run.model.train()
    if run.leads:
        write_line(progress.train_begin_line(epoch, datetime.now()))
    began = time.monotonic()
    tracker = RateTracker()
    waiting = WaitTimer()

    def report(loss: torch.Tensor, step: int, rate: float) -> None:
        value = loss.item()  # waits for the device, so it is done only in steps that are printed
        rates = tracker.rate(), tracker.global_rate()
        write_line(progress.training_line(replicas.label, epoch, step, value, *rates, datetime.now()))
        if not math.isfinite(value) and not run.diverged:
            run.diverged = f"the loss of core {replicas.rank} is {value} at epoch {epoch} step {step}"
        run.events.add((epoch - 1) * steps + step, train_loss=value, train_rate=rates[0], train_learning_rate=rate)

    done = first
    for step, (images, labels) in enumerate(waiting.time_items(run.input.epoch(epoch, first)), first):
        if step == next_begins and epoch < config.optimizer.epochs:
            run.input.begin(epoch + 1)  # its first batch takes longest, and should be ready when this epoch ends
        with run.compilation.of("training step"):
            rate = learning_rate(config.optimizer, replicas.world, (epoch - 1) * steps + step, steps)
            set_rate(run.optimizer, rate)
            with _precision(config):
                scores = run.model(images.to(replicas.device))
            loss = criterion(
                scores.float(), labels.to(replicas.device)
            )  # in float32, since rounding hurts the loss most
            loss.backward()
            tracker.add(batch_size)
            if step % config.log_steps == 0:
                xm.add_step_closure(report, args=(loss.detach(), step, rate))  # runs after the step's graph
            # Average the gradients over all replicas, and step. The vote makes all stop at the same step.
            verdict = replicas.step(run.optimizer, run.stopping.requested or bool(run.diverged))
        done = step + (verdict is not Verdict.STOP_SKIPPING_STEP)
        if verdict:
            _stop(run, f"at epoch {epoch} step {step}", epoch, done)
        if saves.due((epoch - 1) * steps + step + 1):
            run.events.flush()
            saves.save(epoch, step + 1)
    if done < steps:
        _stop_without(run, epoch, done)

    took = time.monotonic() - began
    slice_rate = float(replicas.total(torch.tensor([tracker.global_rate()])).item())  # the sum over all cores
    waits = replicas.gather(waiting.seconds)
    if run.leads:
        write_line(progress.train_end_line(epoch, took, (steps - first) * batch_size, slice_rate, datetime.now()))
        write_line(progress.waiting_line(epoch, waits, took))
    run.events.add(epoch * steps, epoch_global_rate=slice_rate, epoch_waiting_percent=100 * max(waits) / took)
    if config.metrics_debug:
        write_line(run.compilation.metrics_line(epoch))
    return slice_rate


@torch.no_grad()
def evaluate(run: TrainingRun, epoch: int) -> float:
    """Return the accuracy in percent over the validation shards, each sample counted once."""
    replicas = run.replicas
    average_statistics(run.model, replicas)  # they differ between cores, and all must test one model
    gives_up = partial(_gives_up, replicas, run.stopping)
    _, queue = pipeline.evaluation(run.config, run.data, replicas.rank, replicas.world, run.cache, gives_up)
    run.model.eval()
    correct = torch.zeros((), dtype=torch.int64, device=replicas.device)
    torch_xla.sync()  # else zero would be a constant of the first step's graph, and the second step another graph
    samples = 0
    with contextlib.closing(queue) as batches:
        for step, (images, labels) in enumerate(batches):
            with run.compilation.of("evaluation"):
                with _precision(run.config):
                    chosen = run.model(images.to(replicas.device)).argmax(dim=1)
                correct += (chosen == labels.to(replicas.device)).sum()  # padding equals no class
                samples += int((labels != pipeline.PADDING).sum())
                torch_xla.sync()  # one graph per batch, rather than a single one for all batches
            if step % run.config.log_steps == 0 and samples:
                accuracy = 100 * int(correct.item()) / samples
                write_line(progress.test_line(replicas.label, epoch, step, accuracy, datetime.now()))
            if run.stopping.requested:
                break
    mine = torch.tensor([int(correct.item()), samples, run.stopping.requested], dtype=torch.float32)
    hits, total, stop = replicas.total(mine).tolist()
    if stop:
        _stop(run, f"in the evaluation of epoch {epoch}", epoch, run.resumption.steps)
    if not total:
        run.resumption.save(epoch, run.resumption.steps)  # only this evaluation is due again
        raise _untested(epoch) if run.leads else ReportedElsewhereError("There is no accuracy")
    reduced = float(100 * hits / total)
    if run.leads:
        own = 100 * float(mine[0]) / max(1, samples)
        write_line(progress.test_end_line(epoch, reduced, own, samples, datetime.now()))
    run.events.add(epoch * run.resumption.steps, test_accuracy=reduced)
    return reduced


def _training_batches(
    config: TrainConfig,
    found: Dataset,
    replicas: Replicas,
    steps: int,
    cache: SampleCache,
    gives_up: Callable[[], bool],
    epoch: int,
    first: int,
) -> BatchQueue[Batch]:
    if found.train is not None:
        rank, world = replicas.rank, replicas.world
        return pipeline.train_epoch(config, found, rank, world, epoch, first, cache, gives_up)[1]
    made_up = partial(
        synthetic.batches,
        batch=config.optimizer.batch_size,
        size=found.image_size,
        classes=found.classes,
        seed=config.seed,
        rank=replicas.rank,
        steps=steps - first,
    )
    return BatchQueue(made_up, gives_up)


def _next_begins(config: TrainConfig, steps: int) -> int:
    """Return the step at which to begin the next epoch's input: its shuffle buffer fills as this one's empties."""
    return max(0, steps - max(1, config.data.shuffle_buffer // 2 // config.optimizer.batch_size))


def _precision(config: TrainConfig) -> contextlib.AbstractContextManager[object]:
    return torch.autocast("xla", dtype=torch.bfloat16) if config.bf16 else contextlib.nullcontext()


def _gives_up(replicas: Replicas, stopping: StopSignal) -> bool:
    """Return whether to stop waiting for a batch that does not come: a stopping run does not need it."""
    return replicas.have_others_given_up or (stopping.requested and replicas.can_skip_step)


def _stop_without(run: TrainingRun, epoch: int, done: int) -> NoReturn:
    """Have all replicas skip a step for which this one has no batch, and stop.

    The others wait for its gradients meanwhile. The result is as if all had stopped before, except that running
    statistics have seen the others' batches.
    """
    write_line(f"No batch came for {run.replicas.label}: step {done} of epoch {epoch} is skipped.", descriptor=2)
    run.replicas.skip_step(run.optimizer)
    _stop(run, f"at epoch {epoch} step {done}", epoch, done)


def _stop(run: TrainingRun, where: str, epoch: int, step: int) -> NoReturn:
    """Save the run and end it; all replicas come here at the same step."""
    diverged = next(filter(None, run.replicas.gather(run.diverged)), "")
    if diverged:
        error = TrainerError("The training diverged", why=diverged, remedy=CALMER)
        raise error if run.leads else ReportedElsewhereError(error.what)
    if run.replicas.core == 0:
        write_line(f"Stopping on SIGTERM {where}")
        if run.stopping.requested and not run.stopping.received:
            write_line(f"Stopping {where}, because the log's reader has gone.", descriptor=2)
    run.stopping.received = True
    run.resumption.save(epoch, step)
    run.events.close()
    raise StoppedError(f"Stopped {where}")


def _untested(epoch: int) -> TrainerError:
    return TrainerError(
        f"There is no accuracy of epoch {epoch}",
        why="none of the validation shards can be read",
        remedy="Check them and their bucket, and start again with --resume auto",
    )


def _judge_accuracy(run: TrainingRun) -> int:
    target, best = run.config.target_accuracy, run.resumption.best
    if target is None or (best is not None and best >= target):
        return 0
    if run.leads:
        reached = f"Max Accuracy {best or 0.0:.2f}% is below the target of {target:g}%"
        write_line(f"{reached}. Train longer, or try another learning rate.", descriptor=2)
    return BELOW_TARGET


def _introduce(replicas: Replicas, config: TrainConfig, found: Dataset, parameters: int) -> None:
    batch = config.optimizer.batch_size
    write_line(
        f"{config.model}, {parameters / 1e6:.1f} M parameters, {found.image_size}x{found.image_size} pixels, "
        f"{found.classes} classes, batch {batch} on {every_core(replicas.world)}, "
        f"{format_count(config.optimizer.epochs, 'epoch')}"
    )
    if found.train is None:
        write_line("Fake data: one made-up batch, repeated")
        return
    steps = pipeline.steps_an_epoch(config, found, replicas.world)
    dropped = found.train.samples - steps * replicas.world * batch
    val = f"; {found.val.samples} for validation" if found.val else ""
    write_line(
        f"{found.train.samples} training samples in {len(found.train.urls)} shards: {steps} steps an epoch, "
        f"{dropped} samples dropped{val}"
    )


if __name__ == "__main__":
    sys.exit(launch(train, COMMAND_LINE))
