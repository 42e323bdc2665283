"""Make WebDataset shards: `python -m trainer.shards cifar10|folder|shapes … --out DIR|gs://bucket/prefix`.

A shard is a plain tar file of pairs `0000042.ppm` (the image as it was) and `0000042.cls` (the number of its class).
The same arguments make the same bytes, however many processes write them; the same command resumes a run that was
interrupted.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import re
import shlex
import signal
import sys
import time
from collections.abc import Callable, Collection, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

from trainer.config import require_place
from trainer.errors import INTERRUPTED, REFUSED, STOPPED, TrainerError
from trainer.progress import one_line, write_error, write_line
from trainer.shards import image_folder, sources, writer
from trainer.shards.manifest import MANIFEST, UNFINISHED, Manifest, Shard
from trainer.shards.shard_lock import hold_lock
from trainer.shards.sources import ImageSource
from trainer.shards.writer import STOPS, Job, Task, WriteProgress, WrittenShard
from trainer.storage import objects
from trainer.storage.urls import normalise, unsupported_scheme

LAST_SAVE_TIMEOUT_S = 5.0  # for saving the list of finished shards after making shards has failed


class LineProgress:
    """Shows progress by writing one line per shard; the default shows nothing."""

    def __init__(self, write: Callable[[str], None] = lambda _: None) -> None:
        self._write = write
        self._of = 0

    def begin(self, tasks: Sequence[Task], found: Collection[WrittenShard]) -> None:
        """Show which shards are to be written, and how many were found finished."""
        self._of = len(tasks)
        if found:
            self.note(f"Resuming: {len(found)} of {len(tasks)} shards are complete")

    def add(self, written: WrittenShard, number: int) -> None:
        """Show that the `number`th shard is finished."""
        shard = written.shard
        self.note(f"{shard.name}: {shard.samples} samples, {shard.size / 1e6:.1f} MB ({number} of {self._of})")

    def note(self, text: str) -> None:
        """Show something else that the user should know."""
        self._write(text)

    def end(self) -> None:
        """Finish the display."""


class BarProgress(LineProgress):
    """Shows progress as a bar on standard error, in samples."""

    def __init__(self) -> None:
        super().__init__(write_error)
        self._bar: Any = None

    def begin(self, tasks: Sequence[Task], found: Collection[WrittenShard]) -> None:
        """Draw the bar."""
        from tqdm import tqdm  # type: ignore[import-untyped]

        self._bar = tqdm(total=sum(task.stop - task.start for task in tasks), unit=" samples", unit_scale=True)
        for number, written in enumerate(found, 1):
            self.add(written, number)
        super().begin(tasks, found)

    def add(self, written: WrittenShard, number: int) -> None:
        """Advance the bar."""
        self._bar.set_postfix_str(f"{number} shards")
        self._bar.update(written.shard.samples + len(written.skipped))

    def note(self, text: str) -> None:
        """Print a line above the bar."""
        if self._bar is None:
            super().note(text)
        else:
            self._bar.write(one_line(text), file=sys.stderr)

    def end(self) -> None:
        """Leave the bar on the screen."""
        if self._bar is not None:
            self._bar.close()


def make(
    source: ImageSource,
    out: str,
    *,
    samples_per_shard: int,
    repeat: dict[str, int],
    seed: int,
    samples: dict[str, int] | None = None,
    overwrite: bool = False,
    workers: int = 1,
    skip_bad: bool = False,
    display: LineProgress | None = None,
) -> Manifest:
    """Write every split's shards and, last, the manifest; raises TrainerError.

    A place that already holds a manifest or other shards is refused without `overwrite`; an unfinished set of an
    earlier run with the same arguments is completed. A place where another process makes shards is refused.
    `repeat` is how many times each split's samples are taken; all are shuffled together with `seed`. `samples`
    is instead the number of samples that a split is to have: each image is taken equally often or once more.
    `skip_bad` leaves out images that cannot be decoded.
    """
    shown = display or LineProgress()
    orders = _orders(source, samples_per_shard, repeat, seed, samples)
    tasks = [task for split, order in orders.items() for task in _tasks(source, split, order, samples_per_shard)]
    made_from = {
        "images": source.identity,
        "--samples-per-shard": samples_per_shard,
        "--repeat": {split: len(order) // source.splits[split][0] for split, order in orders.items()},
        "--seed": seed,
        "--on-bad-image": "skip" if skip_bad else "stop",
        "classes": list(source.classes),
        **({"--samples": samples} if samples else {}),
    }
    own_names = re.compile(rf"{re.escape(source.name)}-(train|val)-\d{{6}}\.tar")
    writes = re.compile(rf"{own_names.pattern}|{re.escape(MANIFEST)}|{re.escape(UNFINISHED)}")
    names = {task.name for task in tasks}
    with hold_lock(out) as verify_lock:
        objects.remove_temp_files(out, writes)
        progress = WriteProgress(out, made_from)
        _begin_or_resume(progress, overwrite)
        progress.done = {name: written for name, written in progress.done.items() if name in names}
        for text in source.notes:
            shown.note(text)
        try:
            shown.begin(tasks, progress.done.values())
            _write_all(Job(source, dict(orders), out, skip_bad), tasks, workers, progress, shown)
        finally:
            objects.remove_temp_files(out, writes)  # left by processes that were killed in the middle of a shard
            shown.end()
        splits = {
            split: tuple(progress.done[task.name].shard for task in tasks if task.split == split) for split in orders
        }
        manifest = _manifest(source, seed, splits)
        verify_lock()
        objects.write(objects.join(out, MANIFEST), manifest.to_json().encode())
        _tidy(out, own_names, names)
    return manifest


def pattern(out: str, name: str, split: str, shards: int) -> str:
    """Return the brace pattern that names a split's shards."""
    return objects.join(out, f"{name}-{split}-{{000000..{shards - 1:06d}}}.tar")


def _orders(
    source: ImageSource,
    samples_per_shard: int,
    repeat: dict[str, int],
    seed: int,
    samples: dict[str, int] | None = None,
) -> dict[str, list[int]]:
    """Return for each split the numbers of its samples in the order in which shards take them."""
    if samples_per_shard < 1:
        raise TrainerError("--samples-per-shard must be at least 1")
    if any(times < 1 for times in repeat.values()):
        raise TrainerError("--repeat must be at least 1")
    targets = samples or {}
    if any(number < 1 for number in targets.values()):
        raise TrainerError("--samples must be at least 1")
    orders = {}
    for split, (count, _) in source.splits.items():
        shuffling = random.Random(f"{seed} {split}")
        if split in targets and count:
            order = list(range(count)) * (targets[split] // count)
            order += shuffling.sample(range(count), targets[split] % count)
        else:
            order = list(range(count)) * repeat.get(split, 1)
        shuffling.shuffle(order)
        if not order:
            raise TrainerError(f"The {split} split has no samples")
        orders[split] = order
    return orders


def _tasks(source: ImageSource, split: str, order: Sequence[int], samples_per_shard: int) -> list[Task]:
    starts = range(0, len(order), samples_per_shard)
    return [
        Task(f"{source.name}-{split}-{number:06d}.tar", split, start, min(start + samples_per_shard, len(order)))
        for number, start in enumerate(starts)
    ]


def _begin_or_resume(progress: WriteProgress, overwrite: bool) -> None:
    """Check what the place already holds, and write the list that marks the set as unfinished."""
    out = progress.out
    present = objects.list_names(out)
    if UNFINISHED in present and not overwrite:  # also if there is a manifest: then only tidying was interrupted
        progress.load()
        return
    finished = [name for name in present if name == MANIFEST or name.endswith(".tar")]
    if finished and not overwrite:
        raise TrainerError(
            f"{out} already holds {len(finished)} shards or manifests, such as {finished[0]}",
            remedy="Choose another --out, or add --overwrite",
        )
    if MANIFEST in present:  # otherwise a half overwritten set would pass for a whole one
        objects.delete(objects.join(out, MANIFEST))
    progress.save()


def _write_all(job: Job, tasks: Sequence[Task], workers: int, progress: WriteProgress, shown: LineProgress) -> None:
    pending = [task for task in tasks if task.name not in progress.done]
    try:
        with contextlib.closing(writer.write_shards(job, pending, workers)) as ready:
            for written in ready:
                progress.add(written)
                shown.add(written, len(progress.done))
                for text in written.skipped:
                    shown.note(f"Left out. {text}")
    except BaseException:
        with contextlib.suppress(TrainerError):  # the error that ended the writing matters more
            progress.save(LAST_SAVE_TIMEOUT_S)
        raise
    progress.save()


def _manifest(source: ImageSource, seed: int, splits: dict[str, tuple[Shard, ...]]) -> Manifest:
    for split, shards in splits.items():
        if not any(shard.samples for shard in shards):
            raise TrainerError(f"The {split} split has no samples", why="none of its images can be decoded")
    return Manifest(source.name, source.classes, source.image_size, seed, splits)


def _tidy(out: str, own_names: re.Pattern[str], names: set[str]) -> None:
    """Remove the list of finished shards, and the surplus shards of an overwritten, larger set."""
    for present in objects.list_names(out):
        if present == UNFINISHED or (own_names.fullmatch(present) and present not in names):
            objects.delete(objects.join(out, present))


def main(arguments: Sequence[str] | None = None) -> int:
    """Make shards from the command line; returns the exit code."""
    options = _parser().parse_args(arguments)
    started = time.monotonic()
    for number in STOPS:
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, _interrupt)
    try:
        options.out = normalise(options.out)
        manifest = make(
            _source(options),
            options.out,
            samples_per_shard=options.samples_per_shard,
            repeat={"train": options.repeat, "val": options.val_repeat},
            seed=options.seed,
            samples={"train": options.samples} if options.samples is not None else None,
            overwrite=options.overwrite,
            workers=options.workers,
            skip_bad=options.on_bad_image == "skip",
            display=BarProgress() if sys.stderr.isatty() else LineProgress(write_error),
        )
    except TrainerError as error:
        write_error(str(error))
        return REFUSED
    except OSError as error:  # usually of the images' source
        what = f"Cannot read {error.filename}" if error.filename else "Cannot make shards"
        write_error(f"{what}: {error.strerror or error}.")
        return REFUSED
    except KeyboardInterrupt as stop:
        same = "The same command without --overwrite" if options.overwrite else "The same command"
        write_error(f"Stopped. {same} resumes where it stopped.")
        return STOPPED if signal.SIGTERM in stop.args else INTERRUPTED
    for split, shards in manifest.splits.items():
        write_line(_format_split(options.out, manifest, split, shards))
    train = f"python -m trainer.train --data {shlex.quote(options.out)}"
    write_line(f"Done in {time.monotonic() - started:.1f} s. Train with: {train}")
    return 0


def _interrupt(number: int, _: object) -> NoReturn:
    """Stop in an orderly way on the first signal; let the next one end the process at once."""
    for stop in STOPS:
        signal.signal(stop, signal.SIG_DFL)
    raise KeyboardInterrupt(number)


def _format_split(out: str, manifest: Manifest, split: str, shards: Sequence[Shard]) -> str:
    total = sum(shard.samples for shard in shards)
    location = pattern(out, manifest.name, split, len(shards))
    return f"{split}: {total} samples of {len(manifest.classes)} classes in {len(shards)} shards: {location}"


def _source(options: argparse.Namespace) -> ImageSource:
    if options.workers < 1:
        raise TrainerError("--workers must be at least 1")
    if not options.out:
        raise TrainerError("--out is empty", remedy="Name a directory, or gs://bucket/prefix")
    require_place("--out", options.out)
    if options.source == "cifar10":
        return sources.cifar10(_local(options.archive))
    if options.source == "folder":
        return image_folder.folder(_local(options.images), options.val_fraction, options.seed)
    if min(options.train, options.val) < 1 or not 8 <= options.size <= 1024:
        raise TrainerError("--train and --val must be at least 1, --size between 8 and 1024")
    return sources.shapes(options.train, options.val, options.size, options.seed)


def _local(path: str) -> Path:
    if objects.is_bucket(path) or unsupported_scheme(path):
        raise TrainerError(f"Images are read from this machine only, not from {path}", remedy="Copy them here first")
    return Path(normalise(path))


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m trainer.shards", description="Make WebDataset shards.")
    sources = parser.add_subparsers(dest="source", required=True, metavar="SOURCE")
    default = "(default: %(default)s)"
    add_source = partial(sources.add_parser, allow_abbrev=False)
    cifar = add_source("cifar10", help="from cifar-10-python.tar.gz, or where it was unpacked")
    cifar.add_argument("archive", help="the downloaded file, or the directory where it was unpacked")
    classes = add_source("folder", help="from DIR/CLASS/*.jpg or DIR/{train,val}/CLASS/*.jpg")
    classes.add_argument("images", help="the directory with CLASS/*.jpg or {train,val}/CLASS/*.jpg")
    classes.add_argument(
        "--val-fraction", type=float, default=0.1, metavar="X", help=f"share for validation {default}"
    )
    shapes = add_source("shapes", help="ten drawn shapes: small, learnable, made in seconds")
    shapes.add_argument("--train", type=int, default=8192, metavar="N", help=f"training samples {default}")
    shapes.add_argument("--val", type=int, default=1024, metavar="N", help=f"validation samples {default}")
    shapes.add_argument("--size", type=int, default=32, metavar="N", help=f"pixels per side {default}")
    for command in (cifar, classes, shapes):
        add = command.add_argument
        add("--out", required=True, metavar="DIR", help="directory, or gs://bucket/prefix")
        add("--samples-per-shard", type=int, default=2000, metavar="N", help=f"samples in each shard {default}")
        size = command.add_mutually_exclusive_group()
        size.add_argument("--repeat", type=int, default=1, metavar="N", help="take each training sample N times")
        size.add_argument("--samples", type=int, metavar="N", help="training samples in all, repeated as necessary")
        add("--val-repeat", type=int, default=1, metavar="N", help="take each validation sample N times")
        add("--seed", type=int, default=42, help=f"of the order of samples {default}")
        add("--overwrite", action="store_true", help="replace what --out holds")
        add("--workers", type=int, default=_cores(), metavar="N", help=f"writing processes {default}")
        bad = "at an image that cannot be decoded: name it and stop, or name it and leave it out (default: stop)"
        add("--on-bad-image", choices=("stop", "skip"), default="stop", help=bad)
    return parser
