"""Long work on the app's event loop: named and cancellable, with its errors shown or logged."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any

from tui.errors import TpuTuiError

log = logging.getLogger(__name__)


def to_problem(error: Exception, what: str) -> TpuTuiError:
    """Return the error as a pane can show it; log the traceback of an internal error."""
    if isinstance(error, TpuTuiError):
        return error
    log.error("%s failed", what, exc_info=error)
    return TpuTuiError(
        f"{what} failed inside tpu-tui", why=f"{type(error).__name__}: {error}", remedy="see console.log for details"
    )


class Tasks:
    """The app's running tasks by name. A new task replaces the one with the same name."""

    def __init__(self) -> None:
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._ending: set[asyncio.Task[None]] = set()
        """Cancelled tasks that have not ended yet."""

    def start(
        self, name: str, work: Coroutine[Any, Any, None], on_error: Callable[[TpuTuiError], None] | None = None
    ) -> None:
        """Run `work`; pass what it raises to `on_error`."""
        self.cancel(name)
        task = self._tasks[name] = asyncio.create_task(self._run_guarded(name, work, on_error), name=name)
        task.add_done_callback(lambda _: work.close())  # it never began if the task was cancelled before

    async def _run_guarded(
        self, name: str, work: Coroutine[Any, Any, None], on_error: Callable[[TpuTuiError], None] | None
    ) -> None:
        try:
            await work
        except Exception as error:
            problem = to_problem(error, name)
            if on_error is not None:
                on_error(problem)
        finally:
            if self._tasks.get(name) is asyncio.current_task():
                del self._tasks[name]

    def is_running(self, name: str) -> bool:
        """Return whether a task is running."""
        return name in self._tasks

    def running(self, prefix: str) -> list[str]:
        """Return the names of running tasks that begin with `prefix`."""
        return [name for name in self._tasks if name.startswith(prefix)]

    def cancel(self, name: str) -> bool:
        """Cancel a task; return whether there was one."""
        task = self._tasks.pop(name, None)
        if task is not None:
            self._ending.add(task)
            task.add_done_callback(self._ending.discard)
            task.cancel()
        return task is not None

    async def close(self) -> None:
        """Cancel all tasks and wait until they have ended."""
        for name in list(self._tasks):
            self.cancel(name)
        await asyncio.gather(*self._ending, return_exceptions=True)
