"""The standard streams of a process that was started in an odd way."""

from __future__ import annotations

import contextlib
import io
import os
import sys
from collections.abc import Iterator
from typing import TextIO

_STREAMS = (("stdin", "r"), ("stdout", "w"), ("stderr", "w"))
"""In the order of their descriptors."""


def make_usable() -> None:
    """Put /dev/null where a standard stream is closed, and never fail for a character that an encoding lacks.

    Left closed, its descriptor would go to the next socket or file, which whoever prints would then write into.
    One that another program left non-blocking, or Python unbuffered, would take a part of what is written.
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
    """Whether the stream's encoding has every character, as UTF-8 has and the C locale's has not."""
    return (getattr(stream, "encoding", None) or "").lower().replace("-", "").startswith("utf")


def obeys(stream: TextIO) -> bool:
    """Whether it is a terminal that takes orders: an editor's shell window, say, shows them as characters."""
    return stream.isatty() and os.environ.get("TERM") != "dumb"


@contextlib.contextmanager
def silent_on_closed_pipe() -> Iterator[None]:
    """A closed pipe is no error: whoever read has read enough."""
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
    """An error of writing to stdout says so where it says no file; unbuffered, it comes from the writing itself."""
    try:
        yield
    except OSError as error:
        error.filename = error.filename or STDOUT
        raise


def write(data: bytes) -> None:
    """Bytes to stdout as they are; what was printed before them is to be flushed."""
    with stdout_named():
        sys.stdout.buffer.write(data)


def discard(stream: TextIO) -> None:
    """Point a stream at /dev/null, so that the interpreter's last flush has nobody to complain to."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
