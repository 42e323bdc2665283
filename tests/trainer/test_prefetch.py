from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import TypeVar

import pytest

from trainer.data.prefetch import QUEUE_DEPTH, BatchQueue, EpochPrefetcher

T = TypeVar("T")
DEADLINE = 60


def prefetching(make: Callable[[int, int], Iterator[T]]) -> EpochPrefetcher[T]:
    """Return a prefetcher of epochs whose batches `make` makes."""
    return EpochPrefetcher(lambda epoch, first: BatchQueue(lambda: make(epoch, first)))


def test_a_begun_epoch_makes_its_first_batch_before_it_is_requested() -> None:
    made = threading.Event()

    def batches(epoch: int, first: int) -> Iterator[str]:
        for step in range(first, 3):
            made.set()
            yield f"{epoch}.{step}"

    ahead = prefetching(batches)
    ahead.begin(2)
    assert made.wait(DEADLINE)
    assert list(ahead.epoch(2)) == ["2.0", "2.1", "2.2"]


def test_an_epoch_is_the_same_whether_begun_ahead_or_not_and_is_begun_only_once() -> None:
    begun: list[tuple[int, int]] = []

    def batches(epoch: int, first: int) -> Iterator[int]:
        begun.append((epoch, first))
        return iter(range(first, 4))

    ahead = prefetching(batches)
    ahead.begin(1)
    ahead.begin(1)
    assert list(ahead.epoch(1)) == list(ahead.epoch(1)) == [0, 1, 2, 3]
    assert list(ahead.epoch(3, first=2)) == [2, 3]
    assert begun == [(1, 0), (1, 0), (3, 2)]


def test_an_error_of_the_first_batch_is_raised_when_the_batch_is_requested() -> None:
    def broken(epoch: int, first: int) -> Iterator[int]:
        raise OSError("no such shard")
        yield

    ahead = prefetching(broken)
    ahead.begin(1)
    with pytest.raises(OSError, match="no such shard"):
        next(ahead.epoch(1))


def test_batches_are_made_while_the_loop_is_busy_but_only_a_few() -> None:
    made: list[int] = []
    full = threading.Event()

    def batches(epoch: int, first: int) -> Iterator[int]:
        for step in range(100):
            made.append(step)
            if len(made) == QUEUE_DEPTH + 1:
                full.set()
            yield step

    ahead = prefetching(batches)
    taken = ahead.epoch(1)
    assert full.wait(DEADLINE)
    assert len(made) == QUEUE_DEPTH + 1  # no more batches until one is taken
    assert list(taken) == made == list(range(100))


def test_an_error_of_a_later_batch_is_raised_after_the_batches_before_it() -> None:
    def cut_off(epoch: int, first: int) -> Iterator[int]:
        yield 0
        raise OSError("the shard ends here")

    batches = prefetching(cut_off).epoch(1)
    assert next(batches) == 0
    with pytest.raises(OSError, match="ends here"):
        next(batches)


def test_closing_ends_the_epoch_that_is_read_and_the_one_that_was_begun() -> None:
    ended: list[int] = []

    def batches(epoch: int, first: int) -> Iterator[int]:
        try:
            yield from range(100)
        finally:
            ended.append(epoch)

    ahead = prefetching(batches)
    assert next(ahead.epoch(1)) == 0
    ahead.begin(2)
    ahead.close()
    assert sorted(ended) == [1, 2]
