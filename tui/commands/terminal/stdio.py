"""Standard streams: make closed, unbuffered and non-blocking ones usable, and tolerate closed pipes."""

from __future__ import annotations

import contextlib
import io
import os
import sys
from collections.abc import Iterator
from typing import TextIO

_STREAMS = (("stdin", "r"), ("stdout", "w"), ("stderr", "w"))
"""In the order of their file descriptors."""


def make_usable() -> None:
    """Open /dev/null for closed standard streams, and never fail for a character that an encoding lacks.

    The descriptor of a closed stream would be reused by the next socket or file, and prints would go there.
    A non-blocking or unbuffered stream could accept only a part of what is written.
    """
    for number, (name, mode) in enumerate(_STREAMS):
        if getattr(sys, name) is None:
            descriptor = os.open(os.devnull, os.O_RDWR)
            if descriptor != number:
                os.dup2(descriptor, number)
                os.close(descriptor)
            setattr(sys, name, os.fdopen(number, mode, encoding="utf-8", closefd=False))
    for number, (name, mode) in enumerate(_STREAMS[1:], 1):
        os.set_blocking(number, True)
        stream = getattr(sys, name)
        if not isinstance(stream, io.TextIOWrapper):
            continue
        if isinstance(stream.buffer, io.RawIOBase):
            stream = os.fdopen(number, mode, 1, stream.encoding, stream.errors, closefd=False)
            setattr(sys, name, stream)
        if stream.errors == "strict" or not holds_everything(stream):
            stream.reconfigure(errors="replace")


def holds_everything(stream: TextIO) -> bool:
    """Return whether the stream's encoding has every character, as UTF-8 does and ASCII does not."""
    return (getattr(stream, "encoding", None) or "").lower().replace("-", "").startswith("utf")


def understands_controls(stream: TextIO) -> bool:
    """Return whether the stream is a terminal that understands control sequences; an editor's shell window is not."""
    return stream.isatty() and os.environ.get("TERM") != "dumb"


@contextlib.contextmanager
def silent_on_closed_pipe() -> Iterator[None]:
    """Ignore a closed pipe: its reader has read enough."""
    try:
        yield
    except BrokenPipeError:
        _flush_or_discard(sys.stdout)
        _flush_or_discard(sys.stderr)


def _flush_or_discard(stream: TextIO) -> None:
    try:
        stream.flush()
    except OSError:
        discard(stream)


STDOUT = "standard output"


@contextlib.contextmanager
def stdout_named() -> Iterator[None]:
    """Name stdout in write errors that name no file."""
    try:
        yield
    except OSError as error:
        error.filename = error.filename or STDOUT
        raise


def write(data: bytes) -> None:
    """Write bytes to stdout unchanged; flush earlier prints first."""
    with stdout_named():
        sys.stdout.buffer.write(data)


def discard(stream: TextIO) -> None:
    """Redirect a stream to /dev/null, so that the interpreter's last flush cannot fail."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
