"""A process forked early, which shares what was loaded by then and does one piece of work when it is told to."""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

Work = Callable[[bytes, Callable[[bytes], None]], None]
"""What is done with the order. It answers through its second argument, once."""


class Standby:
    """The near end: one order can be given. Closed without, or with this process's end, it sends the other one home.

    The other process has a session of its own, no terminal, `/` as its working directory and none of our files. It is
    nobody's child here: nothing has to wait for it.
    """

    def __init__(self, order: int, answer: int) -> None:
        self._order = order
        self._answer = answer

    @classmethod
    def fork(cls, work: Work) -> Standby:
        """Fork, for which this process must have one thread only: no event loop that was ever run, no gRPC."""
        order, give = os.pipe()
        hear, answer = os.pipe()
        child = os.fork()
        if not child:
            if not os.fork():
                _stand_by(order, answer, work)
            os._exit(0)
        os.close(order)
        os.close(answer)
        os.waitpid(child, 0)
        return cls(give, hear)

    def give(self, order: bytes) -> bytes:
        """Give the order and wait for the answer, which is empty where the other process ended without one."""
        with suppress(BrokenPipeError), os.fdopen(self._order, "wb") as pipe:
            pipe.write(order)
        with os.fdopen(self._answer, "rb") as pipe:
            return pipe.read()

    def close(self) -> None:
        """Do without."""
        os.close(self._order)
        os.close(self._answer)


def _stand_by(order: int, answer: int, work: Work) -> NoReturn:
    """Leave everything of the other process's behind, wait for the order, do the work and end."""
    code = 1
    try:
        os.setsid()
        _leave_all_but({order, answer})
        with os.fdopen(order, "rb") as pipe:
            text = pipe.read()
        if text:
            work(text, lambda told: _tell(answer, told))
        code = 0
    except BaseException:
        traceback.print_exc()
        raise
    finally:
        os._exit(code)


def _tell(answer: int, text: bytes) -> None:
    os.write(answer, text)
    os.close(answer)


def _leave_all_but(kept: set[int]) -> None:
    """Close every file but those, with nothing in place of the standard ones, and leave the working directory."""
    os.chdir("/")
    nothing = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nothing, descriptor)
    for file in list(Path("/dev/fd").iterdir()):
        descriptor = int(file.name)
        if descriptor > 2 and descriptor not in kept:
            with suppress(OSError):
                os.close(descriptor)
