"""Make WebDataset shards: `python -m trainer.shards cifar10|folder|shapes … --out DIR|gs://bucket/prefix`.

A shard is a plain tar file of pairs `0000042.ppm` (the image as it was) and `0000042.cls` (the class's number).
The same arguments make the same bytes.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import random
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from trainer import images, objects
from trainer.errors import REFUSED, TrainerError
from trainer.images import Sample, Source
from trainer.manifest import MANIFEST, Manifest, Shard
from trainer.progress import write_line

KEY = "%07d"  # seven digits, as the shards of PyTorch/XLA's WebDataset tutorial have them


def make(
    source: Source,
    out: str,
    *,
    samples_per_shard: int,
    repeat: dict[str, int],
    seed: int,
    overwrite: bool = False,
    tell: Callable[[str], None] = write_line,
) -> Manifest:
    """Write every split's shards and, last, the manifest; raises TrainerError.

    Refuses a place that holds a manifest or shards already, unless told to overwrite. `repeat` is how many times
    each split's samples are taken; all are shuffled together with `seed`.
    """
    if samples_per_shard < 1:
        raise TrainerError("--samples-per-shard must be at least 1")
    if any(times < 1 for times in repeat.values()):
        raise TrainerError("--repeat must be at least 1")
    if not overwrite:
        _refuse_occupied(out)
    splits = {}
    for split, (count, sample_at) in source.splits.items():
        order = list(range(count)) * repeat.get(split, 1)
        random.Random(f"{seed} {split}").shuffle(order)
        if not order:
            raise TrainerError(f"The {split} split has no samples")
        splits[split] = tuple(_write_split(f"{source.name}-{split}", order, sample_at, out, samples_per_shard, tell))
    manifest = Manifest(source.name, source.classes, source.image_size, seed, splits)
    objects.write(objects.join(out, MANIFEST), manifest.to_json().encode())
    return manifest


def shard_bytes(samples: Sequence[Sample], first_key: int) -> bytes:
    """A shard in memory; its times and owners are fixed, so that equal samples give equal bytes."""
    import webdataset

    stream = io.BytesIO()
    with webdataset.TarWriter(stream, mtime=0, user="root", group="root") as writer:
        for offset, sample in enumerate(samples):
            key = KEY % (first_key + offset)
            writer.write({"__key__": key, sample.extension: sample.content, "cls": str(sample.label).encode()})
    return stream.getvalue()


def pattern(out: str, name: str, split: str, shards: int) -> str:
    """The brace pattern that names a split's shards."""
    return objects.join(out, f"{name}-{split}-{{000000..{shards - 1:06d}}}.tar")


def _write_split(
    prefix: str,
    order: Sequence[int],
    sample_at: Callable[[int], Sample],
    out: str,
    samples_per_shard: int,
    tell: Callable[[str], None],
) -> list[Shard]:
    shards = []
    starts = range(0, len(order), samples_per_shard)
    for number, start in enumerate(starts):
        samples = [sample_at(index) for index in order[start : start + samples_per_shard]]
        content = shard_bytes(samples, start)
        name = f"{prefix}-{number:06d}.tar"
        objects.write(objects.join(out, name), content)
        shards.append(Shard(name, len(samples), len(content), hashlib.sha256(content).hexdigest()))
        tell(f"{name}: {len(samples)} samples, {len(content) / 1e6:.1f} MB ({number + 1} of {len(starts)})")
    return shards


def _refuse_occupied(out: str) -> None:
    if not objects.is_bucket(out) and not Path(out).exists():
        return
    present = [name for name in objects.matching(out) if name == MANIFEST or name.endswith(".tar")]
    if present:
        raise TrainerError(
            f"{out} already holds {len(present)} shards or manifests, such as {present[0]}",
            remedy="Choose another --out, or add --overwrite",
        )


def main(arguments: Sequence[str] | None = None) -> int:
    """Make shards from the command line; returns the exit code."""
    options = _parser().parse_args(arguments)
    started = time.monotonic()
    try:
        manifest = make(
            _source(options),
            options.out,
            samples_per_shard=options.samples_per_shard,
            repeat={"train": options.repeat, "val": options.val_repeat},
            seed=options.seed,
            overwrite=options.overwrite,
        )
    except TrainerError as error:
        write_line(str(error), descriptor=2)
        return REFUSED
    for split, shards in manifest.splits.items():
        total = sum(shard.samples for shard in shards)
        where = pattern(options.out, manifest.name, split, len(shards))
        write_line(f"{split}: {total} samples of {len(manifest.classes)} classes in {len(shards)} shards: {where}")
    write_line(
        f"Done in {time.monotonic() - started:.1f} s. Train with: python -m trainer.train --data {options.out}"
    )
    return 0


def _source(options: argparse.Namespace) -> Source:
    if options.source == "cifar10":
        return images.cifar10(Path(options.archive))
    if options.source == "folder":
        return images.folder(Path(options.images), options.val_fraction, options.seed)
    if min(options.train, options.val) < 1 or not 8 <= options.size <= 1024:
        raise TrainerError("--train and --val must be at least 1, --size between 8 and 1024")
    return images.shapes(options.train, options.val, options.size, options.seed)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m trainer.shards", description="Make WebDataset shards.")
    sources = parser.add_subparsers(dest="source", required=True, metavar="SOURCE")
    cifar = sources.add_parser("cifar10", help="from cifar-10-python.tar.gz, or where it was unpacked")
    cifar.add_argument("archive")
    classes = sources.add_parser("folder", help="from DIR/CLASS/*.jpg or DIR/{train,val}/CLASS/*.jpg")
    classes.add_argument("images")
    classes.add_argument("--val-fraction", type=float, default=0.1)
    shapes = sources.add_parser("shapes", help="ten shapes, drawn here: small, learnable, made in seconds")
    shapes.add_argument("--train", type=int, default=8192, help="samples (default: %(default)s)")
    shapes.add_argument("--val", type=int, default=1024)
    shapes.add_argument("--size", type=int, default=32, help="pixels a side")
    for each in (cifar, classes, shapes):
        each.add_argument("--out", required=True, help="directory, or gs://bucket/prefix")
        each.add_argument("--samples-per-shard", type=int, default=2000)
        each.add_argument("--repeat", type=int, default=1, help="take every training sample so many times")
        each.add_argument("--val-repeat", type=int, default=1)
        each.add_argument("--seed", type=int, default=42)
        each.add_argument("--overwrite", action="store_true")
    return parser


if __name__ == "__main__":
    sys.exit(main())
