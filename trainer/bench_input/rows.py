"""Define the rows of the benchmark: the same images by the same decoder, from files, from shards, from a bucket.

Each row is a function that returns an epoch ready to begin: directories are listed and manifests read beforehand, as
a training does once and not in every epoch. The epoch returns how many samples it made into batches.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trainer.config import DataConfig, OptimizerConfig, TrainConfig
from trainer.data import dataset, pipeline
from trainer.data.batching import PADDING, Batch, Batching
from trainer.data.prefetch import BatchQueue
from trainer.data.shard_reader import SHARDS_AHEAD
from trainer.data.tar_samples import Sample
from trainer.storage import objects

MANY_AT_ONCE = 32  # requests; more of them gain nothing with single images


@dataclass(frozen=True)
class Material:
    """The same images laid out in every form that is compared."""

    files: Path  # CLASS/NAME.jpg
    shards: str  # directory
    bucket: str  # gs://…, where the shards and, under files/, the images lie; "" when there is no object store
    images: int
    classes: int
    batch: int
    size: int  # pixels per side of the model's input
    buffer: int  # samples held to shuffle them
    loaders: int  # loader processes; 0: threads of the training process only
    few: int  # images of the rows that would take minutes

    def few_files(self) -> list[Path]:
        """Return a random selection of the images."""
        return random.Random(1).sample(sorted(self.files.glob("*/*")), self.few)


Epoch = Callable[[], int]
Row = Callable[[Material], Epoch]


def from_files(material: Material) -> Epoch:
    """Prepare A: one file per image, read in random order."""
    paths = sorted(material.files.glob("*/*"))
    labels = {name: number for number, name in enumerate(sorted({path.parent.name for path in paths}))}
    random.Random(1).shuffle(paths)
    return lambda: _count_samples(
        material, (_sample(str(path), path.read_bytes(), labels[path.parent.name]) for path in paths)
    )


def from_shards(material: Material) -> Epoch:
    """Prepare B: shards on this machine's disk."""
    return _epoch(material, material.shards)


def from_bucket(material: Material) -> Epoch:
    """Prepare C: the same shards, streamed from the bucket."""
    return _epoch(material, f"{material.bucket}/shards")


def from_single_objects(material: Material) -> Epoch:
    """Prepare A': one object per image, with as many requests at once as C makes."""
    return _singly(material, SHARDS_AHEAD)


def from_many_single_objects(material: Material) -> Epoch:
    """Prepare A' with MANY_AT_ONCE requests at once."""
    return _singly(material, MANY_AT_ONCE)


def _epoch(material: Material, directory: str) -> Epoch:
    config = TrainConfig(
        data=DataConfig(
            directory,
            image_size=material.size,
            loader_workers=material.loaders,
            shuffle_buffer=material.buffer,
        ),
        optimizer=OptimizerConfig(batch_size=material.batch),
    )
    data = dataset.find(config, 1)
    return lambda: sum(len(labels) for _, labels in pipeline.train_epoch(config, data, 0, 1, 1))


def _singly(material: Material, at_once: int) -> Epoch:
    urls = [f"{material.bucket}/files/{path.parent.name}/{path.name}" for path in material.few_files()]

    def fetched() -> Iterator[Sample]:
        with ThreadPoolExecutor(at_once) as pool:
            waiting: deque[tuple[str, Future[bytes]]] = deque()
            for url in urls:
                waiting.append((url, pool.submit(objects.read, url)))
                if len(waiting) >= at_once:
                    name, content = waiting.popleft()
                    yield _sample(name, content.result(), 0)
            for name, content in waiting:
                yield _sample(name, content.result(), 0)

    return lambda: _count_samples(material, fetched())


def _count_samples(material: Material, samples: Iterable[Sample]) -> int:
    batching = Batching(material.batch, material.size, material.classes, "bench")
    batches: BatchQueue[Batch] = BatchQueue(lambda: batching.decode(samples))
    return sum(int((labels != PADDING).sum()) for _, labels in batches)


def _sample(name: str, content: bytes, label: int) -> dict[str, Any]:
    return {"__key__": name, "__url__": name, "jpg": content, "cls": str(label).encode()}
