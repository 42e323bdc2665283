"""Run torch's loader processes from a fork server that has one thread and nothing of the training in it.

A rank has dozens of threads, and a fork of it would copy every lock that one of them holds at that moment.
"""

from __future__ import annotations

import ctypes
import multiprocessing
import multiprocessing.connection
import os
import signal
import sys
import threading
import warnings
from collections.abc import Iterator
from multiprocessing import forkserver, resource_tracker
from multiprocessing.context import ForkServerContext
from typing import Any

from torch.utils.data import DataLoader, IterableDataset

from trainer.data._compat_multiprocessing import share_forkserver_with_children
from trainer.errors import TrainerError

STOPS = {signal.SIGTERM, signal.SIGINT, signal.SIGHUP}
"""Loaders ignore these: they reach a whole session, and ranks need batches until the step at which all stop."""
PRELOADED = ("trainer.data.pipeline", "google.cloud.storage")
"""What the server imports, so that no loader has to; the latter where there is a bucket to read."""
TRACKER_WARNING = "ignore:resource_tracker:UserWarning"
"""Python's own tracker tidies up after a killed rank; its warning, the last in the log, would hide what happened."""
LESS_MEMORY = "Give fewer --loader-workers, or a smaller --shuffle-buffer"
MORE_SHARED_MEMORY = "Give a container more of it with docker run --shm-size, or give fewer --loader-workers"
_starting = threading.Lock()
# The number of processes is the user's choice.
warnings.filterwarnings("ignore", "This DataLoader will create", UserWarning)


def read(dataset: IterableDataset[Any], processes: int) -> Iterator[Any]:
    """Run the dataset in so many processes, and yield one item of each in turn.

    Raises a TrainerError that the dataset yields, and TrainerError when a process is killed.
    """
    loader: DataLoader[Any] = DataLoader(
        dataset,
        batch_size=None,
        num_workers=processes,
        prefetch_factor=1,  # the least: batches wait in the queue of the process that trains
        worker_init_fn=_begin,
        multiprocessing_context=_forkserver_context(),
    )
    with _starting:  # two epochs' loaders may be started at once
        others = set(multiprocessing.active_children())
        try:
            items = iter(loader)
        except (OSError, EOFError) as error:
            raise TrainerError("No loader process can be started", why=str(error), remedy="Start again") from error
        loaders = set(multiprocessing.active_children()) - others
    try:
        for item in items:
            if isinstance(item, TrainerError):
                raise item
            yield item
    except RuntimeError as error:
        codes = {process.exitcode for process in loaders}
        if not any(codes):
            raise  # raised while reading
        why, remedy = "killed by the kernel if memory ran out, otherwise it has printed why", LESS_MEMORY
        if -signal.SIGBUS in codes:
            why, remedy = "there is too little room in /dev/shm for its batches", MORE_SHARED_MEMORY
        raise TrainerError("A loader process ended unexpectedly", why=why, remedy=remedy) from error
    finally:
        for process in loaders:
            process.kill()  # a loader that waits, for a network or for a killed one's lock, ignores anything else


def start_forkserver(bucket: bool) -> None:
    """Start one fork server for all ranks that this process is about to fork."""
    _forkserver_context(bucket)
    share_forkserver_with_children()


def wait_until_ready() -> None:
    """Start this rank's fork server, if it does not run yet, and wait until it has imported everything."""
    process = _forkserver_context().Process(target=_begin, args=(0,))
    process.start()
    process.join()


def _begin(_: int) -> None:
    for number in STOPS:
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPS)  # for the commands that a loader starts (`pipe:`)
    threading.Thread(target=_die_with_rank, daemon=True).start()


def _die_with_rank() -> None:
    """Kill this process when the rank ends. Its parent is the fork server, which lives as long as any loader does."""
    rank = multiprocessing.parent_process()
    assert rank is not None
    multiprocessing.connection.wait([rank.sentinel])
    os.kill(os.getpid(), signal.SIGKILL)


class _Flag:
    """An event without a lock, so that torch can set it to end a loader even if a killed one held the lock."""

    def __init__(self, context: ForkServerContext) -> None:
        self._byte = context.RawValue(ctypes.c_bool, False)

    def set(self) -> None:
        self._byte.value = True

    def is_set(self) -> bool:
        return self._byte.value


class _Context(ForkServerContext):
    def Event(self) -> _Flag:  # type: ignore[override]  # has all methods that torch uses in loaders
        return _Flag(self)


_context: _Context | None = None


def _forkserver_context(bucket: bool = False) -> _Context:
    """Start the server, which ends with the ranks that use it; each loader inherits what it has imported."""
    global _context
    if _context is None:
        _context = _start_forkserver([name for name in PRELOADED if bucket or name in sys.modules])
    return _context


def _start_forkserver(preloaded: list[str]) -> _Context:
    context = _Context()
    context.set_forkserver_preload(preloaded)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, STOPS)  # inherited by the server, and by each loader
    sys.warnoptions.append(TRACKER_WARNING)
    try:
        resource_tracker.ensure_running()
        signal.pthread_sigmask(signal.SIG_BLOCK, STOPS)  # Python unblocked SIGTERM to start it
        forkserver.ensure_running()
    finally:
        sys.warnoptions.remove(TRACKER_WARNING)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    return context
