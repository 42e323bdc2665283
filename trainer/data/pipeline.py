"""A rank's input, epoch by epoch: from shards to batches that the training loop takes as they come.

dataset → split → shard_stream → reading → batches → decode
what      whose   which order    bytes     shape     pixels
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

from trainer.config import TrainConfig
from trainer.data import sharding
from trainer.data.batching import PADDING, Batch, Batching
from trainer.data.dataset import Dataset, ShardSet, count_loaders, expand, find
from trainer.data.sample_cache import SampleCache
from trainer.data.shard_dataset import ShardDataset, batches

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

ORDER = 2  # of how a plan becomes samples and their augmentation; to be raised with every change of what a seed gives
FAKE_STEPS = 50  # an epoch of made-up images


def steps_an_epoch(config: TrainConfig, data: Dataset, world: int) -> int:
    """Training steps in each epoch, the same on all ranks."""
    if data.train is None:
        return config.steps_per_epoch or FAKE_STEPS
    steps, _ = sharding.train_batches(data.train.samples, world, config.optimizer.batch_size)
    return steps if config.steps_per_epoch is None else min(steps, config.steps_per_epoch)


def plan(config: TrainConfig, data: Dataset, world: int) -> str:
    """A mark of everything given that decides which samples each step of a run sees; ORDER is the rest."""
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
) -> tuple[int, Iterator[Batch]]:
    """How many batches this rank trains on in an epoch, the same on all ranks, and those batches from `first` on.

    `cache` holds samples from one epoch to the next.
    """
    assert data.train is not None
    batch = config.optimizer.batch_size
    readers = count_loaders(config, data.train, world)
    order = sharding.shard_order(len(data.train.urls), config.seed, epoch)
    share = sharding.train_share(
        data.train.counts, order, rank=rank, world=world, batch=batch, loaders=readers, limit=config.steps_per_epoch
    )
    skip = config.data.on_bad_shard == "skip"
    stream = ShardDataset(
        data.train,
        share,
        Batching(batch, data.image_size, data.classes, f"{config.seed} {epoch} {rank}", skip_bad=skip),
        config.data.shuffle_buffer,
        first=first,
        skip_bad=skip,
        verify=config.data.verify,
        cache=None if readers else cache,
    )
    return share.batches, batches(stream, readers)


def evaluation(
    config: TrainConfig, data: Dataset, rank: int, world: int, cache: SampleCache | None = None
) -> tuple[int, Iterator[Batch]]:
    """The same for an evaluation; a rank with fewer samples gets batches of nothing but padding."""
    assert data.val is not None
    batch = config.optimizer.batch_size
    readers = min(config.loader_workers, len(data.val.urls))
    share = sharding.evaluation_share(
        data.val.counts, rank=rank, world=world, batch=batch, loaders=readers, limit=config.steps_per_epoch
    )
    skip, verify = config.data.on_bad_shard == "skip", config.data.verify
    batching = Batching(batch, data.image_size, data.classes, training=False, skip_bad=skip)
    stream = ShardDataset(data.val, share, batching, skip_bad=skip, verify=verify, cache=None if readers else cache)
    own = batches(stream, readers)

    def padded() -> Iterator[Batch]:
        came = 0
        for batch_read in own:
            came += 1
            yield batch_read
        for _ in range(share.batches - came):
            yield batching.empty()

    return share.batches, padded()
