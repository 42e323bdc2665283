"""How much of a worker's output is in memory at once."""

from __future__ import annotations

STREAM_WINDOW = 256 * 1024
"""Bytes a worker may send ahead of a reader of its streams; bounds memory and keeps workers from starving others."""
READ_BYTES = 2 * STREAM_WINDOW
"""How much of a stream to read at once: all that there is.

asyncssh 2.24 opens the whole window again once less than a window is left to read, whatever waits behind that: with
smaller reads, more and more of a fast worker's output piles up.
"""
