"""The training loop, which every rank runs: epochs of steps, an evaluation after each, checkpoints.

One process per core runs `train`, on TPU and on XLA's CPU device alike. Each reads its own share of the shards, and
all hold the same parameters after every step.
"""

from __future__ import annotations

import contextlib
import math
import time
from datetime import datetime
from typing import NoReturn

import torch
import torch_xla
import torch_xla.core.xla_model as xm
from torch import nn

from trainer import progress
from trainer.checkpoint.resume import DIVERGENCE_REMEDY, average_statistics, verify_in_step
from trainer.config import TrainConfig
from trainer.data import pipeline
from trainer.data.batching import PADDING
from trainer.distributed.replicas import Replicas, Verdict
from trainer.distributed.signals import StopSignal
from trainer.errors import BELOW_TARGET, ReportedElsewhereError, StoppedError, TrainerError
from trainer.model.optimizer import learning_rate, set_rate
from trainer.progress import RateTracker, WaitTimer, write_error, write_line
from trainer.train.setup import TrainingRun, start


def train(replicas: Replicas, config: TrainConfig, stopping: StopSignal) -> int:
    """Run one replica from start to end; return its exit code. Raise StoppedError once a stopped run is saved."""
    started_at = time.monotonic()
    run = start(replicas, config, stopping)  # finds the data, builds the model, resumes from a checkpoint
    stopping.is_training = True
    samples, seconds = 0, 0.0  # of the whole slice, since this start or resumption
    # The events are closed also where the run fails: their last points may show why.
    with contextlib.closing(run.events), contextlib.closing(run.input):
        for epoch in range(run.begins.epoch, config.optimizer.epochs + 1):
            first = run.begins.step if epoch == run.begins.epoch else 0
            if first < run.resumption.steps:  # otherwise only this epoch's evaluation is due
                epoch_samples, epoch_seconds = train_epoch(run, epoch, first)
                samples, seconds = samples + epoch_samples, seconds + epoch_seconds
            accuracy = None if run.data.val is None else evaluate(run, epoch)
            run.events.flush()  # before a checkpoint, since a run that resumes from it does not write these again
            if accuracy is not None:
                _save_if_best(run, epoch, accuracy)
        run.resumption.save(config.optimizer.epochs + 1, 0)
        verify_in_step(run.model, replicas)  # nothing else would show that a replica fell out of step
    if run.leads:
        rate = samples / seconds if seconds else None
        for line in progress.total_lines(time.monotonic() - started_at, run.resumption.best, rate):
            write_line(line)
    return _judge_accuracy(run)


def train_epoch(run: TrainingRun, epoch: int, first: int = 0) -> tuple[int, float]:
    """Train one epoch from step `first` on; return the slice's samples and the seconds that they took."""
    replicas, config, saves = run.replicas, run.config, run.resumption
    batch_size, steps = config.optimizer.batch_size, saves.steps
    criterion = nn.CrossEntropyLoss(label_smoothing=config.optimizer.label_smoothing)
    run.model.train()
    if run.leads:
        write_line(progress.train_begin_line(epoch, datetime.now()))
    started_at = time.monotonic()
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
        if step == max(first, run.next_epoch_begins) and epoch < config.optimizer.epochs:
            run.input.begin(epoch + 1)  # its first batch takes longest, and should be ready when this epoch ends
        with run.compilation.of("training step"):
            rate = learning_rate(config.optimizer, replicas.world, (epoch - 1) * steps + step, steps)
            set_rate(run.optimizer, rate)
            with _precision(config):
                scores = run.model(images.to(replicas.device))
            loss = criterion(scores.float(), labels.to(replicas.device))  # rounding hurts the loss most
            loss.backward()
            tracker.add(batch_size)
            if step % config.log_steps == 0:
                xm.add_step_closure(report, args=(loss.detach(), step, rate))  # runs after the step's graph
            # Average the gradients over all replicas, and step. The vote makes all stop at the same step.
            verdict = replicas.step(run.optimizer, run.stopping.requested or bool(run.diverged))
        done = step + (verdict is not Verdict.STOP_SKIPPING_STEP)
        if verdict:
            _stop(run, f"at epoch {epoch} step {step}", epoch, done)
        if saves.is_due((epoch - 1) * steps + step + 1):
            run.events.flush()
            saves.save(epoch, step + 1)
    if done < steps:
        _stop_without_batch(run, epoch, done)

    took = time.monotonic() - started_at
    replica_samples = (steps - first) * batch_size
    slice_rate = float(replicas.total(torch.tensor([tracker.global_rate()])).item())  # the sum over all cores
    waits = replicas.gather(waiting.seconds)
    if run.leads:
        write_line(progress.train_end_line(epoch, took, replica_samples, slice_rate, datetime.now()))
        write_line(progress.waiting_line(epoch, waits, took))
    run.add_epoch_points(epoch, epoch_global_rate=slice_rate, epoch_waiting_percent=100 * max(waits) / took)
    if config.metrics_debug:
        write_line(run.compilation.metrics_line(epoch))
    return replicas.world * replica_samples, took


@torch.no_grad()
def evaluate(run: TrainingRun, epoch: int) -> float:
    """Return the accuracy in percent over the validation shards, each sample counted once."""
    replicas = run.replicas
    average_statistics(run.model, replicas)  # they differ between cores, and all must test one model
    queue = pipeline.evaluation(run.config, run.data, replicas.rank, replicas.world, run.cache, run.gives_up)
    run.model.eval()
    correct = torch.zeros((), dtype=torch.int64, device=replicas.device)
    torch_xla.sync()  # otherwise zero would be a constant of the first graph, and the second step another graph
    samples = 0
    with contextlib.closing(queue) as batches:
        for step, (images, labels) in enumerate(batches):
            with run.compilation.of("evaluation"):
                with _precision(run.config):
                    predicted = run.model(images.to(replicas.device)).argmax(dim=1)
                correct += (predicted == labels.to(replicas.device)).sum()  # padding equals no class
                samples += int((labels != PADDING).sum())
                torch_xla.sync()  # one graph per batch, rather than a single one for all batches
            if step % run.config.log_steps == 0 and samples:
                accuracy = 100 * int(correct.item()) / samples
                write_line(progress.test_line(replicas.label, epoch, step, accuracy, datetime.now()))
            if run.stopping.requested:
                break
    counts = torch.tensor([int(correct.item()), samples, run.stopping.requested], dtype=torch.float32)
    hits, total, stop = replicas.total(counts).tolist()
    if stop:
        _stop(run, f"in the evaluation of epoch {epoch}", epoch, run.resumption.steps)
    if not total:
        run.resumption.save(epoch, run.resumption.steps)  # only this evaluation is due again
        raise _no_accuracy_error(epoch) if run.leads else ReportedElsewhereError("There is no accuracy")
    reduced = float(100 * hits / total)
    if run.leads:
        own_accuracy = 100 * float(counts[0]) / max(1, samples)
        write_line(progress.test_end_line(epoch, reduced, own_accuracy, samples, datetime.now()))
    run.add_epoch_points(epoch, test_accuracy=reduced)
    return reduced


def _save_if_best(run: TrainingRun, epoch: int, accuracy: float) -> None:
    saves = run.resumption
    if saves.best is None or accuracy > saves.best:
        if run.leads:
            write_line(progress.improved_line(epoch, saves.best, accuracy, saving=saves.is_saving))
        saves.best = accuracy
        saves.save(epoch + 1, 0, best=True)


def _precision(config: TrainConfig) -> contextlib.AbstractContextManager[object]:
    return torch.autocast("xla", dtype=torch.bfloat16) if config.bf16 else contextlib.nullcontext()


# --- ends ----------------------------------------------------------------------------------------------------------


def _stop_without_batch(run: TrainingRun, epoch: int, done: int) -> NoReturn:
    """Have all replicas skip a step for which this one has no batch, and stop.

    The others wait for its gradients. The result is as if all had stopped one step earlier, except that the running
    statistics of the others include their last batch.
    """
    write_error(f"No batch came for {run.replicas.label}: step {done} of epoch {epoch} is skipped.")
    run.replicas.skip_step(run.optimizer)
    _stop(run, f"at epoch {epoch} step {done}", epoch, done)


def _stop(run: TrainingRun, position: str, epoch: int, step: int) -> NoReturn:
    """Save the run and end it; all replicas come here at the same step."""
    diverged = next(filter(None, run.replicas.gather(run.diverged)), "")
    if diverged:
        error = TrainerError("The training diverged", why=diverged, remedy=DIVERGENCE_REMEDY)
        raise error if run.leads else ReportedElsewhereError(error.what)
    if run.replicas.core == 0:
        write_line(f"Stopping on SIGTERM {position}")
        if run.stopping.requested and not run.stopping.received:
            write_error(f"Stopping {position}, because the log's reader has gone.")
    run.stopping.received = True
    run.resumption.save(epoch, step)
    raise StoppedError(f"Stopped {position}")


def _no_accuracy_error(epoch: int) -> TrainerError:
    return TrainerError(
        f"Epoch {epoch} has no accuracy",
        why="none of the validation shards can be read",
        remedy="Check them and their bucket, and start again with --resume auto",
    )


def _judge_accuracy(run: TrainingRun) -> int:
    target, best = run.config.target_accuracy, run.resumption.best
    if target is None or (best is not None and best >= target):
        return 0
    if run.leads:
        problem = f"Max Accuracy {best or 0.0:.2f}% is below the target of {target:g}%"
        write_error(f"{problem}. Train longer, or try another learning rate.")
    return BELOW_TARGET
