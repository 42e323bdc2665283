"""What there is to train on: shards found, counted, and compared with what the run needs."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from fnmatch import fnmatch

from braceexpand import braceexpand

from trainer import objects, split
from trainer.config import LARGEST_STRIDE, DataConfig, TrainConfig
from trainer.errors import TrainerError
from trainer.manifest import MANIFEST, UNFINISHED, Manifest
from trainer.pipes import is_pipe
from trainer.progress import counted, every_core, write_line
from trainer.reading import ShardFile, count_samples

DEFAULT_SIZE, FAKE_CLASSES = 224, 10
COUNTED_AT_ONCE = 8  # shards that no manifest tells of: each is read whole to count its samples


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
        size = data.image_size or DEFAULT_SIZE
        _check_norm(config, size)
        return Dataset(None, None, data.classes or FAKE_CLASSES, size)
    train, val, manifest = _in_directory(data) if data.directory is not None else _by_patterns(data)
    _check(train, config.optimizer.batch_size, world, data)
    if val is not None and not val.samples:
        remedy = "Leave --val-shards out, or name some that hold any" if data.val else "Make the shards again"
        raise TrainerError(f"There are no validation samples in {data.val or data.directory}", remedy=remedy)
    _say_fewer_loaders(config, train, world)
    classes = data.classes or (len(manifest.classes) if manifest else 0)
    if not classes:
        raise TrainerError("The number of classes is not known", remedy="Give --classes N, or keep manifest.json")
    if manifest is not None and classes < len(manifest.classes):
        listed = f"{MANIFEST} lists {len(manifest.classes)}"
        raise TrainerError(f"--classes {classes} is too few", why=listed, remedy="Leave --classes out")
    size = data.image_size or (manifest.image_size if manifest else None) or DEFAULT_SIZE
    _check_norm(config, size)
    return Dataset(train, val, classes, size)


def loaders(config: TrainConfig, train: ShardSet, world: int) -> int:
    """Loader processes of each rank: no more than give every one of them a shard of its own."""
    return min(config.loader_workers, len(train.urls) // world)


# --- shards made by trainer.shards: their manifest tells everything ------------------------------------------------


def _in_directory(data: DataConfig) -> tuple[ShardSet, ShardSet | None, Manifest | None]:
    assert data.directory is not None
    where = objects.join(data.directory, MANIFEST)
    present = objects.matching(data.directory)  # a missing bucket or directory is told as that
    if MANIFEST not in present:
        raise TrainerError(
            f"There is no {MANIFEST} in {data.directory}",
            why=f"{UNFINISHED} says that its shards were never finished" if UNFINISHED in present else "",
            remedy="Make shards there with python -m trainer.shards, or name them with --train-shards",
        )
    manifest = Manifest.from_json(objects.read(where), where)
    skip = data.on_bad_shard == "skip"
    train, val = (_listed(data.directory, set(present), manifest, name, skip) for name in ("train", "val"))
    if train is None:
        raise TrainerError(f"{where} lists no training shards")
    return train, val, manifest


def _listed(directory: str, present: set[str], manifest: Manifest, name: str, skip_missing: bool) -> ShardSet | None:
    shards = manifest.splits.get(name, ())
    if not shards:
        return None
    missing = [shard.name for shard in shards if shard.name not in present]
    if missing and not skip_missing:
        raise TrainerError(
            f"{len(missing)} of {len(shards)} {name} shards are missing in {directory}",
            why=f"the first is {missing[0]}",
            remedy="Make the shards again with --overwrite, or give --on-bad-shard skip",
        )
    return ShardSet(
        tuple(objects.join(directory, shard.name) for shard in shards),
        tuple(shard.samples for shard in shards),
        tuple(shard.size for shard in shards),
        tuple(shard.sha256 for shard in shards),
    )


# --- shards named by patterns: a manifest beside them is believed, else they are counted ---------------------------


def _by_patterns(data: DataConfig) -> tuple[ShardSet, ShardSet | None, Manifest | None]:
    assert data.train is not None
    urls, val_urls = expand(data.train), expand(data.val) if data.val is not None else ()
    manifest, val_manifest = _manifest_beside(urls[0]), _manifest_beside(val_urls[0]) if val_urls else None
    if manifest and val_manifest:
        _check_same_classes(manifest, val_manifest, data)
    skip = data.on_bad_shard == "skip"
    val = _counted(val_urls, val_manifest, skip) if val_urls else None
    return _counted(urls, manifest, skip), val, manifest or val_manifest


def expand(pattern: str) -> tuple[str, ...]:
    """The shards a pattern names: braces, then `*` and `?`; raises TrainerError when none or not all are there."""
    try:
        named = list(braceexpand(pattern))
    except ValueError as error:
        raise TrainerError(
            f"{pattern} is no pattern of shards", why=str(error), remedy="Write NAME-{000000..000639}.tar"
        ) from error
    urls = [url for each in named for url in _globbed(each)]
    plain = [url for url in urls if not is_pipe(url)]
    missing: list[str] = []
    for directory in dict.fromkeys(objects.parent(url) for url in plain):
        present = set(objects.matching(directory))
        missing += [u for u in plain if objects.parent(u) == directory and u.rpartition("/")[2] not in present]
    if not urls or len(missing) == len(urls):
        raise TrainerError(f"No shards match {pattern}", remedy="Make them with python -m trainer.shards")
    if missing:
        raise TrainerError(
            f"{len(missing)} of {len(urls)} shards are missing, the first is {missing[0]}",
            remedy="Name those that are there, or make all of them with python -m trainer.shards",
        )
    return tuple(urls)


def _globbed(url: str) -> list[str]:
    if is_pipe(url) or not any(mark in url for mark in "*?"):
        return [url]
    directory, name = objects.parent(url), url.rpartition("/")[2]
    return [objects.join(directory, each) for each in objects.matching(directory) if fnmatch(each, name)]


def _manifest_beside(url: str) -> Manifest | None:
    if is_pipe(url):
        return None
    where = objects.join(objects.parent(url), MANIFEST)
    return Manifest.from_json(objects.read(where), where) if objects.exists(where) else None


def _counted(urls: tuple[str, ...], manifest: Manifest | None, skip_bad: bool) -> ShardSet:
    """The shards and their samples; `skip_bad` leaves out those that cannot be read to count them."""
    listed = {shard.name: shard for shards in manifest.splits.values() for shard in shards} if manifest else {}
    known = [listed.get(url.rpartition("/")[2]) for url in urls]
    unknown = [url for url, shard in zip(urls, known, strict=True) if shard is None]
    if unknown:
        write_line(f"==> Reading {len(unknown)} shards that no {MANIFEST} tells of, to count their samples ..")
    with ThreadPoolExecutor(COUNTED_AT_ONCE, thread_name_prefix="count") as pool:
        counted = dict(zip(unknown, pool.map(lambda url: _count(url, skip_bad), unknown), strict=True))
    told = [
        (url, counted[url] if shard is None else shard.samples, shard) for url, shard in zip(urls, known, strict=True)
    ]
    whole = [(url, count, shard) for url, count, shard in told if count is not None]
    return ShardSet(
        tuple(url for url, _, _ in whole),
        tuple(count for _, count, _ in whole),
        tuple(shard.size if shard else None for _, _, shard in whole),
        tuple(shard.sha256 if shard else None for _, _, shard in whole),
    )


def _count(url: str, skip_bad: bool) -> int | None:
    try:
        return count_samples(url)
    except TrainerError as error:
        if not skip_bad:
            raise
        problem = TrainerError(error.what, why=error.why)  # what to do about it has been chosen
        write_line(f"Went on without a shard: {problem}", descriptor=2)
        return None


# --- do they fit the run? -------------------------------------------------------------------------------------------


def _check_same_classes(train: Manifest, val: Manifest, data: DataConfig) -> None:
    if train.classes == val.classes:
        return
    odd = sorted(set(train.classes) ^ set(val.classes))
    raise TrainerError(
        f"{data.train} and {data.val} have different classes",
        why=", ".join(odd[:5]) if odd else "they are the same, but in another order",
        remedy="Make both with one run of python -m trainer.shards",
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
            f"A batch of {batch} is more than {every_core(world)} gets of {data.directory or data.train}",
            why=f"{counted(train.samples, 'sample')} over {counted(world, 'core')} are {train.samples // world}",
            remedy="Give a smaller --batch-size, or more data",
        )


def _check_norm(config: TrainConfig, size: int) -> None:
    """Of one small image a ResNet's last layers have one value a channel, which is no batch to normalise over."""
    if config.model.startswith("resnet") and config.optimizer.batch_size == 1 and size <= LARGEST_STRIDE:
        raise TrainerError(
            f"--batch-size 1 is too little for {config.model} and images of {size} pixels",
            why="batch norm needs more than one value a channel",
            remedy="Give a larger --batch-size, or a larger --image-size",
        )


def _say_fewer_loaders(config: TrainConfig, train: ShardSet, world: int) -> None:
    able = loaders(config, train, world)
    if able < config.loader_workers:
        write_line(
            f"==> {counted(len(train.urls), 'training shard')} feed {able} loader processes on {every_core(world)}, "
            f"not {config.loader_workers}; for more, make shards with a smaller --samples-per-shard"
        )
