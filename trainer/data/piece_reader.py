"""Read pieces of shards as samples: the first stage of an input pipeline."""

from __future__ import annotations

import contextlib
from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice

from trainer.data.sample_cache import SampleCache
from trainer.data.shard_reader import MAKE_AGAIN, ShardFile, read_shard, read_shards
from trainer.data.sharding import ShardPiece
from trainer.data.tar_samples import Sample
from trainer.errors import TrainerError
from trainer.progress import format_count, write_error


class PieceReader:
    """Pipeline stage from pieces of shards to their samples; fetches the next shards in the background.

    Raises TrainerError naming a damaged shard. With `skip_bad`, reports it and goes on; with `refill`, other samples
    then take the places of the lost ones, since every rank has to make as many steps as the others.
    """

    def __init__(
        self,
        shards: Sequence[ShardFile],
        *,
        refill: bool,
        skip_bad: bool = False,
        verify: bool = False,
        cache: SampleCache | None = None,
    ) -> None:
        """Set up; `cache` holds what earlier epochs read; None for loader processes, which end with their epoch."""
        self._shards, self._refill, self._skip_bad, self._verify = shards, refill, skip_bad, verify
        self._cache = cache
        self._fetching: Generator[Iterator[Sample], None, None] | None = None

    def __call__(self, pieces: Iterable[ShardPiece]) -> Iterator[Sample]:
        """Yield the samples of the pieces in order."""
        all_pieces = tuple(pieces)
        lost = 0
        good = []
        for piece, samples in self._open(all_pieces):
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
                without = f" without {format_count(piece.samples - read, 'sample')}" if read < piece.samples else ""
                write_error(f"Continued{without}: {error.without_remedy()}")
        if lost and self._refill:
            yield from self._read_again(lost, good or self._pieces_of_others(all_pieces))

    def close(self) -> None:
        """Stop fetching shards. `DataPipeline.close` calls this on every stage that has it."""
        if self._fetching is not None:
            self._fetching.close()

    def _open(self, pieces: Sequence[ShardPiece]) -> Iterator[tuple[ShardPiece, Iterator[Sample]]]:
        """Yield each piece with the samples of its shard, from the cache where it holds them."""
        urls = [self._shards[piece.shard].url for piece in pieces]
        cached = [self._cache.get(url) if self._cache else None for url in urls]
        missing = [piece for piece, samples in zip(pieces, cached, strict=True) if samples is None]
        self._fetching = fetched = read_shards([self._file(piece) for piece in missing])
        for piece, url, samples in zip(pieces, urls, cached, strict=True):
            if samples is not None:
                yield piece, iter(samples)
            elif self._cache and piece.stop == self._shards[piece.shard].samples:
                yield piece, self._cache.record(url, piece.stop, next(fetched))
            else:
                yield piece, next(fetched)
        fetched.close()

    def _read_again(self, lost: int, pieces: Sequence[ShardPiece]) -> Iterator[Sample]:
        """Yield as many samples of these pieces as were lost, the same ones several times if need be."""
        while lost:
            before = lost
            for piece in pieces:
                samples = read_shard(self._file(piece))
                with contextlib.suppress(TrainerError):  # reported when it was first read
                    for sample in islice(self._cut(piece, samples), lost):
                        yield sample
                        lost -= 1
            if lost == before:
                raise TrainerError("None of the shards can be read", remedy="Make them again with --overwrite")

    def _file(self, piece: ShardPiece) -> ShardFile:
        shard = self._shards[piece.shard]
        return shard if self._verify else replace(shard, sha256=None)

    def _pieces_of_others(self, pieces: Sequence[ShardPiece]) -> list[ShardPiece]:
        """Return the shards that other loaders and ranks read, for a loader that can read none of its shards."""
        own_shards = {piece.shard for piece in pieces}
        return [
            ShardPiece(number, 0, shard.samples)
            for number, shard in enumerate(self._shards)
            if number not in own_shards
        ]

    def _cut(self, piece: ShardPiece, samples: Iterator[Sample]) -> Iterator[Sample]:
        """Yield the piece's own samples of a shard; raise TrainerError where the shard holds fewer or more."""
        shard, read = self._shards[piece.shard], 0
        for sample in islice(samples, piece.start, piece.stop):
            read += 1
            yield sample
        if read < piece.samples:
            raise _miscount_error(shard, f"{piece.start + read} samples")
        # Only a manifest can state too few samples: a counted shard may be a command, whose rest need not be awaited.
        if shard.is_listed and piece.stop == shard.samples and next(samples, None) is not None:
            raise _miscount_error(shard, f"more than {shard.samples} samples")


def _miscount_error(shard: ShardFile, contents: str) -> TrainerError:
    source = "its manifest says" if shard.is_listed else "when it was counted it held"
    return TrainerError(f"Shard {shard.url} holds {contents}", why=f"{source} {shard.samples}", remedy=MAKE_AGAIN)
