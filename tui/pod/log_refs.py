"""What a person writes where a run or a saved log is asked for."""

from __future__ import annotations

from pathlib import Path

STDIN = "-"
"""As a file's name: what is piped in."""
LAST = "last"
"""The newest run; a file of that name is `./last`."""


def names_a_file(ref: str) -> bool:
    """Whether the word means a saved log on this machine, or what is piped in."""
    return ref == STDIN or (ref != LAST and path_of(ref).is_file())


def names_a_log(ref: str) -> bool:
    """The same, in a bucket too."""
    return ref.startswith("gs://") or names_a_file(ref)


def path_of(ref: str) -> Path:
    """The path that a word would be."""
    return Path("/dev/stdin" if ref == STDIN else ref).expanduser()
