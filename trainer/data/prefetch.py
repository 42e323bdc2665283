"""Read batches in a thread while the one before them trains, and begin the next epoch's input early.

An epoch's first batch takes longest: shards are opened, loader processes start, the shuffle buffer fills.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import threading
import time
from collections.abc import Callable, Generator, Iterator
from queue import Empty, Queue
from typing import Generic, TypeVar

from trainer.storage import pipe_urls

T = TypeVar("T")

QUEUE_DEPTH = 2  # batches that wait for the loop, beside those being decoded
CLOSE_TIMEOUT_S = 5.0  # seconds that a run which ends gives its input to let go; one that waits for a network may not
STOP_WAIT_S = 2.0  # seconds that a run which is to stop waits for a batch
POLL_INTERVAL_S = 0.25  # seconds


class EpochPrefetcher(Generic[T]):
    """The batches of each epoch, whose input may begin before its turn."""

    def __init__(self, make: Callable[[int, int], Iterator[T]], stopping: Callable[[], bool] = lambda: False) -> None:
        """`make(epoch, first)`: an epoch's batches from step `first` on; `stopping` as a Reader has it."""
        self._make, self._stopping = make, stopping
        self._begun: dict[tuple[int, int], BatchReader[T]] = {}
        self._read: BatchReader[T] | None = None

    def begin(self, epoch: int, first: int = 0) -> None:
        """Begin an epoch's input in the background."""
        if (epoch, first) not in self._begun:
            self._begun[epoch, first] = BatchReader(lambda: self._make(epoch, first), self._stopping)

    def epoch(self, epoch: int, first: int = 0) -> Iterator[T]:
        """An epoch's batches from step `first` on; raises what went wrong with them."""
        self.begin(epoch, first)
        self._read = self._begun.pop((epoch, first))
        return iter(self._read)

    def close(self) -> None:
        """End what is still being read, and the loader processes of epochs that will not be trained."""
        pipe_urls.kill_all()
        deadline = time.monotonic() + CLOSE_TIMEOUT_S
        for reader in (*self._begun.values(), *([self._read] if self._read else [])):
            reader.close(deadline)
        self._begun.clear()


class BatchReader(Generic[T]):
    """What an iterator yields, taken from it by a thread of its own; it is read once.

    The thread lives as long as the iterator: loader processes die with the thread that started them. It is not an
    executor's, which a forked loader process would try to join when it ends.
    """

    def __init__(self, make: Callable[[], Iterator[T]], stopping: Callable[[], bool] = lambda: False) -> None:
        """`stopping`: whether the run is to end; then an item that does not come is not waited for much longer."""
        self._stopping = stopping
        self._timed_out = False
        self._ready: Queue[tuple[T] | BaseException | None] = Queue(QUEUE_DEPTH)  # None: there is no more
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(make,), name="ahead", daemon=True)
        self._thread.start()

    def __iter__(self) -> Iterator[T]:
        """Yield the items, then raise the error that ended them. They end early where an item does not come."""
        while (met := self._next()) is not None:
            if isinstance(met, BaseException):
                raise met
            yield met[0]

    def _next(self) -> tuple[T] | BaseException | None:
        patience = STOP_WAIT_S
        while patience > 0:
            with contextlib.suppress(Empty):
                return self._ready.get(timeout=POLL_INTERVAL_S)
            if self._stopping():
                patience -= POLL_INTERVAL_S
        pipe_urls.kill_all()
        _kill_loaders()
        self._timed_out = True
        return None

    def close(self, deadline: float | None = None) -> None:
        """Stop reading and close the iterator; wait for that, within reason."""
        self._closed.set()
        if deadline is None:
            deadline = time.monotonic() + CLOSE_TIMEOUT_S
        while self._thread.is_alive():
            if self._timed_out or time.monotonic() > deadline:
                _kill_loaders()
                return
            with contextlib.suppress(Empty):
                self._ready.get(timeout=0.05)  # room for the item that the thread may be holding

    def _run(self, make: Callable[[], Iterator[T]]) -> None:
        try:
            items = make()
            for item in items:
                self._ready.put((item,))
                if self._closed.is_set():
                    break
            if isinstance(items, Generator):
                items.close()
            self._ready.put(None)
        except BaseException as error:
            self._ready.put(error)


def _kill_loaders() -> None:
    """A loader process that waits for a network hears no SIGTERM, and Python would wait for its end without limit."""
    for loader in multiprocessing.active_children():
        loader.kill()
        loader.join()
