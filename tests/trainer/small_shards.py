"""Small shards and configurations for the tests of the input, and the samples that an epoch yields."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from trainer.config import DataConfig, OptimizerConfig, TrainConfig
from trainer.data import pipeline
from trainer.data.dataset import Dataset, ShardSet
from trainer.data.shard_reader import ShardFile
from trainer.errors import TrainerError
from trainer.shards import sources, writer


def config(batch: int = 8, loader_workers: int = 0, steps: int | None = None, **source: object) -> TrainConfig:
    return TrainConfig(
        data=DataConfig(loader_workers=loader_workers, **source),  # type: ignore[arg-type]
        optimizer=OptimizerConfig(batch_size=batch),
        steps_per_epoch=steps,
    )


def shard(path: Path, samples: list[tuple[bytes, int]], extension: str = "ppm") -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(
        writer.shard_bytes([sources.ImageSample(content, extension, label) for content, label in samples], 0)
    )
    return str(path)


def ppm(value: int, width: int = 32, height: int = 32) -> bytes:
    return b"P6\n%d %d\n255\n" % (width, height) + bytes([value]) * (3 * width * height)


def counted(urls: Sequence[str | Path], samples: Sequence[int]) -> ShardSet:
    """Return the set of these shards, which no manifest lists."""
    return ShardSet(tuple(ShardFile(str(url), samples=count) for url, count in zip(urls, samples, strict=True)))


def trained_on(urls: Sequence[str | Path], samples: Sequence[int]) -> Dataset:
    """Return the data of a training on these shards, of ten classes and 32 pixels."""
    return Dataset(counted(urls, samples), None, 10, 32)


def trained_values(cfg: TrainConfig, found: Dataset, rank: int, world: int, epoch: int = 1) -> list[int]:
    """Return the samples of one rank's epoch, each identified by the brightness of its centre pixel."""
    batches = list(pipeline.train_epoch(cfg, found, rank, world, epoch))
    assert len(batches) == pipeline.steps_an_epoch(cfg, found, world)
    return [int(image[0, 16, 16]) for batch, _ in batches for image in batch]


def refused(make: Callable[[], object]) -> str:
    with pytest.raises(TrainerError) as caught:
        make()
    return str(caught.value)
