"""Decide which samples each rank and each of its loaders reads; every rank gets the same number of batches.

Shards form one sequence, shuffled for each epoch with a seed that all ranks share. The sequence is cut by sample, not
by shard, so the number of shards need not divide by the number of ranks; both neighbours open a shard that is cut.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class ShardPiece:
    """Samples `start` up to `stop` (exclusive) of one shard."""

    shard: int
    start: int
    stop: int

    @property
    def samples(self) -> int:
        """Return the number of samples in it."""
        return self.stop - self.start


@dataclass(frozen=True)
class Share:
    """One rank's share of an epoch: as many batches as every rank has, and the pieces that each loader reads.

    In an evaluation, the pieces may fill fewer batches; the others are padding.
    """

    batches: int
    loaders: tuple[tuple[ShardPiece, ...], ...]


def shard_order(shards: int, seed: int, epoch: int) -> list[int]:
    """Return the order of the shards in an epoch, the same on every rank."""
    order = list(range(shards))
    random.Random(f"{seed} {epoch}").shuffle(order)
    return order


def train_batches(samples: int, world: int, batch: int) -> int:
    """Return the whole batches of each rank; the remainder, smaller than one global batch, is left out."""
    return samples // (world * batch)


def train_share(
    counts: Sequence[int], order: Sequence[int], *, rank: int, world: int, batch: int, loaders: int, limit: int | None
) -> Share:
    """Return a rank's share of a training epoch, in whole batches; `limit` ends the epoch early."""
    whole = train_batches(sum(counts), world, batch)
    batches = whole if limit is None else min(whole, limit)
    return _share(counts, order, rank * whole * batch, batches * batch, batches, batch, loaders)


def evaluation_share(
    counts: Sequence[int], *, rank: int, world: int, batch: int, loaders: int, limit: int | None
) -> Share:
    """Return a rank's share of an evaluation: each sample once over all ranks, equally many batches on each."""
    total = sum(counts)
    if limit is not None:
        total = min(total, limit * world * batch)
    quota = -(-total // world)
    start = min(rank * quota, total)
    stop = min(start + quota, total)
    return _share(counts, range(len(counts)), start, stop - start, -(-quota // batch), batch, loaders)


def _share(
    counts: Sequence[int], order: Sequence[int], start: int, samples: int, batches: int, batch: int, loaders: int
) -> Share:
    """Divide `samples` samples from `start` on among the loaders, by whole batches; 0 loaders count as one."""
    filled_batches, readers = -(-samples // batch), max(1, loaders)
    pieces = []
    begin = 0
    for reader in range(readers):
        reader_batches = filled_batches // readers + (reader < filled_batches % readers)
        end = min(begin + reader_batches * batch, samples)
        pieces.append(cut(counts, order, start + begin, start + end))
        begin = end
    return Share(batches, tuple(pieces))


def cut(counts: Sequence[int], order: Sequence[int], start: int, stop: int) -> tuple[ShardPiece, ...]:
    """Return the pieces that make up samples `start` up to `stop` of the sequence of shards."""
    pieces = []
    offset = 0
    for shard in order:
        low, high = max(start, offset), min(stop, offset + counts[shard])
        if low < high:
            pieces.append(ShardPiece(shard, low - offset, high - offset))
        offset += counts[shard]
    return tuple(pieces)
