"""Run blocking work in daemon threads, which delay neither Ctrl-C nor the end of the program.

The executor of an event loop is joined when the loop ends, and has only six threads for all workers of a pod.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

_Result = TypeVar("_Result")


async def run_in_thread(name: str, work: Callable[[], _Result]) -> _Result:
    """Run `work` in a daemon thread called `name` and return its result. Raises what `work` raises.

    Cancelling stops the wait, not the thread.
    """
    answer: Future[_Result] = Future()
    answer.set_running_or_notify_cancel()

    def run() -> None:
        try:
            answer.set_result(work())
        except Exception as error:
            answer.set_exception(error)

    threading.Thread(target=run, name=name, daemon=True).start()
    return await asyncio.wrap_future(answer)
