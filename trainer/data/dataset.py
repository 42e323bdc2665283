"""Find the shards of a run, count their samples, and check that they are enough for it."""

from __future__ import annotations

import contextlib
import functools
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from fnmatch import fnmatch

from braceexpand import braceexpand

from trainer.config import LARGEST_STRIDE, DataConfig, TrainConfig
from trainer.data import sharding
from trainer.data.shard_reader import ShardFile, count_samples
from trainer.errors import TrainerError
from trainer.progress import every_core, format_count, write_error, write_line
from trainer.shards.manifest import MANIFEST, UNFINISHED, Manifest, Shard
from trainer.storage import objects
from trainer.storage.pipe_urls import is_pipe
from trainer.storage.urls import BUCKET_PREFIX

DEFAULT_SIZE, FAKE_CLASSES = 224, 10
COUNTED_AT_ONCE = 8  # shards that no manifest lists, each read whole to count its samples
SHARDS_REMEDY = "Name them as DIR/NAME-{000000..000639}.tar or DIR/*.tar, or make some with python -m trainer.shards"
COUNT_REPORT_INTERVAL_S = 30.0  # between two lines about the progress of counting


@dataclass(frozen=True)
class ShardSet:
    """The shards of one split, whose samples a manifest lists or a rank has counted."""

    shards: tuple[ShardFile, ...]

    @property
    def counts(self) -> tuple[int, ...]:
        """Return the number of samples in each shard."""
        return tuple(shard.samples for shard in self.shards)

    @property
    def samples(self) -> int:
        """Return the number of samples in all shards."""
        return sum(self.counts)


@dataclass(frozen=True)
class Dataset:
    """The data of a run. Rank 0 finds it and broadcasts it, so that every rank plans with the same numbers."""

    train: ShardSet | None  # None: fake data
    val: ShardSet | None
    classes: int
    image_size: int


def find(config: TrainConfig, world: int) -> Dataset:
    """List and count the shards; raise TrainerError where they cannot feed `world` ranks."""
    data = config.data
    fake = Dataset(None, None, data.classes or FAKE_CLASSES, data.image_size or DEFAULT_SIZE)
    found = fake if data.fake else _find_shards(config, world)
    _check_norm(config, found.image_size)
    return found


def _find_shards(config: TrainConfig, world: int) -> Dataset:
    data = config.data
    train, val, manifest = _in_directory(data) if data.directory is not None else _by_patterns(data)
    _check(train, config.optimizer.batch_size, world, data)
    if val is not None and not val.samples:
        remedy = "Leave --val-shards out, or name some that hold any" if data.val else "Make the shards again"
        raise TrainerError(f"There are no validation samples in {data.val or data.directory}", remedy=remedy)
    if val is None and config.target_accuracy is not None:
        remedy = "Leave --target-accuracy out, or make the shards again with a share for validation"
        raise TrainerError(f"There is no accuracy without validation shards in {data.directory}", remedy=remedy)
    _report_fewer_loaders(config, train, world)
    size = data.image_size or (manifest.image_size if manifest else None) or DEFAULT_SIZE
    return Dataset(train, val, _count_classes(data, manifest), size)


def _count_classes(data: DataConfig, manifest: Manifest | None) -> int:
    classes = data.classes or (len(manifest.classes) if manifest else 0)
    if not classes:
        raise TrainerError("The number of classes is not known", remedy="Give --classes N, or keep manifest.json")
    if manifest is not None and classes < len(manifest.classes):
        listed = f"{MANIFEST} lists {len(manifest.classes)}"
        raise TrainerError(f"--classes {classes} is too few", why=listed, remedy="Leave --classes out")
    if classes == 1:
        remedy = "Make the shards from a directory that holds a folder for each class"
        raise TrainerError(f"There is only one class in {data.directory or data.train}", remedy=remedy)
    return classes


def count_loaders(config: TrainConfig, train: ShardSet, world: int) -> int:
    """Return the loader processes of each rank: at most as many as there are shards per rank."""
    return min(config.loader_workers, len(train.shards) // world)


# --- shards made by trainer.shards: their manifest states everything ----------------------------------------------


def _in_directory(data: DataConfig) -> tuple[ShardSet, ShardSet | None, Manifest | None]:
    assert data.directory is not None
    path = objects.join(data.directory, MANIFEST)
    present = objects.list_names(data.directory)  # raises for a missing bucket or directory
    if MANIFEST not in present:
        raise TrainerError(
            f"There is no {MANIFEST} in {data.directory}",
            why=f"{UNFINISHED} says that its shards were never finished" if UNFINISHED in present else "",
            remedy="Make shards there with python -m trainer.shards, or name them with --train-shards",
        )
    manifest = Manifest.from_json(objects.read_document(path), path)
    skip = data.skips_bad_shards
    train, val = (_from_manifest(data.directory, set(present), manifest, name, skip) for name in ("train", "val"))
    if train is None:
        raise TrainerError(f"{path} lists no training shards")
    return train, val, manifest


def _from_manifest(
    directory: str, present: set[str], manifest: Manifest, name: str, skip_missing: bool
) -> ShardSet | None:
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
    return ShardSet(tuple(_listed(objects.join(directory, shard.name), shard) for shard in shards))


def _listed(url: str, shard: Shard) -> ShardFile:
    """Return a shard with what its manifest states about it."""
    return ShardFile(url, shard.size, shard.sha256, shard.samples)


# --- shards named by patterns: manifests beside them are believed, the others are counted --------------------------


def _by_patterns(data: DataConfig) -> tuple[ShardSet, ShardSet | None, Manifest | None]:
    assert data.train is not None
    skip = data.skips_bad_shards
    urls, val_urls = expand(data.train, skip), expand(data.val, skip) if data.val is not None else ()
    manifests = _find_manifests((*urls, *val_urls))
    _check_same_classes(manifests)
    val = _with_counts(val_urls, manifests, skip) if val_urls else None
    return _with_counts(urls, manifests, skip), val, next(iter(manifests.values()), None)


def expand(pattern: str, skip_missing: bool = False) -> tuple[str, ...]:
    """Return the shards that a pattern names by braces, `*` and `?`; raise TrainerError when none or not all exist.

    With `skip_missing` one is enough; the reader of each missing shard reports it later.
    """
    try:
        names = list(braceexpand(pattern))
    except ValueError as error:
        raise TrainerError(
            f"{pattern} is not a pattern of shards", why=str(error), remedy="Write NAME-{000000..000639}.tar"
        ) from error
    names_in = functools.cache(objects.list_names)
    urls = [url for name in names for url in _expand_wildcards(name, names_in)]
    plain = [url for url in urls if not is_pipe(url)]
    if any(objects.is_bucket(url) and "/" not in url.removeprefix(BUCKET_PREFIX) for url in plain):
        raise TrainerError(f"{pattern} names a bucket and no shards", remedy="Write gs://BUCKET/*.tar")
    present = {directory: set(names_in(directory)) for directory in dict.fromkeys(map(objects.parent, plain))}
    missing = [url for url in plain if _name(url) not in present[objects.parent(url)]]
    if not urls or len(missing) == len(urls):
        raise TrainerError(f"No shards match {pattern}", remedy=SHARDS_REMEDY)
    if missing and not skip_missing:
        raise TrainerError(
            f"{len(missing)} of {len(urls)} shards are missing, the first is {missing[0]}",
            remedy="Name those that are there, make all with python -m trainer.shards, or give --on-bad-shard skip",
        )
    if len(urls) == 1 and plain and not objects.is_bucket(urls[0]) and objects.is_directory(urls[0]):
        raise TrainerError(f"{pattern} is a directory", remedy=f"Write {objects.join(pattern, '*.tar')}")
    return tuple(urls)


def _expand_wildcards(url: str, names_in: Callable[[str], list[str]]) -> list[str]:
    if is_pipe(url) or not any(mark in url for mark in "*?"):
        return [url]
    directory, name = objects.parent(url), _name(url)
    if any(mark in directory for mark in "*?"):
        raise TrainerError(
            f"{url} has * or ? in the name of a directory",
            remedy="Write directories in braces: /data/{a,b}/*.tar",
        )
    return [objects.join(directory, entry) for entry in names_in(directory) if fnmatch(entry, name)]


def _name(url: str) -> str:
    return url.rpartition("/")[2]


def _find_manifests(urls: Iterable[str]) -> dict[str, Manifest]:
    """Read the manifest of each directory that has one; names may be the same in several directories."""
    manifests = {}
    for directory in dict.fromkeys(objects.parent(url) for url in urls if not is_pipe(url)):
        path = objects.join(directory, MANIFEST)
        with contextlib.suppress(objects.MissingError):
            document = objects.read_document(path)
            if not Manifest.is_foreign(document):
                manifests[directory] = Manifest.from_json(document, path)
    return manifests


def _with_counts(urls: tuple[str, ...], manifests: Mapping[str, Manifest], skip_bad: bool) -> ShardSet:
    """Return the shards with their samples counted; `skip_bad` leaves out those that cannot be read."""
    listed = {
        objects.join(directory, shard.name): shard
        for directory, manifest in manifests.items()
        for shards in manifest.splits.values()
        for shard in shards
    }
    paths = {url: objects.join(objects.parent(url), _name(url)) for url in urls}
    known = {url: _listed(url, listed[path]) for url, path in paths.items() if path in listed}
    counts = _count_all([url for url in urls if url not in known], skip_bad)
    known |= {url: ShardFile(url, samples=count) for url, count in counts.items() if count is not None}
    return ShardSet(tuple(known[url] for url in urls if url in known))


def _count_all(urls: list[str], skip_bad: bool) -> dict[str, int | None]:
    if urls:
        write_line(f"==> Counting the samples of {format_count(len(urls), 'shard')} that no {MANIFEST} lists ..")
    counts: dict[str, int | None] = {}
    last_report = time.monotonic()
    with ThreadPoolExecutor(COUNTED_AT_ONCE, thread_name_prefix="count") as pool:
        for url, count in zip(urls, pool.map(lambda url: _count(url, skip_bad), urls), strict=True):
            counts[url] = count
            if time.monotonic() - last_report > COUNT_REPORT_INTERVAL_S:
                last_report = time.monotonic()
                write_line(f"==> {len(counts)} of {len(urls)} shards are counted ..")
    if empty := [url for url, count in counts.items() if count == 0]:
        write_line(f"==> {format_count(len(empty), 'shard')} without any sample, e.g. {empty[0]}")
    return counts


def _count(url: str, skip_bad: bool) -> int | None:
    try:
        return count_samples(url)
    except TrainerError as error:
        if not skip_bad:
            raise
        write_error(f"Continued without a shard: {error.without_remedy()}")
        return None


# --- do they fit the run? -------------------------------------------------------------------------------------------


def _check_same_classes(manifests: Mapping[str, Manifest]) -> None:
    first = next(iter(manifests), "")
    for directory, manifest in manifests.items():
        if manifest.classes != manifests[first].classes:
            odd = sorted(set(manifest.classes) ^ set(manifests[first].classes))
            raise TrainerError(
                f"The shards in {first} and in {directory} have different classes",
                why=", ".join(odd[:5]) if odd else "they are the same, but in another order",
                remedy="Make both with one run of python -m trainer.shards",
            )


def _check(train: ShardSet, batch: int, world: int, data: DataConfig) -> None:
    if len(train.shards) < world:
        raise TrainerError(
            f"{len(train.shards)} training shards are too few for {world} cores",
            why="each core streams its own shards",
            remedy=f"Make at least {world}, with a smaller --samples-per-shard",
        )
    if sharding.train_batches(train.samples, world, batch) == 0:
        raise TrainerError(
            f"A batch of {batch} is more than {every_core(world)} gets of {data.directory or data.train}",
            why=f"{format_count(train.samples, 'sample')} over {format_count(world, 'core')} "
            f"are {train.samples // world}",
            remedy="Give a smaller --batch-size, or more data",
        )


def _check_norm(config: TrainConfig, size: int) -> None:
    """Refuse batches of one small image: the last layers have one value per channel, too few for batch norm."""
    if config.model.startswith("resnet") and config.optimizer.batch_size == 1 and size <= LARGEST_STRIDE:
        raise TrainerError(
            f"--batch-size 1 is too small for {config.model} and images of {size} pixels",
            why="batch norm needs more than one value a channel",
            remedy="Give a larger --batch-size, or a larger --image-size",
        )


def _report_fewer_loaders(config: TrainConfig, train: ShardSet, world: int) -> None:
    able = count_loaders(config, train, world)
    if able < config.loader_workers:
        write_line(
            f"==> {format_count(len(train.shards), 'training shard')} feed {able} loader processes on "
            f"{every_core(world)}, not {config.loader_workers}; "
            "for more, make shards with a smaller --samples-per-shard"
        )
