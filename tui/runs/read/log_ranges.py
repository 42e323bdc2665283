"""Reads of a run's growing files: their size, and bytes of them."""

from __future__ import annotations

import os

from tui.runs.record.run_directory import RunDirectory


def log_size(directory: RunDirectory, worker: int) -> int:
    """Return the length of a worker's mirror in bytes, 0 where there is none."""
    try:
        return directory.log_path(worker).stat().st_size
    except OSError:
        return 0


def read_range(path: os.PathLike[str], start: int, size: int) -> bytes:
    """Return at most `size` bytes of a file from byte `start` on, none where there is no file. Raises OSError."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return b""
    try:
        return os.pread(descriptor, size, start)
    finally:
        os.close(descriptor)
