"""Prepare the process of a command before the imports that take seconds."""

from __future__ import annotations

import os
import signal
import sys


def prepare_process() -> None:
    """Let Ctrl-C end this process silently, as there is nothing to save yet; open /dev/null for closed streams.

    The descriptor of a closed stream would be given to the next file or socket, and lines of the log written to it.
    """
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            descriptor = os.open(os.devnull, os.O_RDWR)  # the lowest that is free, which is the stream's own
            os.set_inheritable(descriptor, True)
            setattr(sys, name, open(descriptor, mode, closefd=False))  # noqa: SIM115
