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
from trainer.data import loader_processes, sharding
from trainer.data.batching import PADDING, Batch, Batching, in_order
from trainer.data.dataset import Dataset, ShardSet, count_loaders, expand, find
from trainer.data.piece_reader import PieceReader
from trainer.data.prefetch import BatchQueue, never
from trainer.data.sample_cache import SampleCache
from trainer.data.sharding import Share
from trainer.errors import TrainerError

__all__ = [
    "ORDER",
    "PADDING",
    "Batch",
    "Dataset",
    "ShardSet",
    "evaluation",
    "expand",
    "find",
    "plan",
    "steps_an_epoch",
    "train_epoch",
]

ORDER = 2  # version of how a plan becomes samples and augmented images; raise it when a seed comes to give others
FAKE_STEPS = 50  # steps in an epoch of made-up images
INITIAL_FILL = 10  # a shuffle buffer gives its first sample when it is full to a tenth, and goes on filling


def steps_an_epoch(config: TrainConfig, data: Dataset, world: int) -> int:
    """Return the training steps in each epoch, the same on all ranks."""
    if data.train is None:
        return config.steps_per_epoch or FAKE_STEPS
    steps, _ = sharding.train_batches(data.train.samples, world, config.optimizer.batch_size)
    return steps if config.steps_per_epoch is None else min(steps, config.steps_per_epoch)


def plan(config: TrainConfig, data: Dataset, world: int) -> str:
    """Return a digest of every setting that decides which samples each step of a run sees, apart from ORDER."""
    counts = data.train.counts if data.train else ()
    names = [url.rpartition("/")[2] for url in data.train.urls] if data.train else []
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
) -> tuple[int, BatchQueue[Batch]]:
    """Return how many batches each rank trains on in an epoch, and this rank's batches from batch `first` on.

    `cache` holds samples from one epoch to the next; `is_stopping` is as for BatchQueue.
    """
    assert data.train is not None
    batch = config.optimizer.batch_size
    loaders = count_loaders(config, data.train, world)
    order = sharding.shard_order(len(data.train.urls), config.seed, epoch)
    share = sharding.train_share(
        data.train.counts, order, rank=rank, world=world, batch=batch, loaders=loaders, limit=config.steps_per_epoch
    )
    batching = Batching(
        batch, data.image_size, data.classes, f"{config.seed} {epoch} {rank}", skip_bad=config.data.skips_bad_shards
    )
    reader = _reader(config, data.train, None if loaders else cache, refill=True)
    pipelines = _pipelines(share, reader, batching, config.data.shuffle_buffer, first)
    return share.batches, BatchQueue(partial(_run, pipelines, loaders, first), is_stopping)


def evaluation(
    config: TrainConfig,
    data: Dataset,
    rank: int,
    world: int,
    cache: SampleCache | None = None,
    is_stopping: Callable[[], bool] = never,
) -> tuple[int, BatchQueue[Batch]]:
    """Do the same for an evaluation; a rank with fewer samples ends with batches of nothing but padding."""
    assert data.val is not None
    batch = config.optimizer.batch_size
    loaders = min(config.loader_workers, len(data.val.urls))
    share = sharding.evaluation_share(
        data.val.counts, rank=rank, world=world, batch=batch, loaders=loaders, limit=config.steps_per_epoch
    )
    batching = Batching(batch, data.image_size, data.classes, training=False, skip_bad=config.data.skips_bad_shards)
    reader = _reader(config, data.val, None if loaders else cache, refill=False)
    pipelines = _pipelines(share, reader, batching)

    def padded() -> Iterator[Batch | Future[Batch]]:
        came = 0
        with contextlib.closing(_run(pipelines, loaders)) as own:
            for each in own:
                came += 1
                yield each
        for _ in range(share.batches - came):
            yield batching.empty()

    return share.batches, BatchQueue(padded, is_stopping)


def _reader(config: TrainConfig, shards: ShardSet, cache: SampleCache | None, *, refill: bool) -> PieceReader:
    skip_bad, verify = config.data.skips_bad_shards, config.data.verify
    return PieceReader(shards, refill=refill, skip_bad=skip_bad, verify=verify, cache=cache)


def _pipelines(
    share: Share, reader: PieceReader, batching: Batching, buffer: int = 0, first: int = 0
) -> list[wds.DataPipeline]:
    """Return one pipeline per loader; batches are taken from them in turn, beginning with batch `first`.

    What a sample becomes depends on the seed, its loader and its place there, and on nothing else: so the batches
    from `first` on are the same as in a whole epoch. `buffer` is how many samples each loader holds to shuffle them.
    """
    loaders = len(share.loaders)
    passed = [first // loaders + (loader < first % loaders) for loader in range(loaders)]
    return [
        _pipeline(loader, reader, replace(batching, seed=f"{batching.seed} {number}"), buffer, passed[number])
        for number, loader in enumerate(share.loaders)
    ]


def _pipeline(
    pieces: Sequence[sharding.ShardPiece], reader: PieceReader, batching: Batching, buffer: int, passed: int
) -> wds.DataPipeline:
    initial, rng = max(1, buffer // INITIAL_FILL), random.Random(batching.seed)
    place = passed * batching.size
    return wds.DataPipeline(
        partial(iter, pieces),
        reader,
        wds.filters.shuffle(buffer, initial=initial, rng=rng) if buffer else None,
        wds.filters.slice(place, None),
        partial(batching.decode, place=place),
    )


class LoaderPipelines(IterableDataset[Any]):
    """The pipelines of an epoch as torch's loader processes take them: each process runs its own one.

    Yields a TrainerError instead of raising it: a loader process would wrap it into a traceback.
    """

    def __init__(self, pipelines: Sequence[wds.DataPipeline], first: int = 0) -> None:
        self._pipelines, self._first = pipelines, first

    def __iter__(self) -> Iterator[Batch | TrainerError]:
        """Run this process's pipeline. The first process takes the loader whose turn batch `first` is."""
        worker = get_worker_info()
        assert worker is not None
        own = self._pipelines[(worker.id + self._first) % len(self._pipelines)]
        try:
            with contextlib.closing(own):
                yield from in_order(iter(own))
        except TrainerError as error:
            yield error


def _run(
    pipelines: Sequence[wds.DataPipeline], processes: int, first: int = 0
) -> Generator[Batch | Future[Batch], None, None]:
    """Yield the batches of the pipelines, run in so many loader processes, or in this one if there are none."""
    if processes:
        yield from loader_processes.read(LoaderPipelines(pipelines, first), processes)
        return
    [own] = pipelines
    with contextlib.closing(own):
        yield from own
