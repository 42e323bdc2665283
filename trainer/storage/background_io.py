"""Run work in a daemon thread, which does not delay the end of a run."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

T = TypeVar("T")


def start_thread(make: Callable[[], T], name: str) -> Future[T]:
    """Call `make` in a daemon thread; the future holds its result or its exception."""
    future: Future[T] = Future()
    threading.Thread(target=complete, args=(future, make), name=name, daemon=True).start()
    return future


def complete(future: Future[T], make: Callable[[], T]) -> None:
    """Call `make` in this thread and put its result or its exception into the future."""
    try:
        future.set_result(make())
    except Exception as error:
        future.set_exception(error)
