"""Work in a thread that nobody has to wait for: a daemon, which the end of a run leaves to itself."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

T = TypeVar("T")


def start_thread(make: Callable[[], T], name: str) -> Future[T]:
    """Have a thread make something; the future tells what it is, or raises what `make` raised."""
    future: Future[T] = Future()
    threading.Thread(target=complete, args=(future, make), name=name, daemon=True).start()
    return future


def complete(future: Future[T], make: Callable[[], T]) -> None:
    """Make something, in whatever thread calls this, for whoever waits for the future."""
    try:
        future.set_result(make())
    except Exception as error:
        future.set_exception(error)
