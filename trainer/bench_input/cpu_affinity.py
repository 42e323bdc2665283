"""Assign processor cores to a benchmark's rows and to the object store that some of them read from.

A real bucket answers from other machines. Here it is a process on the same machine, and so is the proxy that delays
requests: with two cores or more, they share one core, and the rows that are compared run on the others, whether they
read from the bucket or not. Otherwise the bucket's work would slow the rows that use it.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

Cores = frozenset[int]


def available() -> Cores:
    """Return the cores that this thread may run on."""
    if hasattr(os, "sched_getaffinity"):
        return frozenset(os.sched_getaffinity(0))
    return frozenset(range(os.cpu_count() or 1))


def split_cores() -> tuple[Cores, Cores]:
    """Return the cores of the rows and those of the object store.

    They are the same where there is one core, or no way to choose cores (macOS).
    """
    cores = available()
    if len(cores) < 2 or not hasattr(os, "sched_setaffinity"):
        return cores, cores
    stores = frozenset({max(cores)})
    return cores - stores, stores


def keep_to(cores: Cores) -> None:
    """Restrict this thread, and all that it starts from now on, to these cores."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, cores)


@contextlib.contextmanager
def run_on(cores: Cores) -> Iterator[None]:
    """Restrict everything that is started in this context to these cores."""
    before = available()
    keep_to(cores)
    try:
        yield
    finally:
        keep_to(before)
