from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from trainer.data.sharding import ShardPiece, Share, cut, evaluation_share, shard_order, train_batches, train_share

counts = st.lists(st.integers(0, 40), min_size=1, max_size=12)
worlds = st.integers(1, 9)
batch_sizes = st.integers(1, 17)
loader_numbers = st.integers(0, 5)


def samples(pieces: tuple[ShardPiece, ...]) -> list[tuple[int, int]]:
    return [(piece.shard, index) for piece in pieces for index in range(piece.start, piece.stop)]


def all_samples(share: Share) -> list[tuple[int, int]]:
    return [sample for pieces in share.loaders for sample in samples(pieces)]


@given(counts, worlds, batch_sizes, loader_numbers, st.integers(0, 99))
def test_all_ranks_train_on_equally_many_whole_batches_and_the_rest_is_dropped_exactly(
    counts: list[int], world: int, batch: int, loaders: int, epoch: int
) -> None:
    order = shard_order(len(counts), 7, epoch)
    shares = [
        train_share(counts, order, rank=rank, world=world, batch=batch, loaders=loaders, limit=None)
        for rank in range(world)
    ]
    batches = train_batches(sum(counts), world, batch)
    seen = Counter(sample for share in shares for sample in all_samples(share))
    assert {share.batches for share in shares} == {batches}
    assert all(len(all_samples(share)) == batches * batch for share in shares)
    assert all(len(samples(pieces)) % batch == 0 for share in shares for pieces in share.loaders)
    assert set(seen.values()) <= {1}
    assert all(0 <= index < counts[shard] for shard, index in seen)
    assert 0 <= sum(counts) - len(seen) < world * batch


@given(counts, worlds, batch_sizes, loader_numbers)
def test_an_evaluation_sees_every_sample_once_in_equally_many_batches(
    counts: list[int], world: int, batch: int, loaders: int
) -> None:
    shares = [
        evaluation_share(counts, rank=rank, world=world, batch=batch, loaders=loaders, limit=None)
        for rank in range(world)
    ]
    seen = sorted(sample for share in shares for sample in all_samples(share))
    assert seen == [(shard, index) for shard, count in enumerate(counts) for index in range(count)]
    assert len({share.batches for share in shares}) == 1
    for share in shares:
        # Only the last batch that is read may be partial.
        read = sum(-(-len(samples(pieces)) // batch) for pieces in share.loaders)
        assert read == -(-len(all_samples(share)) // batch) <= share.batches


@given(counts, worlds, batch_sizes, st.integers(1, 5))
def test_a_limit_shortens_every_ranks_epoch_equally(counts: list[int], world: int, batch: int, limit: int) -> None:
    order = list(range(len(counts)))
    whole = train_batches(sum(counts), world, batch)
    for rank in range(world):
        share = train_share(counts, order, rank=rank, world=world, batch=batch, loaders=0, limit=limit)
        assert share.batches == min(limit, whole)
        assert len(all_samples(share)) == share.batches * batch
        tested = evaluation_share(counts, rank=rank, world=world, batch=batch, loaders=0, limit=limit)
        assert tested.batches <= limit


@given(counts, st.data())
def test_a_cut_is_the_sequence_between_its_ends(counts: list[int], data: st.DataObject) -> None:
    order = data.draw(st.permutations(range(len(counts))))
    start = data.draw(st.integers(0, sum(counts)))
    stop = data.draw(st.integers(start, sum(counts)))
    sequence = [(shard, index) for shard in order for index in range(counts[shard])]
    assert samples(cut(counts, order, start, stop)) == sequence[start:stop]


def test_the_shards_come_in_another_order_each_epoch_but_the_same_on_every_rank() -> None:
    orders = [shard_order(16, 42, epoch) for epoch in (1, 2)]
    assert orders[0] != orders[1]
    assert orders == [shard_order(16, 42, epoch) for epoch in (1, 2)]
    assert sorted(orders[0]) == list(range(16))


def test_shards_that_do_not_divide_by_the_ranks_still_feed_every_rank() -> None:
    shares = [
        train_share([64] * 5, range(5), rank=rank, world=4, batch=16, loaders=0, limit=None) for rank in range(4)
    ]
    assert [share.batches for share in shares] == [5] * 4
