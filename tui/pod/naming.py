"""What a person writes where a run or a saved log is asked for."""

from __future__ import annotations

from pathlib import Path

STDIN = "-"
"""As a file's name: what is piped in."""


def path_of(ref: str) -> Path:
    """The path that a word would be."""
    return Path("/dev/stdin" if ref == STDIN else ref).expanduser()
