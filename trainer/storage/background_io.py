"""Work in a thread that nobody has to wait for: a daemon, which the end of a run leaves to itself."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

T = TypeVar("T")


def begun(make: Callable[[], T], name: str) -> Future[T]:
    """Have a thread make something; the future tells what it is, or raises what `make` raised."""
    made: Future[T] = Future()
    threading.Thread(target=settle, args=(made, make), name=name, daemon=True).start()
    return made


def settle(future: Future[T], make: Callable[[], T]) -> None:
    """Make something, in whatever thread calls this, for whoever waits for the future."""
    try:
        future.set_result(make())
    except Exception as error:
        future.set_exception(error)
