"""Read a folder of class folders as a source of samples: files of any image format, at any depth."""

from __future__ import annotations

import hashlib
import io
import os
import random
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image

from trainer.data.image_decode import decode
from trainer.errors import TrainerError
from trainer.progress import format_count
from trainer.shards.sources import ImageSample, ImageSource, Split, UnreadableImageError

UNCONVERTED = {
    ".jpg": "jpg",
    ".jpeg": "jpg",
    ".jpe": "jpg",
    ".jfif": "jpg",
    ".png": "png",
    ".ppm": "ppm",
    ".webp": "webp",
}
CONVERTED = frozenset((".bmp", ".gif", ".tif", ".tiff", ".pgm", ".pbm", ".pnm", ".tga", ".jp2"))  # to PNG
REPLACE = "Replace or remove it, or give --on-bad-image skip"
# Folders of the splits, in this order of preference; case does not matter
TRAIN, VALIDATION = ("train", "training"), ("val", "valid", "validation", "dev", "test", "testing")


@dataclass(frozen=True)
class _File:
    path: Path
    label: int
    size: int
    changed: int  # nanoseconds


def folder(directory: Path, val_fraction: float, seed: int) -> ImageSource:
    """Read `DIR/train/CLASS/…` and `DIR/val/CLASS/…`, or `DIR/CLASS/…` and set `val_fraction` apart.

    JPEG, PNG, PPM and WebP files are kept as they are, others become PNG. Raises TrainerError, also when the classes
    of the two splits differ; a file that cannot be decoded raises UnreadableImageError when its turn comes.
    """
    if not directory.is_dir():
        raise TrainerError(f"There is no directory {directory}", remedy="Name one that holds a folder for each class")
    if not 0 <= val_fraction < 1:
        raise TrainerError("--val-fraction must be at least 0 and less than 1")
    training, validation = _find_folder(directory, TRAIN), _find_folder(directory, VALIDATION)
    train, classes, others = _class_folders(training or directory)
    if training is not None and validation is not None:
        val, val_classes, more = _class_folders(validation)
        others += more
        _check_same(training, classes, validation, val_classes)
    else:
        random.Random(seed).shuffle(train)
        val_count = round(len(train) * val_fraction)
        train, val = train[val_count:], train[:val_count]
        if not train:
            raise TrainerError(
                f"--val-fraction {val_fraction:g} leaves no image to train on", remedy="Give a smaller one"
            )
    splits = {"train": _split(train)} | ({"val": _split(val)} if val else {})
    notes = (f"Skipped {format_count(others, 'file')} without an image in {directory}",) if others else ()
    return ImageSource(directory.resolve().name, classes, None, splits, _identity(directory, train, val), notes)


def _find_folder(directory: Path, names: Sequence[str]) -> Path | None:
    folders = {path.name.lower(): path for path in sorted(directory.iterdir()) if path.is_dir()}
    return next((folders[name] for name in names if name in folders), None)


def _check_same(train: Path, classes: tuple[str, ...], val: Path, val_classes: tuple[str, ...]) -> None:
    odd = sorted(set(classes) ^ set(val_classes))
    if odd:
        raise TrainerError(
            f"{train} and {val} have different classes",
            why=", ".join(odd[:5]) + (f" and {len(odd) - 5} more" if len(odd) > 5 else ""),
            remedy="Both need a folder for every class, with images in it",
        )


def _class_folders(directory: Path) -> tuple[list[_File], tuple[str, ...], int]:
    """Return the images in order, the classes, and how many files are something else."""
    folders = sorted(path for path in directory.iterdir() if path.is_dir() and not path.name.startswith("."))
    files: list[_File] = []
    others = 0
    for label, class_folder in enumerate(folders):
        paths = [path for path in _below(class_folder) if not path.name.startswith(".")]
        images = [file for path in paths if (file := _image(path, label)) is not None]
        others += len(paths) - len(images)
        if not images and paths:
            raise TrainerError(f"The class folder {class_folder} holds no images", why=f"but e.g. {paths[0].name}")
        if not images:
            raise TrainerError(f"The class folder {class_folder} is empty", remedy="Remove it, or put images there")
        files += images
    if not files:
        raise TrainerError(
            f"No images in class folders under {directory}",
            remedy=f"Lay them out as {directory}/CLASS/NAME.jpg ({', '.join((*UNCONVERTED, *sorted(CONVERTED)))})",
        )
    return files, tuple(path.name for path in folders), others


def _image(path: Path, label: int) -> _File | None:
    """Return an image's file; None if its name is not an image's, or it is not a regular file."""
    if path.suffix.lower() not in UNCONVERTED and path.suffix.lower() not in CONVERTED:
        return None
    try:
        status = path.stat()
    except OSError:  # e.g. a broken link: reported or left out when its turn comes
        return _File(path, label, 0, 0)
    return _File(path, label, status.st_size, status.st_mtime_ns) if stat.S_ISREG(status.st_mode) else None


def _below(directory: Path) -> list[Path]:
    """Return all files, also behind links to directories, except for links that lead back up."""

    def refuse(error: OSError) -> None:
        raise TrainerError(f"Cannot read {error.filename}", why=error.strerror or str(error)) from error

    def walk() -> Iterator[Path]:
        visited = {_identity_of(ancestor) for ancestor in directory.resolve().parents}
        for parent, folders, names in os.walk(directory, onerror=refuse, followlinks=True):
            visited.add(_identity_of(Path(parent)))
            folders[:] = [name for name in sorted(folders) if _identity_of(Path(parent, name)) not in visited]
            yield from (Path(parent) / name for name in names)

    return sorted(walk())


def _identity_of(directory: Path) -> tuple[int, int]:
    status = directory.stat()
    return status.st_dev, status.st_ino


def _identity(directory: Path, train: list[_File], val: list[_File]) -> str:
    """Return a digest that changes when a file or the split changes."""
    files = [
        (str(file.path.relative_to(directory)), file.size, file.changed) for part in (train, val) for file in part
    ]
    return hashlib.sha256(repr((len(train), files)).encode()).hexdigest()


def _split(files: list[_File]) -> Split:
    return len(files), lambda index: _sample(files[index])


def _sample(file: _File) -> ImageSample:
    extension = UNCONVERTED.get(file.path.suffix.lower())
    try:
        content = file.path.read_bytes()
        if extension is None:
            return ImageSample(_as_png(content), "png", file.label)
        decode(content)  # so that a bad file is reported now and by its own name, not during training
        return ImageSample(content, extension, file.label)
    except OSError as error:
        why = error.strerror or str(error)
        raise UnreadableImageError(f"Cannot read {file.path}", why=why, remedy=REPLACE) from error
    except ValueError as error:
        raise UnreadableImageError(f"Cannot decode {file.path}", why=str(error), remedy=REPLACE) from error


def _as_png(content: bytes) -> bytes:
    stream = io.BytesIO()
    try:
        with Image.open(io.BytesIO(content)) as image:
            _in_8_bits(image).convert("RGB").save(stream, "png")
    except ValueError:
        raise
    except Exception as error:  # for damaged files its plugins raise anything, even SyntaxError
        raise ValueError("PIL cannot decode it") from error
    return stream.getvalue()


def _in_8_bits(image: Image.Image) -> Image.Image:
    """Return an image of 8 bits per channel; raise ValueError if its range is not known.

    PIL would cut off all values above 255, so that an image of 16 bits would become white.
    """
    if image.mode.startswith("I;16"):
        return Image.fromarray((np.asarray(image) >> 8).astype(np.uint8))
    if image.mode in ("I", "F"):
        pixels = np.asarray(image)
        least, most = pixels.min(), pixels.max()
        if not 0 <= least <= most <= 255 or (image.mode == "F" and most <= 1):
            raise ValueError(f"its values go from {least:g} to {most:g}, not from 0 to 255")
    return image
