"""Cores of a slice that have printed no line, named only if it is certain that they should have."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from tui.logs._compat_numpy import Ints, np
from tui.logs.core_row import UNKNOWN
from tui.text.ranks import name_ranks

if TYPE_CHECKING:
    from tui.logs.snapshot import Snapshot

_LINES = 4
"""Lines that the other cores have printed on average before a core without one is missing, not only slow to start."""


class MissingCores(NamedTuple):
    """Ordinals that no line names, and their workers (none if that is not certain)."""

    cores: tuple[int, ...] = ()
    workers: tuple[int, ...] = ()

    @property
    def sentence(self) -> str:
        """Say which cores are missing; empty where none is."""
        if not self.cores:
            return ""
        owners = f" ({name_ranks('worker', self.workers)})" if self.workers else ""
        return f"no line from {name_ranks('core', self.cores)}{owners}"


def missing_cores(snapshot: Snapshot, expected: int | None, workers: int, *, is_over: bool) -> MissingCores:
    """Return the cores without a line, of a slice with `expected` cores on `workers` workers.

    No core is missing if the lines name no cores, or if they are not each about one core of the slice: one process
    prints for all cores of a worker, or for all workers, or an ordinal occurs twice. While a run goes on, the other
    cores must have printed a few lines each.
    """
    numbers = np.unique(snapshot.core)
    if expected is None or not _are_ordinals(snapshot, numbers, expected, workers):
        return MissingCores()
    if not is_over and snapshot.samples < _LINES * len(snapshot):
        return MissingCores()
    cores = np.setdiff1d(np.arange(expected), numbers)
    return MissingCores(tuple(cores.tolist()), _owners(snapshot, len(cores), expected, workers))


def _are_ordinals(snapshot: Snapshot, numbers: Ints, cores: int, workers: int) -> bool:
    """Return whether the log's core numbers are the ordinals of a slice in which each core prints its own lines."""
    if len(numbers) < 2 or len(numbers) < len(snapshot) or numbers[0] == UNKNOWN or numbers[-1] >= cores:
        return False
    most = max(worker.cores for worker in snapshot.workers)
    return most > 1 or cores <= workers


def _owners(snapshot: Snapshot, missing: int, expected: int, workers: int) -> tuple[int, ...]:
    """Return the workers that lack cores; none unless they account for all missing cores."""
    owner = snapshot.worker
    if not missing or not workers or expected % workers or (owner == UNKNOWN).any() or (owner >= workers).any():
        return ()
    lacking = expected // workers - np.bincount(owner, minlength=workers)
    return tuple(np.flatnonzero(lacking).tolist()) if (lacking >= 0).all() and lacking.sum() == missing else ()
