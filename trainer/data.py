"""From shards to batches: find them, read a rank's share with webdataset, decode, crop, batch.

Batches always have the same shape, for on an XLA device every new shape is compiled anew: in training the last,
smaller batch is dropped (and counted), in an evaluation it is padded with the label `PADDING`. Images stay uint8
until they are on the device: a quarter of the bytes to move, and normalising there is nearly free.
"""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import random
import signal
from collections import deque
from collections.abc import Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from fnmatch import fnmatch
from itertools import islice
from typing import Any

import numpy as np
import torch
import webdataset
from braceexpand import braceexpand
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

from trainer import objects, split
from trainer.config import DataConfig, TrainConfig
from trainer.decode import Pixels, augmented, centred, decoded
from trainer.errors import TrainerError
from trainer.manifest import MANIFEST, Manifest
from trainer.progress import write_line
from trainer.reading import ShardFile, count_samples, read_shard, read_shards
from trainer.split import Piece, Share

Batch = tuple[torch.Tensor, torch.Tensor]  # images uint8 [batch, 3, size, size], labels int64 [batch]

THREADS = 2  # that decode in each loader; the decoders let go of the interpreter lock
PADDING = -1  # a label no class has: counted nowhere
IMAGE_KEYS = "ppm;jpg;jpeg;png;webp"
DEFAULT_SIZE, FAKE_CLASSES, FAKE_STEPS = 224, 10, 50
SET_PARENT_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG of prctl(2)


@dataclass(frozen=True)
class ShardSet:
    """The shards of one split and how many samples each holds."""

    urls: tuple[str, ...]
    counts: tuple[int, ...]
    sizes: tuple[int | None, ...] = ()  # bytes, and SHA-256: where a manifest tells them
    digests: tuple[str | None, ...] = ()

    def file(self, number: int) -> ShardFile:
        """One shard as a file to be read."""
        return ShardFile(
            self.urls[number],
            self.sizes[number] if self.sizes else None,
            self.digests[number] if self.digests else None,
        )

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
        skip = data.on_bad_shard == "skip"
        train, val = (_listed(data.directory, manifest, name, skip) for name in ("train", "val"))
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


def _listed(directory: str, manifest: Manifest, name: str, skip_missing: bool) -> ShardSet | None:
    shards = manifest.splits.get(name, ())
    if not shards:
        return None
    present = set(objects.matching(directory, "*.tar"))
    missing = [shard.name for shard in shards if shard.name not in present]
    if missing and not skip_missing:
        raise TrainerError(
            f"{len(missing)} of {len(shards)} {name} shards are missing in {directory}",
            why=f"the first is {missing[0]}",
            remedy="Make the shards again with --overwrite",
        )
    urls = tuple(objects.join(directory, shard.name) for shard in shards)
    return ShardSet(
        urls,
        tuple(shard.samples for shard in shards),
        tuple(shard.size for shard in shards),
        tuple(shard.sha256 for shard in shards),
    )


def _manifest_beside(url: str) -> Manifest | None:
    if objects.is_pipe(url):
        return None
    where = objects.join(objects.parent(url), MANIFEST)
    return Manifest.from_json(objects.read(where), where) if objects.exists(where) else None


def _counted(urls: tuple[str, ...], manifest: Manifest | None) -> ShardSet:
    listed = {shard.name: shard for shards in manifest.splits.values() for shard in shards} if manifest else {}
    known = [listed.get(url.rpartition("/")[2]) for url in urls]
    return ShardSet(
        urls,
        tuple(count_samples(u) if shard is None else shard.samples for u, shard in zip(urls, known, strict=True)),
        tuple(None if shard is None else shard.size for shard in known),
        tuple(None if shard is None else shard.sha256 for shard in known),
    )


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

    What a sample becomes depends on the seed, its loader and its place there, on nothing else: so the batches from
    `first` on are those of a whole epoch, and what comes before them is read, but not decoded.
    A TrainerError is yielded, not raised: a loader process would wrap it into a traceback. `batches` unwraps it.
    """

    def __init__(
        self,
        shards: ShardSet,
        share: Share,
        data: Dataset,
        batch: int,
        seed: str,
        buffer: int,
        *,
        first: int = 0,
        skip_bad: bool = False,
        verify: bool = False,
    ) -> None:
        """`buffer` 0 means evaluation: in order, centre crops, the last batch padded."""
        self._shards, self._share, self._data = shards, share, data
        self._batch, self._seed, self._buffer = batch, seed, buffer
        self._first, self._skip_bad, self._verify = first, skip_bad, verify

    def __iter__(self) -> Iterator[Batch | TrainerError]:
        """Batches of this loader process, or of the whole share where there is only one."""
        worker = get_worker_info()
        loaders = len(self._share.loaders)
        # Batches are taken from the loaders in turn: the turn of batch `first` must be the first process's.
        loader = ((worker.id if worker else 0) + self._first) % loaders
        passed = self._first // loaders + (loader < self._first % loaders)
        failure: TrainerError | None = None
        with contextlib.closing(self._read(self._share.loaders[loader])) as source:
            raw = self._shuffled(source, random.Random(f"{self._seed} {loader}"))
            try:
                yield from self._batched(islice(raw, passed * self._batch, None), loader, passed * self._batch)
            except TrainerError as error:
                failure = error.with_traceback(None)  # which would hold what is to be closed
        if failure is not None:
            yield failure

    def _shuffled(self, raw: Iterator[dict[str, Any]], rng: random.Random) -> Iterator[dict[str, Any]]:
        if not self._buffer:
            return raw
        return iter(webdataset.filters.shuffle(self._buffer, initial=self._buffer, rng=rng)(raw))

    def _read(self, pieces: tuple[Piece, ...]) -> Generator[dict[str, Any], None, None]:
        lost = 0
        good = []
        shards = read_shards([self._shards.file(piece.shard) for piece in pieces], self._verify)
        for piece, samples in zip(pieces, shards, strict=True):
            read = 0
            try:
                for sample in self._cut(piece, samples):
                    read += 1
                    yield sample
                good.append(piece)
            except TrainerError as error:
                if not self._skip_bad:
                    raise
                lost += piece.samples - read
                write_line(f"Went on without {piece.samples - read} samples: {error}", descriptor=2)
        if not self._buffer or not lost:
            return  # an evaluation just counts fewer
        if not good:
            raise TrainerError("None of a loader's shards can be read", remedy="Make them again with --overwrite")
        # Every rank has to make as many steps as the others: the lost samples' places are taken by others'.
        while lost:
            for piece in good:
                yield from islice(self._cut(piece, read_shard(self._shards.file(piece.shard))), lost)
                lost -= min(lost, piece.samples)

    def _cut(self, piece: Piece, samples: Iterator[dict[str, Any]]) -> Iterator[dict[str, Any]]:
        read = 0
        for sample in islice(samples, piece.start, piece.stop):
            read += 1
            yield sample
        if read < piece.samples:
            raise TrainerError(
                f"Shard {self._shards.urls[piece.shard]} holds {piece.start + read} samples",
                why=f"its manifest says {self._shards.counts[piece.shard]}",
                remedy="Make the shards again with --overwrite",
            )

    def _batched(self, raw: Iterator[dict[str, Any]], loader: int, place: int) -> Iterator[Batch]:
        """Decode some batches ahead in threads, while the step before computes; they come in their order."""
        pending: deque[Future[Batch]] = deque()
        pool = ThreadPoolExecutor(THREADS, thread_name_prefix="decode")
        try:
            while True:
                chunk = list(islice(raw, self._batch))
                if chunk:
                    pending.append(pool.submit(self._batch_of, chunk, loader, place))
                    place += len(chunk)
                if not pending:
                    return
                if len(pending) > THREADS or not chunk:
                    yield pending.popleft().result()
        finally:
            pool.shutdown(wait=True, cancel_futures=True)

    def _batch_of(self, chunk: list[dict[str, Any]], loader: int, place: int) -> Batch:
        size = self._data.image_size
        images = np.zeros((self._batch, size, size, 3), dtype=np.uint8)
        labels = np.full(self._batch, PADDING, dtype=np.int64)
        for row, sample in enumerate(chunk):
            rng = random.Random(f"{self._seed} {loader} {place + row}")
            images[row], labels[row] = self._decode(sample, rng)
        return torch.from_numpy(images).permute(0, 3, 1, 2).contiguous(), torch.from_numpy(labels)

    def _decode(self, sample: dict[str, Any], rng: random.Random) -> tuple[Pixels, int]:
        where = f"Sample {sample['__key__']} of {sample['__url__']}"
        try:
            label = int(sample["cls"])
            content = next(sample[key] for key in IMAGE_KEYS.split(";") if key in sample)
            image = decoded(content)
        except (KeyError, StopIteration) as error:
            raise TrainerError(f"{where} lacks a class or an image", why=f"it has {_fields(sample)}") from error
        except ValueError as error:
            raise TrainerError(f"{where} cannot be decoded", why=str(error)) from error
        if not 0 <= label < self._data.classes:
            raise TrainerError(f"{where} has class {label}", why=f"there are {self._data.classes} classes")
        size = self._data.image_size
        return (augmented(image, size, rng) if self._buffer else centred(image, size)), label


def _fields(sample: dict[str, Any]) -> str:
    return ", ".join(sorted(key for key in sample if not key.startswith("__"))) or "nothing"


def batches(stream: ShardStream, loader_workers: int) -> Iterator[Batch]:
    """Read a stream through so many loader processes; raises the TrainerError that a loader met."""
    for item in DataLoader(stream, batch_size=None, num_workers=loader_workers, worker_init_fn=_outlive_sigterm):
        if isinstance(item, TrainerError):
            raise item
        yield item


def _outlive_sigterm(_: int) -> None:
    """SIGTERM reaches a whole session; the ranks still need batches up to the step at which all of them stop."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    ctypes.CDLL(None).prctl(SET_PARENT_DEATH_SIGNAL, signal.SIGKILL)


def steps_an_epoch(config: TrainConfig, data: Dataset, world: int) -> int:
    """Training steps in each epoch, the same on all ranks."""
    if data.train is None:
        return config.steps_per_epoch or FAKE_STEPS
    steps, _ = split.train_batches(data.train.samples, world, config.optimizer.batch_size)
    return steps if config.steps_per_epoch is None else min(steps, config.steps_per_epoch)


def plan(config: TrainConfig, data: Dataset, world: int) -> str:
    """A mark of everything that decides which samples each step of a run sees."""
    counts = data.train.counts if data.train else ()
    names = [url.rpartition("/")[2] for url in data.train.urls] if data.train else []
    decisive = (config.optimizer.batch_size, world, config.seed, config.steps_per_epoch, config.data.shuffle_buffer)
    whole = (*decisive, _train_loaders(config, data, world), data.image_size, counts, names)
    return hashlib.sha256(repr(whole).encode()).hexdigest()


def _train_loaders(config: TrainConfig, data: Dataset, world: int) -> int:
    return min(config.loader_workers, len(data.train.urls) // world) if data.train else 0


def train_epoch(
    config: TrainConfig, data: Dataset, rank: int, world: int, epoch: int, first: int = 0
) -> tuple[int, Iterator[Batch]]:
    """How many batches this rank trains on in an epoch, the same on all ranks, and those batches from `first` on."""
    batch = config.optimizer.batch_size
    if data.train is None:
        steps = config.steps_per_epoch or FAKE_STEPS
        return steps, fake_batches(data, batch, config.seed + rank, steps - first)
    loaders = _train_loaders(config, data, world)
    order = split.shard_order(len(data.train.urls), config.seed, epoch)
    share = split.train_share(
        data.train.counts, order, rank=rank, world=world, batch=batch, loaders=loaders, limit=config.steps_per_epoch
    )
    stream = ShardStream(
        data.train,
        share,
        data,
        batch,
        f"{config.seed} {epoch} {rank}",
        config.data.shuffle_buffer,
        first=first,
        skip_bad=config.data.on_bad_shard == "skip",
        verify=config.data.verify,
    )
    return share.batches, batches(stream, loaders)


def evaluation(config: TrainConfig, data: Dataset, rank: int, world: int) -> tuple[int, Iterator[Batch]]:
    """The same for an evaluation; a rank with fewer samples gets batches of nothing but padding."""
    assert data.val is not None
    batch = config.optimizer.batch_size
    limit = config.steps_per_epoch
    loaders = min(config.loader_workers, len(data.val.urls))
    share = split.evaluation_share(data.val.counts, rank=rank, world=world, batch=batch, loaders=loaders, limit=limit)
    skip, verify = config.data.on_bad_shard == "skip", config.data.verify
    stream = ShardStream(data.val, share, data, batch, "", 0, skip_bad=skip, verify=verify)
    own = batches(stream, loaders)

    def padded() -> Iterator[Batch]:
        came = 0
        for batch_read in own:
            came += 1
            yield batch_read
        size = data.image_size
        for _ in range(share.batches - came):
            yield torch.zeros(batch, 3, size, size, dtype=torch.uint8), torch.full((batch,), PADDING)

    return share.batches, padded()


def fake_batches(data: Dataset, batch: int, seed: int, steps: int) -> Iterator[Batch]:
    """One batch of noise, `steps` times: nothing to learn but that batch by heart; measures all but the input."""
    generator = torch.Generator().manual_seed(seed)
    images = torch.randint(0, 256, (batch, 3, data.image_size, data.image_size), generator=generator)
    labels = torch.randint(0, data.classes, (batch,), generator=generator)
    for _ in range(steps):
        yield images.to(torch.uint8), labels
