"""How much of a worker's output is in memory at once."""

from __future__ import annotations

WINDOW_BYTES = 256 * 1024
"""Bytes a worker may send ahead of a reader of its streams; bounds memory and keeps workers from starving others."""
READ_BYTES = 2 * WINDOW_BYTES
"""Bytes of a stream to read at once: all that can have arrived.

asyncssh 2.24 reopens the whole window as soon as less than a window is left to read, so with smaller reads the output
of a fast worker piles up in memory.
"""
