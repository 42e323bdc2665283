"""Arguments that name a run or a saved log."""

from __future__ import annotations

from pathlib import Path

STDIN = "-"
"""As a file name: standard input."""
LAST = "last"
"""The newest run; write `./last` for a file of that name."""


def names_a_file(ref: str) -> bool:
    """Return whether the argument names a saved log on this machine or standard input."""
    return ref == STDIN or (ref != LAST and path_of(ref).is_file())


def names_a_log(ref: str) -> bool:
    """Return whether the argument names a saved log, on this machine or in a bucket."""
    return ref.startswith("gs://") or names_a_file(ref)


def path_of(ref: str) -> Path:
    """Return the path of the file that the argument names."""
    return Path("/dev/stdin" if ref == STDIN else ref).expanduser()
