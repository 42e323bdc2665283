"""Lay out what the input benchmark compares: the same images as files, as shards, and in an object store."""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

from trainer.bench_input import object_store, photo_like
from trainer.bench_input.cpu_affinity import run_on, split_cores
from trainer.bench_input.latency_proxy import slowed
from trainer.bench_input.rows import Material
from trainer.bench_input.table import DELAY_MS
from trainer.errors import TrainerError
from trainer.progress import format_count, write_error
from trainer.shards import command, image_folder
from trainer.shards.writer import defer_signals
from trainer.storage import objects
from trainer.storage.urls import BUCKET_PREFIX

STOPS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
BUCKET = "bench-input"
CLASSES = 10  # folders over which the pictures that it makes are spread


@contextlib.contextmanager
def lay_out(options: argparse.Namespace) -> Iterator[tuple[Material, dict[float, str], Path | None]]:
    """Yield the images in every form, the object store's addresses by their delay, and the directory of its files."""
    with contextlib.ExitStack() as stack:
        work = stack.enter_context(_workplace(options.work))
        files = _files(options, work)
        source = image_folder.folder(files, 0.0, 1)
        count = source.splits["train"][0]
        _check(options, files, count)
        per_shard = -(-count // options.shards)
        command.make(source, str(work / "shards"), samples_per_shard=per_shard, repeat={}, seed=1)
        store_files = work / "objects" if object_store.binary() else None
        bucket = ""
        if store_files is not None:
            store_files.mkdir()
            with run_on(split_cores()[1]), defer_signals(STOPS):
                address = stack.enter_context(object_store.running(store_files, BUCKET))
            stack.enter_context(_storage_at(address))
            bucket = f"{BUCKET_PREFIX}{BUCKET}"
        material = Material(
            files=files,
            shards=str(work / "shards"),
            bucket=bucket,
            images=count,
            classes=len(source.classes),
            batch=options.batch,
            size=options.size,
            buffer=options.buffer,
            loaders=options.loaders,
            few=min(count, options.few),
        )
        addresses = {}
        if store_files is not None:
            _upload(material)
            with run_on(split_cores()[1]):
                addresses = {0.0: address, DELAY_MS: stack.enter_context(slowed(address, DELAY_MS))}
        os.sync()  # only what is on the disk can be dropped from the page cache
        yield material, addresses, store_files


@contextlib.contextmanager
def _workplace(parent: str | None) -> Iterator[Path]:
    """Yield a directory that is removed afterwards; it should be on a disk, since memory cannot be read cold."""
    try:
        workplace = tempfile.TemporaryDirectory(prefix="bench-input-", dir=parent)
    except OSError as error:
        what = f"Cannot make a directory in {parent or tempfile.gettempdir()}"
        raise TrainerError(what, why=error.strerror or str(error), remedy="Name another one with --work") from error
    with workplace as work:
        yield Path(work)


def _files(options: argparse.Namespace, work: Path) -> Path:
    if options.folder is not None:
        return Path(options.folder)
    write_error(f"==> Making {options.images} pictures ..")
    for index in range(options.images):
        path = work / "files" / f"class{index % CLASSES}" / f"{index:06d}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(photo_like.picture(str(index)))
    return work / "files"


def _check(options: argparse.Namespace, files: Path, count: int) -> None:
    if count < options.batch:
        why, remedy = f"there are {format_count(count, 'image')}", "Give a smaller --batch, or more --images"
        raise TrainerError(f"Not even one batch of {options.batch} can be made", why=why, remedy=remedy)
    paths = list(files.glob("*/*"))
    if len(paths) != count or any(path.suffix.lower() not in (".jpg", ".jpeg") for path in paths):
        why = "not every row can read other files, or folders in folders"
        remedy = "Give one that holds JPEGs in class folders, and nothing else"
        raise TrainerError(f"Rows cannot be compared over {files}", why=why, remedy=remedy)


@contextlib.contextmanager
def _storage_at(address: str) -> Iterator[None]:
    before = os.environ.get("STORAGE_EMULATOR_HOST")
    os.environ["STORAGE_EMULATOR_HOST"] = address
    try:
        yield
    finally:
        del os.environ["STORAGE_EMULATOR_HOST"]
        if before is not None:
            os.environ["STORAGE_EMULATOR_HOST"] = before


def _upload(material: Material) -> None:
    for path in sorted(Path(material.shards).iterdir()):
        objects.write(f"{material.bucket}/shards/{path.name}", path.read_bytes())
    for path in material.few_files():
        objects.write(f"{material.bucket}/files/{path.parent.name}/{path.name}", path.read_bytes())
