"""The next epoch's input, begun while this one still trains.

An epoch's first batch takes longest: shards are opened, loader processes start, the shuffle buffer fills.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Generic, TypeVar

T = TypeVar("T")


class Ahead(Generic[T]):
    """The batches of each epoch, whose first may be made in a thread beforehand."""

    def __init__(self, make: Callable[[int, int], Iterator[T]]) -> None:
        """`make(epoch, first)`: an epoch's batches from step `first` on, read only when they are asked for."""
        self._make = make
        self._asked: SimpleQueue[tuple[Iterator[T], Future[T]]] = SimpleQueue()
        self._begun: dict[int, tuple[Iterator[T], Future[T]]] = {}
        self._thread: threading.Thread | None = None

    def begin(self, epoch: int) -> None:
        """Begin an epoch's input in the background."""
        if self._thread is None:
            # One thread, for as long as the process lives: loader processes die with the thread that started them.
            # Not an executor's, whose threads a forked loader process would try to join when it ends.
            self._thread = threading.Thread(target=self._read, name="ahead", daemon=True)
            self._thread.start()
        if epoch not in self._begun:
            self._begun[epoch] = self._make(epoch, 0), Future()
            self._asked.put(self._begun[epoch])

    def epoch(self, epoch: int, first: int = 0) -> Iterator[T]:
        """An epoch's batches from step `first` on, and what went wrong with them."""
        begun = None if first else self._begun.pop(epoch, None)
        if begun is None:
            yield from self._make(epoch, first)
        else:
            batches, earliest = begun
            yield earliest.result()
            yield from batches

    def close(self) -> None:
        """End the loader processes of epochs that were begun and will not be trained: they end with their batches."""
        while self._begun:
            _, (batches, earliest) = self._begun.popitem()
            earliest.exception()  # waits until the thread has let go of them
            if isinstance(batches, Generator):
                batches.close()

    def _read(self) -> None:
        while True:
            batches, earliest = self._asked.get()
            try:
                earliest.set_result(next(batches))
            except BaseException as error:
                earliest.set_exception(error)
