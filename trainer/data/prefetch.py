"""Keep batches ready for the training loop, and begin the next epoch's input early.

An epoch's first batch takes longest: shards are opened, loader processes start, the shuffle buffer fills.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import threading
import time
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future
from queue import Empty, Queue
from typing import TYPE_CHECKING, Generic, TypeVar

from trainer.storage import pipe_urls

if TYPE_CHECKING:
    from typing_extensions import Self

T = TypeVar("T")

QUEUE_DEPTH = 3  # batches that are ready or being decoded: two threads decode while one batch is ready
CLOSE_TIMEOUT_S = 5.0  # seconds that a run which ends waits for its input, which may be waiting for a network
STOP_WAIT_S = 2.0  # seconds that a run which is to stop waits for a batch
POLL_INTERVAL_S = 0.25  # seconds


def never() -> bool:
    """Return False: nothing requests an early end."""
    return False


class BatchQueue(Generic[T]):
    """The bounded queue between an epoch's input and the loop that iterates over it, once.

    A thread fills it from an iterator of items, or of futures of items. The thread lives as long as the iterator:
    loader processes die with the thread that started them. It does not belong to an executor, which a forked loader
    process would try to join when it ends.
    """

    def __init__(self, make: Callable[[], Iterator[T | Future[T]]], is_stopping: Callable[[], bool] = never) -> None:
        """Set up without starting; `make` is called in the thread.

        Once `is_stopping` returns True, an item that does not come ends the iteration after STOP_WAIT_S.
        """
        self._is_stopping = is_stopping
        self._timed_out = self._ended = False
        self._ready: Queue[tuple[T | Future[T]] | BaseException | None] = Queue(QUEUE_DEPTH)  # None: the end
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._fill, args=(make,), name="batches", daemon=True)

    def start(self) -> Self:
        """Start filling the queue, if that has not begun."""
        if self._thread.ident is None:
            self._thread.start()
        return self

    def __iter__(self) -> Iterator[T]:
        return self

    def __next__(self) -> T:
        """Return the next item, or raise the error that ended them; raise StopIteration early as for `__init__`."""
        self.start()
        entry = None if self._ended else self._take()
        if entry is None:
            self._ended = True
            raise StopIteration
        try:
            if isinstance(entry, BaseException):
                raise entry
            return entry[0].result() if isinstance(entry[0], Future) else entry[0]
        except BaseException:
            self._ended = True
            self._stop_filling()
            raise

    def close(self, deadline: float | None = None) -> None:
        """Stop filling and wait until the iterator is closed, at most until `deadline` (time.monotonic)."""
        if deadline is None:
            deadline = time.monotonic() + CLOSE_TIMEOUT_S
        self._stop_filling()
        while self._thread.is_alive():
            if self._timed_out or time.monotonic() > deadline:
                _kill_loaders()
                return
            self._thread.join(0.05)
            self._stop_filling()

    def _stop_filling(self) -> None:
        """End the thread; make room for the item that it may be about to put into the queue."""
        self._closed.set()
        with contextlib.suppress(Empty):
            while True:
                self._ready.get_nowait()

    def _take(self) -> tuple[T | Future[T]] | BaseException | None:
        patience = STOP_WAIT_S
        while patience > 0:
            with contextlib.suppress(Empty):
                return self._ready.get(timeout=POLL_INTERVAL_S)
            if self._is_stopping():
                patience -= POLL_INTERVAL_S
        pipe_urls.kill_all()
        _kill_loaders()
        self._timed_out = True
        return None

    def _fill(self, make: Callable[[], Iterator[T | Future[T]]]) -> None:
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


class EpochPrefetcher(Generic[T]):
    """The batches of each epoch; an epoch's input may begin during the previous epoch."""

    def __init__(self, make: Callable[[int, int], BatchQueue[T]]) -> None:
        """Set up; `make(epoch, first)` returns an epoch's batches from step `first` on."""
        self._make = make
        self._begun: dict[tuple[int, int], BatchQueue[T]] = {}
        self._current: BatchQueue[T] | None = None

    def begin(self, epoch: int, first: int = 0) -> None:
        """Begin an epoch's input in the background."""
        if (epoch, first) not in self._begun:
            self._begun[epoch, first] = self._make(epoch, first).start()

    def epoch(self, epoch: int, first: int = 0) -> Iterator[T]:
        """Return an epoch's batches from step `first` on; iterating over them raises the errors of its input."""
        self.begin(epoch, first)
        self._current = self._begun.pop((epoch, first))
        return self._current

    def close(self) -> None:
        """Stop reading, and end the loader processes of epochs that will not be trained."""
        pipe_urls.kill_all()
        deadline = time.monotonic() + CLOSE_TIMEOUT_S
        for queue in (*self._begun.values(), *([self._current] if self._current else [])):
            queue.close(deadline)
        self._begun.clear()


def _kill_loaders() -> None:
    """Kill loader processes: one that waits for a network ignores SIGTERM, and Python would wait for it forever."""
    for loader in multiprocessing.active_children():
        loader.kill()
        loader.join()
