"""From shards to batches: find them, read a rank's share with webdataset, decode, crop, batch.

Batches always have the same shape, for on an XLA device every new shape is compiled anew: in training the last,
smaller batch is dropped (and counted), in an evaluation it is padded with the label `PADDING`. Images stay uint8
until they are on the device: a quarter of the bytes to move, and normalising there is nearly free.
"""

from __future__ import annotations

import io
import math
import random
import tarfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatch
from itertools import islice
from typing import Any

import numpy as np
import torch
import webdataset
from braceexpand import braceexpand
from PIL import Image
from torch.utils.data import DataLoader, IterableDataset, get_worker_info
from webdataset.tariterators import group_by_keys, tar_file_expander

from trainer import objects, split
from trainer.config import DataConfig, TrainConfig
from trainer.errors import TrainerError
from trainer.manifest import MANIFEST, Manifest
from trainer.split import Piece, Share

Batch = tuple[torch.Tensor, torch.Tensor]  # images uint8 [batch, 3, size, size], labels int64 [batch]
Pixels = np.ndarray[Any, np.dtype[np.uint8]]

PADDING = -1  # a label no class has: counted nowhere
IMAGE_KEYS = "ppm;jpg;jpeg;png;webp"
CROP_MARGIN = 4  # pixels that a small image is padded with before it is cropped back
CROP_AREA, CROP_RATIO = (0.08, 1.0), (3 / 4, 4 / 3)  # of a large image, as ImageNet's usual training crop
EVALUATION_MARGIN = 256 / 224  # shorter side before the centre crop, over the crop
DEFAULT_SIZE, FAKE_CLASSES, FAKE_STEPS = 224, 10, 50
IMAGE_ERRORS = (OSError, ValueError, SyntaxError)  # what PIL raises for a file that is no image


@dataclass(frozen=True)
class ShardSet:
    """The shards of one split and how many samples each holds."""

    urls: tuple[str, ...]
    counts: tuple[int, ...]

    @property
    def samples(self) -> int:
        """In all shards together."""
        return sum(self.counts)


@dataclass(frozen=True)
class Dataset:
    """What there is to train on. Found by rank 0, handed to all: so that every rank plans with the same numbers."""

    train: ShardSet | None  # None: fake data
    val: ShardSet | None
    classes: int
    image_size: int


def find(config: TrainConfig, world: int) -> Dataset:
    """List and count the shards; raises TrainerError where they cannot feed `world` ranks."""
    data = config.data
    if data.fake:
        return Dataset(None, None, data.classes or FAKE_CLASSES, data.image_size or DEFAULT_SIZE)
    if data.directory is not None:
        where = objects.join(data.directory, MANIFEST)
        objects.matching(data.directory, MANIFEST)  # a missing bucket or directory is told as that
        if not objects.exists(where):
            raise TrainerError(
                f"There is no {MANIFEST} in {data.directory}",
                remedy="Make shards there with python -m trainer.shards, or name them with --train-shards",
            )
        manifest: Manifest | None = Manifest.from_json(objects.read(where), where)
        assert manifest is not None
        train, val = (_listed(data.directory, manifest, name) for name in ("train", "val"))
        if train is None:
            raise TrainerError(f"{where} lists no training shards")
    else:
        assert data.train is not None
        urls = expand(data.train)
        manifest = _manifest_beside(urls[0])
        train = _counted(urls, manifest)
        val = None if data.val is None else _counted(expand(data.val), manifest)
    _check(train, config.optimizer.batch_size, world, data)
    classes = data.classes or (len(manifest.classes) if manifest else 0)
    if not classes:
        raise TrainerError("The number of classes is not known", remedy="Give --classes N, or keep manifest.json")
    size = data.image_size or (manifest.image_size if manifest else None) or DEFAULT_SIZE
    return Dataset(train, val, classes, size)


def expand(pattern: str) -> tuple[str, ...]:
    """The shards a pattern names: braces, then `*` and `?`; raises TrainerError when none or not all are there."""
    urls: list[str] = []
    for url in braceexpand(pattern):
        if objects.is_pipe(url) or not any(mark in url for mark in "*?"):
            urls.append(url)
        else:
            name = url.rpartition("/")[2]
            found = objects.matching(objects.parent(url))
            urls += [objects.join(objects.parent(url), each) for each in found if fnmatch(each, name)]
    plain = [url for url in urls if not objects.is_pipe(url)]
    missing: list[str] = []
    for directory in dict.fromkeys(objects.parent(url) for url in plain):
        present = set(objects.matching(directory))
        missing += [u for u in plain if objects.parent(u) == directory and u.rpartition("/")[2] not in present]
    if not urls or len(missing) == len(urls):
        raise TrainerError(f"No shards match {pattern}", remedy="Make them with python -m trainer.shards")
    if missing:
        raise TrainerError(f"{len(missing)} of {len(urls)} shards are missing, the first is {missing[0]}")
    return tuple(urls)


def count_samples(url: str) -> int:
    """Samples in a shard, by reading all of it."""
    return sum(1 for _ in read_shard(url))


def read_shard(url: str) -> Iterator[dict[str, Any]]:
    """A shard's samples in order, as webdataset groups them; raises TrainerError naming a damaged shard."""
    try:
        with objects.open_stream(url) as stream:
            yield from group_by_keys(tar_file_expander([{"url": url, "stream": stream}]))
    except (tarfile.TarError, EOFError, ValueError) as error:
        raise TrainerError(f"Shard {url} is damaged or cut off", why=str(error.args[0]).split(" @ ")[0]) from error


def _listed(directory: str, manifest: Manifest, name: str) -> ShardSet | None:
    shards = manifest.splits.get(name, ())
    if not shards:
        return None
    present = set(objects.matching(directory, "*.tar"))
    missing = [shard.name for shard in shards if shard.name not in present]
    if missing:
        raise TrainerError(
            f"{len(missing)} of {len(shards)} {name} shards are missing in {directory}",
            why=f"the first is {missing[0]}",
            remedy="Make the shards again with --overwrite",
        )
    urls = tuple(objects.join(directory, shard.name) for shard in shards)
    return ShardSet(urls, tuple(shard.samples for shard in shards))


def _manifest_beside(url: str) -> Manifest | None:
    if objects.is_pipe(url):
        return None
    where = objects.join(objects.parent(url), MANIFEST)
    return Manifest.from_json(objects.read(where), where) if objects.exists(where) else None


def _counted(urls: tuple[str, ...], manifest: Manifest | None) -> ShardSet:
    listed = {s.name: s.samples for shards in manifest.splits.values() for s in shards} if manifest else {}
    known = [listed.get(url.rpartition("/")[2]) for url in urls]
    return ShardSet(urls, tuple(count_samples(u) if n is None else n for u, n in zip(urls, known, strict=True)))


def _check(train: ShardSet, batch: int, world: int, data: DataConfig) -> None:
    if len(train.urls) < world:
        raise TrainerError(
            f"{len(train.urls)} training shards are too few for {world} cores",
            why="each core streams shards of its own",
            remedy=f"Make at least {world}, with a smaller --samples-per-shard",
        )
    batches, _ = split.train_batches(train.samples, world, batch)
    if batches == 0:
        raise TrainerError(
            f"A batch of {batch} is more than each of {world} cores gets of {data.directory or data.train}",
            why=f"{train.samples} samples over {world} cores are {train.samples // world}",
            remedy="Give a smaller --batch-size, or more data",
        )


class ShardStream(IterableDataset[Any]):
    """A rank's share of one epoch as batches; each loader process reads its own pieces.

    A TrainerError is yielded, not raised: a loader process would wrap it into a traceback. `batches` unwraps it.
    """

    def __init__(self, shards: ShardSet, share: Share, data: Dataset, batch: int, seed: str, buffer: int) -> None:
        """`buffer` 0 means evaluation: in order, centre crops, the last batch padded."""
        self._shards, self._share, self._data = shards, share, data
        self._batch, self._seed, self._buffer = batch, seed, buffer

    def __iter__(self) -> Iterator[Batch | TrainerError]:
        """Batches of this loader process, or of the whole share where there is only one."""
        worker = get_worker_info()
        loader = worker.id if worker else 0
        rng = random.Random(f"{self._seed} {loader}")
        samples: Iterable[tuple[Pixels, int]] = self._decoded(self._share.loaders[loader], rng)
        try:
            yield from self._batched(iter(samples))
        except TrainerError as error:
            yield error

    def _decoded(self, pieces: tuple[Piece, ...], rng: random.Random) -> Iterator[tuple[Pixels, int]]:
        raw: Iterator[dict[str, Any]] = self._read(pieces)
        if self._buffer:
            raw = iter(webdataset.filters.shuffle(self._buffer, initial=self._buffer, rng=rng)(raw))
        for sample in raw:
            yield self._decode(sample, rng)

    def _read(self, pieces: tuple[Piece, ...]) -> Iterator[dict[str, Any]]:
        for piece in pieces:
            url = self._shards.urls[piece.shard]
            read = 0
            for sample in islice(read_shard(url), piece.start, piece.stop):
                read += 1
                yield sample
            if read < piece.samples:
                expected = self._shards.counts[piece.shard]
                raise TrainerError(
                    f"Shard {url} holds {piece.start + read} samples",
                    why=f"its manifest says {expected}",
                    remedy="Make the shards again with --overwrite",
                )

    def _decode(self, sample: dict[str, Any], rng: random.Random) -> tuple[Pixels, int]:
        where = f"Sample {sample['__key__']} of {sample['__url__']}"
        try:
            label = int(sample["cls"])
            content = next(sample[key] for key in IMAGE_KEYS.split(";") if key in sample)
            image = Image.open(io.BytesIO(content)).convert("RGB")
        except (KeyError, StopIteration) as error:
            raise TrainerError(f"{where} lacks a class or an image", why=f"it has {_fields(sample)}") from error
        except IMAGE_ERRORS as error:
            raise TrainerError(f"{where} cannot be decoded", why=str(error)) from error
        if not 0 <= label < self._data.classes:
            raise TrainerError(f"{where} has class {label}", why=f"there are {self._data.classes} classes")
        size = self._data.image_size
        return (augmented(image, size, rng) if self._buffer else centred(image, size)), label

    def _batched(self, samples: Iterator[tuple[Pixels, int]]) -> Iterator[Batch]:
        size = self._data.image_size
        while chunk := list(islice(samples, self._batch)):
            images = np.zeros((self._batch, 3, size, size), dtype=np.uint8)
            labels = np.full(self._batch, PADDING, dtype=np.int64)
            for row, (pixels, label) in enumerate(chunk):
                images[row], labels[row] = pixels.transpose(2, 0, 1), label
            yield torch.from_numpy(images), torch.from_numpy(labels)


def augmented(image: Image.Image, size: int, rng: random.Random) -> Pixels:
    """A random crop and flip: by a few pixels where the image has the size already, else of a random part."""
    if image.size == (size, size):
        padded = np.pad(np.asarray(image), ((CROP_MARGIN, CROP_MARGIN), (CROP_MARGIN, CROP_MARGIN), (0, 0)))
        top, left = rng.randrange(2 * CROP_MARGIN + 1), rng.randrange(2 * CROP_MARGIN + 1)
        pixels: Pixels = padded[top : top + size, left : left + size]
    else:
        pixels = np.asarray(image.resize((size, size), Image.Resampling.BILINEAR, box=_random_box(image, rng)))
    return pixels[:, ::-1] if rng.random() < 0.5 else pixels


def centred(image: Image.Image, size: int) -> Pixels:
    """The image itself where it has the size, else its centre."""
    if image.size == (size, size):
        return np.asarray(image)
    side = min(image.size) / EVALUATION_MARGIN
    left, top = (image.width - side) / 2, (image.height - side) / 2
    return np.asarray(image.resize((size, size), Image.Resampling.BILINEAR, box=(left, top, left + side, top + side)))


def _random_box(image: Image.Image, rng: random.Random) -> tuple[float, float, float, float]:
    area = image.width * image.height * rng.uniform(*CROP_AREA)
    ratio = math.exp(rng.uniform(*(math.log(bound) for bound in CROP_RATIO)))
    width = min(image.width, math.sqrt(area * ratio))
    height = min(image.height, math.sqrt(area / ratio))
    left, top = rng.uniform(0, image.width - width), rng.uniform(0, image.height - height)
    return left, top, left + width, top + height


def _fields(sample: dict[str, Any]) -> str:
    return ", ".join(sorted(key for key in sample if not key.startswith("__"))) or "nothing"


def batches(stream: ShardStream, loader_workers: int) -> Iterator[Batch]:
    """Read a stream through so many loader processes; raises the TrainerError that a loader met."""
    for item in DataLoader(stream, batch_size=None, num_workers=loader_workers):
        if isinstance(item, TrainerError):
            raise item
        yield item


def train_epoch(config: TrainConfig, data: Dataset, rank: int, world: int, epoch: int) -> tuple[int, Iterator[Batch]]:
    """How many batches this rank trains on in an epoch, the same on all ranks, and those batches."""
    batch = config.optimizer.batch_size
    if data.train is None:
        steps = config.steps_per_epoch or FAKE_STEPS
        return steps, fake_batches(data, batch, config.seed + rank, steps)
    loaders = min(config.loader_workers, len(data.train.urls) // world)
    order = split.shard_order(len(data.train.urls), config.seed, epoch)
    share = split.train_share(
        data.train.counts, order, rank=rank, world=world, batch=batch, loaders=loaders, limit=config.steps_per_epoch
    )
    buffer = config.data.shuffle_buffer
    stream = ShardStream(data.train, share, data, batch, f"{config.seed} {epoch} {rank}", buffer)
    return share.batches, batches(stream, loaders)


def evaluation(config: TrainConfig, data: Dataset, rank: int, world: int) -> tuple[int, Iterator[Batch]]:
    """The same for an evaluation; a rank with fewer samples gets batches of nothing but padding."""
    assert data.val is not None
    batch = config.optimizer.batch_size
    limit = config.steps_per_epoch
    loaders = min(config.loader_workers, len(data.val.urls))
    share = split.evaluation_share(data.val.counts, rank=rank, world=world, batch=batch, loaders=loaders, limit=limit)
    stream = ShardStream(data.val, share, data, batch, "", 0)
    own = batches(stream, loaders)

    def padded() -> Iterator[Batch]:
        yield from own
        size = data.image_size
        for _ in range(share.batches - -(-share.samples // batch)):
            yield torch.zeros(batch, 3, size, size, dtype=torch.uint8), torch.full((batch,), PADDING)

    return share.batches, padded()


def fake_batches(data: Dataset, batch: int, seed: int, steps: int) -> Iterator[Batch]:
    """One batch of noise, `steps` times: nothing to learn but that batch by heart; measures all but the input."""
    generator = torch.Generator().manual_seed(seed)
    images = torch.randint(0, 256, (batch, 3, data.image_size, data.image_size), generator=generator)
    labels = torch.randint(0, data.classes, (batch,), generator=generator)
    for _ in range(steps):
        yield images.to(torch.uint8), labels
