"""A rank's input for one epoch: webdataset pipelines, one per loader, that end in one bounded queue.

    pieces of shards → PieceReader → shuffle → slice → Batching.decode → BatchQueue → training loop
    sharding           shard_reader  webdataset        threads           one thread

`slice` drops what a resumed run has trained on already: it is read and shuffled, but not decoded. Only two places
hold anything ready: `shard_reader` fetches SHARDS_AHEAD shards, and the queue holds QUEUE_DEPTH batches.
"""

from __future__ import annotations

import contextlib
import hashlib
import random
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import replace
from functools import partial
from typing import Any

import webdataset as wds
from torch.utils.data import IterableDataset, get_worker_info

from trainer.config import TrainConfig
from trainer.data import loader_processes, sharding, synthetic
from trainer.data.batching import Batch, Batching, in_order
from trainer.data.dataset import Dataset, count_loaders
from trainer.data.piece_reader import PieceReader
from trainer.data.prefetch import BatchQueue, never
from trainer.data.sample_cache import SampleCache
from trainer.data.sharding import Share
from trainer.errors import TrainerError

ORDER = 2  # version of how a plan becomes samples and augmented images; raise it when a seed would give others
FAKE_STEPS = 50  # steps in an epoch of made-up images
INITIAL_FILL = 10  # a shuffle buffer gives its first sample when it is full to a tenth, and goes on filling


def steps_an_epoch(config: TrainConfig, data: Dataset, world: int) -> int:
    """Return the training steps in each epoch, the same on all ranks."""
    if data.train is None:
        return config.steps_per_epoch or FAKE_STEPS
    steps = sharding.train_batches(data.train.samples, world, config.optimizer.batch_size)
    return steps if config.steps_per_epoch is None else min(steps, config.steps_per_epoch)


def plan_digest(config: TrainConfig, data: Dataset, world: int) -> str:
    """Return a digest of every setting that decides which samples each step of a run sees, apart from ORDER."""
    shards = data.train.shards if data.train else ()
    counts, names = tuple(shard.samples for shard in shards), [shard.url.rpartition("/")[2] for shard in shards]
    readers = count_loaders(config, data.train, world) if data.train else 0
    decisive = (config.optimizer.batch_size, world, config.seed, config.steps_per_epoch, config.data.shuffle_buffer)
    return hashlib.sha256(repr((*decisive, readers, data.image_size, counts, names)).encode()).hexdigest()


def train_epoch(
    config: TrainConfig,
    data: Dataset,
    rank: int,
    world: int,
    epoch: int,
    first: int = 0,
    cache: SampleCache | None = None,
    is_stopping: Callable[[], bool] = never,
) -> BatchQueue[Batch]:
    """Return this rank's batches of an epoch, from batch `first` on.

    `cache` holds samples from one epoch to the next; `is_stopping` is as for BatchQueue.
    """
    batch = config.optimizer.batch_size
    if data.train is None:
        fake = partial(
            synthetic.batches,
            batch=batch,
            size=data.image_size,
            classes=data.classes,
            seed=config.seed,
            rank=rank,
            steps=steps_an_epoch(config, data, world) - first,
        )
        return BatchQueue(fake, is_stopping)
    processes = count_loaders(config, data.train, world)
    order = sharding.shard_order(len(data.train.shards), config.seed, epoch)
    share = sharding.train_share(
        data.train.counts, order, rank=rank, world=world, batch=batch, loaders=processes, limit=config.steps_per_epoch
    )
    seed, skip = f"{config.seed} {epoch} {rank}", config.data.skips_bad_shards
    batching = Batching(batch, data.image_size, data.classes, seed, skip_bad=skip)
    reader = PieceReader(
        data.train.shards, refill=True, skip_bad=skip, verify=config.data.verify, cache=None if processes else cache
    )
    buffer = config.data.shuffle_buffer
    return BatchQueue(lambda: _read(share, reader, batching, processes, buffer, first), is_stopping)


def evaluation(
    config: TrainConfig,
    data: Dataset,
    rank: int,
    world: int,
    cache: SampleCache | None = None,
    is_stopping: Callable[[], bool] = never,
) -> BatchQueue[Batch]:
    """Return this rank's batches of an evaluation; those of a rank with fewer samples end with pure padding."""
    assert data.val is not None
    batch = config.optimizer.batch_size
    processes = min(config.loader_workers, len(data.val.shards))
    share = sharding.evaluation_share(
        data.val.counts, rank=rank, world=world, batch=batch, loaders=processes, limit=config.steps_per_epoch
    )
    skip = config.data.skips_bad_shards
    batching = Batching(batch, data.image_size, data.classes, training=False, skip_bad=skip)
    reader = PieceReader(
        data.val.shards, refill=False, skip_bad=skip, verify=config.data.verify, cache=None if processes else cache
    )

    def padded() -> Iterator[Batch | Future[Batch]]:
        count = 0
        with contextlib.closing(_read(share, reader, batching, processes)) as batches:
            for item in batches:
                count += 1
                yield item
        for _ in range(share.batches - count):
            yield batching.empty()

    return BatchQueue(padded, is_stopping)


def _read(
    share: Share, reader: PieceReader, batching: Batching, processes: int, buffer: int = 0, first: int = 0
) -> Generator[Batch | Future[Batch], None, None]:
    """Yield the batches of a share from batch `first` on, read in loader processes, or in this one if there are none.

    Batches are taken from the loaders in turn. The augmentation of a sample depends only on the seed, its loader and
    its place there, so the batches are the same as in a whole epoch. `buffer` is how many samples each loader holds
    to shuffle them.
    """
    loaders = len(share.loaders)
    pipelines = []
    for number, pieces in enumerate(share.loaders):
        loader_batching = replace(batching, seed=f"{batching.seed} {number}")
        place = loader_batching.size * (first // loaders + (number < first % loaders))
        initial, rng = max(1, buffer // INITIAL_FILL), random.Random(loader_batching.seed)
        pipelines.append(
            wds.DataPipeline(
                partial(iter, pieces),
                reader,
                wds.filters.shuffle(buffer, initial=initial, rng=rng) if buffer else None,
                wds.filters.slice(place, None),
                partial(loader_batching.decode, place=place),
            )
        )
    if processes:
        yield from loader_processes.read(LoaderPipelines(pipelines, first), processes)
    else:
        with contextlib.closing(pipelines[0]):
            yield from pipelines[0]


class LoaderPipelines(IterableDataset[Any]):
    """The pipelines of an epoch as torch's loader processes take them: each process runs its own one.

    Yields a TrainerError instead of raising it: a loader process would wrap it into a traceback.
    """

    def __init__(self, pipelines: Sequence[wds.DataPipeline], first: int) -> None:
        self._pipelines, self._first = pipelines, first

    def __iter__(self) -> Iterator[Batch | TrainerError]:
        """Run this process's pipeline. The first process takes the loader that yields batch `first`."""
        worker = get_worker_info()
        assert worker is not None
        pipeline = self._pipelines[(worker.id + self._first) % len(self._pipelines)]
        try:
            with contextlib.closing(pipeline):
                yield from in_order(iter(pipeline))
        except TrainerError as error:
            yield error
