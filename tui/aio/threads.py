"""Run blocking work in daemon threads, which delay neither Ctrl-C nor the end of the program.

The executor of an event loop is joined when the loop ends, and has only six threads for all workers of a pod.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from typing import TypeVar

_Result = TypeVar("_Result")


async def run_in_thread(name: str, work: Callable[[], _Result]) -> _Result:
    """Run `work` in a daemon thread called `name` and return its result. Raises what `work` raises.

    Cancelling stops the wait, not the thread.
    """
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[_Result] = loop.create_future()

    def finish(found: _Result | None, error: Exception | None) -> None:
        if answer.done():
            return
        if error is None:
            answer.set_result(found)  # type: ignore[arg-type]
        else:
            answer.set_exception(error)

    def run() -> None:
        found, problem = None, None
        try:
            found = work()
        except Exception as error:
            problem = error
        with contextlib.suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(finish, found, problem)

    threading.Thread(target=run, name=name, daemon=True).start()
    return await answer
