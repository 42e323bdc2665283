"""Turn samples into batches: decode and crop them in threads, in the order they came, always in the same shape.

XLA compiles a graph for every new shape, so the last, smaller batch is filled up with the label `PADDING`. Images
stay uint8 until they are on the device: a quarter of the bytes to move, and normalising there costs next to nothing.
"""

from __future__ import annotations

import json
import random
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import cycle, islice

import numpy as np
import torch

from trainer.data.image_decode import (
    SMALL,
    Planes,
    augment_into,
    centre_into,
    decode,
    decode_plain_ppms,
    open_picture,
    shift_into,
)
from trainer.data.tar_samples import Sample
from trainer.errors import TrainerError
from trainer.progress import format_count, write_error
from trainer.storage.background_io import complete

Batch = tuple[torch.Tensor, torch.Tensor]  # images uint8 [batch, 3, size, size], labels int64 [batch]

DECODE_THREADS = 2  # in each loader; the decoders release the interpreter lock
PADDING = -1  # a label that no class has, and that is counted nowhere
IMAGE_KEYS = ("ppm", "jpg", "jpeg", "jpe", "jfif", "png", "webp", "bmp", "tif", "tiff", "gif", "pgm", "pbm", "pnm")
LABELS = ("cls", "label")  # keys of the class's number in a sample's `json`, if it has no field `cls`


class UnusableError(TrainerError):
    """A sample lacks its class or its image, or the image cannot be decoded."""


@dataclass(frozen=True)
class Batching:
    """How samples become batches: `size` samples each, `image_size` pixels per side.

    A training batch depends on `seed`, its place in the sequence and its samples, and on nothing else.
    """

    size: int
    image_size: int
    classes: int
    seed: str = ""
    training: bool = True
    skip_bad: bool = False  # go on without a sample that cannot be used

    def decode(self, samples: Iterable[Sample], place: int = 0) -> Iterator[Future[Batch]]:
        """Yield a future of each batch of `samples`, the first of which has the given place in the sequence.

        Threads decode; the consumer of the futures decides how many are under way. A future raises TrainerError
        naming a bad sample.
        """
        iterator = iter(samples)
        pool = ThreadPoolExecutor(DECODE_THREADS, thread_name_prefix="decode")
        try:
            while chunk := list(islice(iterator, self.size)):
                make = partial(self._batch_of, chunk, place)
                if self._takes_only_copying(chunk[0]):
                    complete(ready := Future[Batch](), make)
                    yield ready
                else:
                    yield pool.submit(make)
                place += len(chunk)
        except GeneratorExit:
            pool.shutdown(cancel_futures=True)
            raise
        finally:
            pool.shutdown()

    def empty(self) -> Batch:
        """Return a batch of padding only."""
        side = self.image_size
        return torch.zeros(self.size, 3, side, side, dtype=torch.uint8), torch.full((self.size,), PADDING)

    def _takes_only_copying(self, sample: Sample) -> bool:
        """Return whether a sample is small raw pixels: threads do not copy those any faster."""
        small = self.training and 3 * self.image_size**2 <= SMALL
        return small and "ppm" in sample and decode_plain_ppms([sample["ppm"]], self.image_size) is not None

    def _batch_of(self, chunk: list[Sample], place: int) -> Batch:
        try:
            return self._decode_batch(chunk, place)
        except UnusableError:
            if not self.skip_bad:
                raise
        return self._decode_batch(self._usable(chunk), place)

    def _usable(self, chunk: list[Sample]) -> list[Sample]:
        """Return the samples that can be used; in training, some of them again in place of the others."""
        good, bad = [], []
        for sample in chunk:
            try:
                self._label(sample)
                _check_image(sample)
                good.append(sample)
            except UnusableError as error:  # noqa: PERF203
                bad.append(error)
        if not good and self.training:
            remedy = "Make the shards again: its batch has no usable sample"
            raise TrainerError(bad[0].what, why=bad[0].why, remedy=remedy)
        first = f"{', among them' if len(bad) > 1 else ''}: {bad[0].without_remedy()}"
        write_error(f"Continued without {format_count(len(bad), 'sample')}{first}")
        return list(islice(cycle(good), len(chunk))) if self.training else good

    def _decode_batch(self, chunk: list[Sample], place: int) -> Batch:
        images = np.empty((self.size, 3, self.image_size, self.image_size), np.uint8)
        images[len(chunk) :] = 0
        labels = np.full(self.size, PADDING, dtype=np.int64)
        rng = random.Random(f"{self.seed} {place}")  # one for the batch: seeding takes longer than a small image
        labels[: len(chunk)] = [self._label(sample) for sample in chunk]
        contents = [_image(sample) for sample in chunk]
        pixels = decode_plain_ppms(contents, self.image_size) if self.training else None
        if pixels is not None:
            shift_into(images, pixels, rng)
        else:
            for out, sample, content in zip(images, chunk, contents, strict=False):
                self._fill(out, sample, content, rng)
        return torch.from_numpy(images), torch.from_numpy(labels)

    def _label(self, sample: Sample) -> int:
        label_text = sample["cls"] if "cls" in sample else _label_in_json(sample)
        try:
            label = int(label_text)
        except ValueError:
            why = f"{bytes(label_text[:40])!r} is not a whole number"
            raise UnusableError(f"{_name(sample)} has no class", why=why, remedy="Make the shards again") from None
        if not 0 <= label < self.classes:
            raise TrainerError(
                f"{_name(sample)} has class {label}",
                why=f"there are {self.classes} classes, numbered from 0",
                remedy="Give the right --classes, or make the shards again",
            )
        return label

    def _fill(self, out: Planes, sample: Sample, content: bytes, rng: random.Random) -> None:
        """Put a sample's pixels into a row of a batch."""
        try:
            if self.training:
                augment_into(out, open_picture(content), rng)
            else:
                centre_into(out, open_picture(content))
        except ValueError as error:
            raise _undecoded_error(sample, error) from error


def in_order(futures: Iterable[Future[Batch]]) -> Iterator[Batch]:
    """Yield the results of futures, for a loader process; enough are under way to keep its threads busy."""
    pending: deque[Future[Batch]] = deque()
    for future in futures:
        pending.append(future)
        if len(pending) > DECODE_THREADS:
            yield pending.popleft().result()
    while pending:
        yield pending.popleft().result()


def _image(sample: Sample) -> bytes:
    for key in IMAGE_KEYS:
        if key in sample:
            content: bytes = sample[key]
            return content
    raise _missing_field_error(sample)


def _check_image(sample: Sample) -> None:
    try:
        decode(_image(sample))
    except ValueError as error:
        raise _undecoded_error(sample, error) from error


def _label_in_json(sample: Sample) -> bytes:
    try:
        annotation = json.loads(sample["json"])
        label = next(annotation[name] for name in LABELS if isinstance(annotation.get(name), int))
    except (KeyError, ValueError, AttributeError, RecursionError, StopIteration):
        raise _missing_field_error(sample) from None
    return b"%d" % label


def _undecoded_error(sample: Sample, error: ValueError) -> UnusableError:
    remedy = "Make the shards again without it, or continue without such samples with --on-bad-shard skip"
    return UnusableError(f"{_name(sample)} cannot be decoded", why=str(error), remedy=remedy)


def _missing_field_error(sample: Sample) -> UnusableError:
    fields = [key for key in sample if not key.startswith("__")]
    hint = "its files have to lie one after another (tar --sort=name)"
    if any("." in field for field in fields):
        hint = "its name ends at the first dot"
    return UnusableError(
        f"{_name(sample)} lacks a class or an image",
        why=f"it has {', '.join(sorted(fields))}",
        remedy=f"Make the shards again: a sample needs a field cls and an image such as jpg, and {hint}",
    )


def _name(sample: Sample) -> str:
    return f"Sample {sample['__key__']} of {sample['__url__']}"
