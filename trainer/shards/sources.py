"""Read images from CIFAR-10's archive, or draw shapes (see also `image_folder`).

A source is a list of classes and, for each split, samples: the encoded file, its extension, its class.
"""

from __future__ import annotations

import hashlib
import math
import pickle
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageDraw

from trainer.data.tar_samples import LinkInTarError, decompressed, read_files
from trainer.errors import TrainerError
from trainer.shards._compat_numpy import load_pickled_arrays


@dataclass(frozen=True)
class ImageSample:
    """One image as a shard stores it."""

    content: bytes
    extension: str
    label: int


Split = tuple[int, Callable[[int], ImageSample]]  # the number of samples, and a function from index to sample


class UnreadableImageError(TrainerError):
    """A sample is not an image, or a damaged one; making shards may continue without it."""


@dataclass(frozen=True)
class ImageSource:
    """Classes, and per split a function from index to sample; `image_size` in pixels where all have the same."""

    name: str
    classes: tuple[str, ...]
    image_size: int | None
    splits: dict[str, Split]
    identity: str = ""  # changes with the samples, so that shards begun from others are not resumed
    notes: tuple[str, ...] = ()  # for the user


# --- shapes -------------------------------------------------------------------------------------------------------

SHAPES = ("circle", "triangle", "square", "pentagon", "star", "cross", "ring", "crescent", "bar", "dots")
OVERSAMPLING = 4  # drawn larger and scaled down, for smooth edges


def shapes(train: int, val: int, size: int, seed: int) -> ImageSource:
    """Return a source of ten drawn shapes in random colours, places, sizes and angles.

    They are real pixels to learn from, and quick to make. Sample i depends on the seed, the split and i alone.
    """

    def drawn(split: str) -> Callable[[int], ImageSample]:
        return lambda index: _draw_sample(random.Random(f"{seed} {split} {index}"), index % len(SHAPES), size)

    splits = {"train": (train, drawn("train")), "val": (val, drawn("val"))}
    return ImageSource("shapes", SHAPES, size, splits, f"{seed} {train} {val} {size}")


def _draw_sample(rng: random.Random, label: int, size: int) -> ImageSample:
    large = size * OVERSAMPLING
    background = tuple(rng.randrange(256) for _ in range(3))
    colour = tuple((value + rng.randrange(90, 167)) % 256 for value in background)
    image = Image.new("RGB", (large, large), background)
    radius = large * rng.uniform(0.26, 0.4)
    centre = (large / 2 + rng.uniform(-0.1, 0.1) * large, large / 2 + rng.uniform(-0.1, 0.1) * large)
    _draw(ImageDraw.Draw(image), SHAPES[label], centre, radius, rng.uniform(0, 2 * math.pi), colour, background)
    small = np.asarray(image.resize((size, size), Image.Resampling.BOX), dtype=np.int16)
    noise = np.random.default_rng(rng.getrandbits(32)).integers(-12, 13, small.shape, dtype=np.int16)
    return ImageSample(_ppm(np.clip(small + noise, 0, 255).astype(np.uint8)), "ppm", label)


def _draw(
    draw: ImageDraw.ImageDraw,
    shape: str,
    centre: tuple[float, float],
    radius: float,
    angle: float,
    colour: tuple[int, ...],
    background: tuple[int, ...],
) -> None:
    def disc(at: tuple[float, float], r: float, fill: tuple[int, ...]) -> None:
        draw.ellipse((at[0] - r, at[1] - r, at[0] + r, at[1] + r), fill=fill)

    def polar(r: float, turn: float) -> tuple[float, float]:
        return centre[0] + r * math.cos(angle + turn), centre[1] + r * math.sin(angle + turn)

    def box(along: float, across: float, turn: float = 0.0) -> None:
        half = math.atan2(across, along)
        corners = (half, math.pi - half, math.pi + half, -half)
        draw.polygon([polar(math.hypot(along, across), turn + corner) for corner in corners], fill=colour)

    corners = {"triangle": 3, "square": 4, "pentagon": 5}
    if shape in corners:
        count = corners[shape]
        draw.polygon([polar(radius, 2 * math.pi * i / count) for i in range(count)], fill=colour)
    elif shape == "star":
        tips = [polar(radius if i % 2 == 0 else radius * 0.4, math.pi * i / 5) for i in range(10)]
        draw.polygon(tips, fill=colour)
    elif shape == "cross":
        box(radius, radius * 0.3)
        box(radius, radius * 0.3, math.pi / 2)
    elif shape == "bar":
        box(radius, radius * 0.25)
    elif shape == "dots":
        for turn in (math.pi / 4, 5 * math.pi / 4):
            at = polar(radius * 0.6, turn)
            disc(at, radius * 0.5, colour)
    else:
        disc(centre, radius, colour)
        if shape == "ring":
            disc(centre, radius * 0.55, background)
        elif shape == "crescent":
            disc(polar(radius * 0.55, 0.0), radius * 0.8, background)


def _ppm(pixels: np.ndarray[Any, np.dtype[np.uint8]]) -> bytes:
    height, width, _ = pixels.shape
    return b"P6\n%d %d\n255\n" % (width, height) + pixels.tobytes()


# --- CIFAR-10 -----------------------------------------------------------------------------------------------------

CIFAR_SIZE = 32
CIFAR_ROW = 3 * CIFAR_SIZE * CIFAR_SIZE


def cifar10(archive: Path) -> ImageSource:
    """Return CIFAR-10's "python version" as a source, from cifar-10-python.tar.gz or where it was unpacked.

    Batches `data_batch_*` are the training split, `test_batch` the validation split, `batches.meta` names the
    classes; each row holds the red, then green, then blue plane of a 32×32 image. Raises TrainerError.
    """
    members = _cifar_members(archive)
    train = [members[name] for name in sorted(members) if name.startswith("data_batch_")]
    if not train or "test_batch" not in members or "batches.meta" not in members:
        lacks = "it lacks data_batch_1, test_batch or batches.meta"
        raise TrainerError(
            f"{archive} is not CIFAR-10's archive",
            why="it is CIFAR-100's" if {"train", "test", "meta"} <= members.keys() else lacks,
            remedy="Take the python version, cifar-10-python.tar.gz",
        )
    try:
        names = tuple(label.decode() for label in load_pickled_arrays(members["batches.meta"])[b"label_names"])
        splits = {"train": _cifar_split(train, len(names)), "val": _cifar_split([members["test_batch"]], len(names))}
    except (pickle.UnpicklingError, EOFError, LookupError, ValueError, TypeError, AttributeError) as error:
        raise TrainerError(f"{archive} is damaged, or not CIFAR-10's archive", why=str(error)) from error
    identity = hashlib.sha256(b"".join((*train, members["test_batch"]))).hexdigest()
    return ImageSource("cifar", names, CIFAR_SIZE, splits, identity)


def _cifar_members(archive: Path) -> dict[str, bytes]:
    if archive.is_dir():
        folder = next((path.parent for path in archive.rglob("batches.meta")), archive)
        return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    try:
        with archive.open("rb") as stream:
            return {Path(name).name: content for name, content in read_files(decompressed(stream))}
    except (OSError, ValueError, LinkInTarError) as error:
        reason = getattr(error, "strerror", None)
        why, remedy = reason or str(error).splitlines()[0].rstrip(":"), "" if reason else "Download it again"
        raise TrainerError(f"Cannot read CIFAR-10 from {archive}", why=why, remedy=remedy) from error


def _cifar_split(batches: Sequence[bytes], classes: int) -> Split:
    loaded = [load_pickled_arrays(batch) for batch in batches]
    rows = np.concatenate([np.asarray(batch[b"data"], dtype=np.uint8).reshape(-1, CIFAR_ROW) for batch in loaded])
    labels = [int(label) for batch in loaded for label in batch[b"labels"]]
    if len(labels) != len(rows):
        raise ValueError(f"{len(rows)} images but {len(labels)} labels")
    if labels and not 0 <= min(labels) <= max(labels) < classes:
        raise ValueError(f"labels from {min(labels)} to {max(labels)}, but {classes} classes")

    def sample(index: int) -> ImageSample:
        planes = rows[index].reshape(3, CIFAR_SIZE, CIFAR_SIZE)
        return ImageSample(_ppm(np.ascontiguousarray(planes.transpose(1, 2, 0))), "ppm", labels[index])

    return len(rows), sample
