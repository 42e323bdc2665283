"""The start of a run on one rank: its data, its model, what it resumes from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch_xla
from torch import nn

from trainer.checkpoint.resume import Resumption
from trainer.checkpoint.store import Position
from trainer.config import TrainConfig
from trainer.data import dataset, pipeline
from trainer.data.batching import Batch
from trainer.data.dataset import Dataset
from trainer.data.prefetch import BatchQueue, EpochPrefetcher
from trainer.data.sample_cache import SampleCache
from trainer.distributed import memory_check
from trainer.distributed.replicas import Replicas
from trainer.distributed.signals import StopSignal
from trainer.metrics.tensorboard import EventFile
from trainer.model import resnet
from trainer.model.optimizer import sgd
from trainer.model.xla_compilation import Compilation
from trainer.progress import every_core, format_count, write_line


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
    gives_up: Callable[[], bool]  # whether to stop waiting for a batch that does not come
    compilation: Compilation
    events: EventFile
    diverged: str = ""  # where a loss was NaN or infinite; momentum makes all later ones so too

    @property
    def leads(self) -> bool:
        """Return whether this replica prints for all."""
        return self.replicas.rank == 0

    @property
    def next_epoch_begins(self) -> int:
        """Return the step at which the next epoch's input begins: its shuffle buffer fills as this one's empties."""
        half = self.config.data.shuffle_buffer // 2 // self.config.optimizer.batch_size
        return max(0, self.resumption.steps - max(1, half))

    def add_epoch_points(self, epoch: int, **values: float) -> None:
        """Add points at an epoch's last step: a run that resumes from its end voids all from the next step on."""
        self.events.add(epoch * self.resumption.steps - 1, **values)


def start(replicas: Replicas, config: TrainConfig, stopping: StopSignal) -> TrainingRun:
    """Find the data, build the model or restore it from a checkpoint, and check that they fit together."""
    if replicas.rank == 0:
        write_line("==> Preparing data..")
    replicas.check_same_config(config)
    data = replicas.broadcast_slow_result(lambda: dataset.find(config, replicas.world), config.replicas.timeout / 3)
    model = resnet.build(config.model, data.classes, config.seed)
    parameters = sum(p.numel() for p in model.parameters())
    if not config.skip_memory_check and config.replicas.device == "CPU":
        machines = replicas.gather(memory_check.read_machine_memory())
        replica_mib = memory_check.estimate_replica_mib(
            config.model, parameters, config.optimizer.batch_size, data.image_size
        )
        replicas.broadcast_result(lambda: memory_check.check_memory(machines, replica_mib))
    model.to(replicas.device)
    optimizer = sgd(model, config.optimizer)
    torch_xla.sync()  # puts parameters and momentum on the device, which the first step's graph would do otherwise
    if replicas.rank == 0:
        _introduce(replicas, config, data, parameters)
    resumption = Resumption(replicas, config, data, model, optimizer)
    position = resumption.resume()
    first_step = (position.epoch - 1) * resumption.steps + position.step
    events = replicas.on_rank_zero(lambda: EventFile(config.logdir, first_step), otherwise=EventFile(None))
    compilation = Compilation(replicas.label)
    if config.profiler_port is not None:
        compilation.serve_profiler(config.profiler_port)
    cache = SampleCache(config.data.cache_mib)

    def gives_up() -> bool:  # a stopping run does not need the batch
        return replicas.have_others_given_up or (stopping.requested and replicas.can_skip_step)

    def read_epoch(epoch: int, first: int) -> BatchQueue[Batch]:
        return pipeline.train_epoch(config, data, replicas.rank, replicas.world, epoch, first, cache, gives_up)

    return TrainingRun(
        replicas,
        config,
        stopping,
        data,
        model,
        optimizer,
        resumption,
        position,
        EpochPrefetcher(read_epoch),
        cache,
        gives_up,
        compilation,
        events,
    )


def _introduce(replicas: Replicas, config: TrainConfig, data: Dataset, parameters: int) -> None:
    batch = config.optimizer.batch_size
    write_line(
        f"{config.model}, {parameters / 1e6:.1f} M parameters, {data.image_size}x{data.image_size} pixels, "
        f"{data.classes} classes, batch {batch} on {every_core(replicas.world)}, "
        f"{format_count(config.optimizer.epochs, 'epoch')}"
    )
    if data.train is None:
        write_line("Fake data: one made-up batch, repeated")
        return
    steps = pipeline.steps_an_epoch(config, data, replicas.world)
    dropped = data.train.samples - steps * replicas.world * batch
    val = f"; {data.val.samples} for validation" if data.val else ""
    write_line(
        f"{data.train.samples} training samples in {len(data.train.shards)} shards: {steps} steps an epoch, "
        f"{dropped} samples dropped{val}"
    )
