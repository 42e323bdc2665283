"""A rank's share of one epoch as batches, read by its loader processes: each its own pieces of shards."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Generator, Iterator
from dataclasses import replace
from itertools import islice
from typing import Any

import webdataset
from torch.utils.data import IterableDataset, get_worker_info

from trainer.data import loader_processes
from trainer.data.batching import Batch, Batching
from trainer.data.dataset import ShardSet
from trainer.data.sample_cache import SampleCache
from trainer.data.shard_reader import MAKE_AGAIN, read_shard, read_shards
from trainer.data.sharding import ShardPiece, Share
from trainer.data.tar_samples import Sample
from trainer.errors import TrainerError
from trainer.progress import format_count, write_line

FILLED = 10  # a shuffle buffer gives its first sample when it is full to a tenth, and goes on filling


class ShardDataset(IterableDataset[Any]):
    """The batches of a share; each loader process reads its own pieces.

    What a sample becomes depends on the seed, its loader and its place there, on nothing else: so the batches from
    `first` on are those of a whole epoch, and what comes before them is read, but not decoded.
    A TrainerError is yielded, not raised: a loader process would wrap it into a traceback. `batches` unwraps it.
    """

    def __init__(
        self,
        shards: ShardSet,
        share: Share,
        batching: Batching,
        buffer: int = 0,
        *,
        first: int = 0,
        skip_bad: bool = False,
        verify: bool = False,
        cache: SampleCache | None = None,
    ) -> None:
        """Take what each loader needs; `buffer` is how many samples are held to shuffle them, 0 for none.

        `cache` holds what earlier epochs read; not used with loader processes, which end with their epoch.
        """
        self._shards, self._share, self._batching, self._buffer = shards, share, batching, buffer
        self._first, self._skip_bad, self._verify, self._cache = first, skip_bad, verify, cache

    def __iter__(self) -> Iterator[Batch | TrainerError]:
        """Batches of this loader process, or of the whole share where there is only one."""
        worker = get_worker_info()
        loaders = len(self._share.loaders)
        # Batches are taken from the loaders in turn: the turn of batch `first` must be the first process's.
        loader = ((worker.id if worker else 0) + self._first) % loaders
        passed = self._first // loaders + (loader < self._first % loaders)
        seed = f"{self._batching.seed} {loader}"
        failure: TrainerError | None = None
        with contextlib.closing(self._read(self._share.loaders[loader])) as source:
            place = passed * self._batching.size
            raw = islice(self._shuffled(source, random.Random(seed)), place, None)
            try:
                yield from replace(self._batching, seed=seed).of(raw, place)
            except TrainerError as error:
                failure = error.with_traceback(None)  # which would hold what is to be closed
        if failure is not None:
            yield failure

    def _shuffled(self, raw: Iterator[Sample], rng: random.Random) -> Iterator[Sample]:
        if not self._buffer:
            return raw
        first = max(1, self._buffer // FILLED)
        return iter(webdataset.filters.shuffle(self._buffer, initial=first, rng=rng)(raw))

    def _read(self, pieces: tuple[ShardPiece, ...]) -> Generator[Sample, None, None]:
        lost = 0
        good = []
        for piece, samples in self._opened(pieces):
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
                problem = TrainerError(error.what, why=error.why)  # what to do about it has been chosen
                without = f" without {format_count(piece.samples - read, 'sample')}" if read < piece.samples else ""
                write_line(f"Went on{without}: {problem}", descriptor=2)
        if lost and self._batching.training:  # an evaluation just counts fewer
            yield from self._instead(lost, good or self._others(pieces))

    def _opened(self, pieces: tuple[ShardPiece, ...]) -> Iterator[tuple[ShardPiece, Iterator[Sample]]]:
        """Each piece with its shard's samples, from memory where they are held."""
        urls = [self._shards.urls[piece.shard] for piece in pieces]
        held = [self._cache.get(url) if self._cache else None for url in urls]
        missing = [piece for piece, known in zip(pieces, held, strict=True) if known is None]
        shards = read_shards([self._shards.file(piece.shard) for piece in missing], self._verify)
        for piece, url, known in zip(pieces, urls, held, strict=True):
            if known is not None:
                yield piece, iter(known)
            elif self._cache and piece.stop == self._shards.counts[piece.shard]:
                yield piece, self._cache.record(url, piece.stop, next(shards))
            else:
                yield piece, next(shards)

    def _instead(self, lost: int, pieces: list[ShardPiece]) -> Iterator[Sample]:
        """Every rank has to make as many steps as the others: the lost samples' places are taken by others'."""
        while lost:
            before = lost
            for piece in pieces:
                with contextlib.suppress(TrainerError):  # reported where it was read first
                    for sample in islice(self._cut(piece, self._opened_alone(piece)), lost):
                        yield sample
                        lost -= 1
            if lost == before:
                raise TrainerError("None of the shards can be read", remedy="Make them again with --overwrite")

    def _others(self, pieces: tuple[ShardPiece, ...]) -> list[ShardPiece]:
        """The shards that other loaders and ranks read, where this one can read none of its own."""
        own = {piece.shard for piece in pieces}
        return [ShardPiece(number, 0, count) for number, count in enumerate(self._shards.counts) if number not in own]

    def _opened_alone(self, piece: ShardPiece) -> Iterator[Sample]:
        return read_shard(self._shards.file(piece.shard), self._verify)

    def _cut(self, piece: ShardPiece, samples: Iterator[Sample]) -> Iterator[Sample]:
        read = 0
        for sample in islice(samples, piece.start, piece.stop):
            read += 1
            yield sample
        if read < piece.samples:
            raise self._miscounted(piece.shard, f"{piece.start + read} samples")
        count = self._shards.counts[piece.shard]
        # Where it was counted, there are no more; and of a command's output that is read no more has to come.
        if self._shards.is_listed(piece.shard) and piece.stop == count and next(samples, None) is not None:
            raise self._miscounted(piece.shard, f"more than {count} samples")

    def _miscounted(self, shard: int, found: str) -> TrainerError:
        source = "its manifest says" if self._shards.is_listed(shard) else "when they were counted there were"
        why = f"{source} {self._shards.counts[shard]}"
        return TrainerError(f"Shard {self._shards.urls[shard]} holds {found}", why=why, remedy=MAKE_AGAIN)


def batches(stream: ShardDataset, loader_workers: int) -> Iterator[Batch]:
    """Read a stream through so many loader processes; raises the TrainerError that a loader met."""
    for item in loader_processes.read(stream, loader_workers) if loader_workers else stream:
        if isinstance(item, TrainerError):
            raise item
        yield item
