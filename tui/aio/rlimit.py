"""How many files one process may have open: a connection, and in a keeper a log, for each worker of a pod."""

from __future__ import annotations

import contextlib
import math

from tui.errors import UsageError

_FILES_A_WORKER = 2
_SPARE_FILES = 512
RESERVED_FILES = 48
"""What a keeper has open beside its workers' connections and logs, with some to spare."""


def check_file_limit(workers: int) -> None:
    """See that one process can hold a connection and a log for each worker. Raises UsageError."""
    needed = workers * _FILES_A_WORKER + RESERVED_FILES
    limit = _raised_to(needed)
    if limit < needed:
        raise UsageError(
            f"{workers} workers need {needed} open files",
            why=f"a process may open {limit} here",
            remedy="raise the hard limit: ulimit -Hn, limits.conf, LimitNOFILE= or docker run --ulimit nofile=",
        )


def raise_file_limit(workers: int) -> float:
    """How many files this process may open, raised as far as so many workers need and its hard limit allows."""
    return _raised_to(workers * _FILES_A_WORKER + _SPARE_FILES)


def _raised_to(needed: int) -> float:
    """Let this process open `needed` files, as far as its hard limit goes; how many it may open now."""
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
