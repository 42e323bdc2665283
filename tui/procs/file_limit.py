"""Raise the limit on open files, of which a keeper needs a connection and a log for each worker."""

from __future__ import annotations

import contextlib
import math

from tui.errors import UsageError

_FILES_PER_WORKER, _FILES_THROUGH_IAP = 2, 4
"""A connection and a log; through IAP, a connection is a WebSocket and both ends of a pair of sockets."""
_SPARE_FILES = 512
RESERVED_FILES = 48
"""Files that a keeper needs besides its workers' connections and logs, with some to spare."""


def check_file_limit(workers: int, *, through_iap: bool = False) -> None:
    """Raise UsageError if a process cannot have a connection and a log open for each worker."""
    needed = workers * (_FILES_THROUGH_IAP if through_iap else _FILES_PER_WORKER) + RESERVED_FILES
    limit = file_limit(needed)
    if limit < needed:
        raise UsageError(
            f"{workers} workers need {needed} open files",
            why=f"a process may open {limit} here",
            remedy="raise the hard limit: ulimit -Hn, limits.conf, LimitNOFILE= or docker run --ulimit nofile=",
        )


def raise_file_limit(workers: int) -> float:
    """Raise the limit on open files to what the workers need, if the hard limit allows it; return the limit."""
    return file_limit(workers * _FILES_THROUGH_IAP + _SPARE_FILES)


def file_limit(needed: int = 0) -> float:
    """Return the limit on open files, raised to `needed` if it is lower and the hard limit allows it."""
    try:
        import resource
    except ImportError:
        return math.inf
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
            return wanted
    return math.inf if soft == resource.RLIM_INFINITY else soft
