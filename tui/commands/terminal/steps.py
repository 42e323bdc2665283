"""Print the progress of a change in the cloud, and its answer for --json."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from typing import TYPE_CHECKING, Any

from tui.commands.terminal.output import Output
from tui.errors import TpuTuiError

if TYPE_CHECKING:
    from tui.pod.creation.slice_request import CreationStep, WorkerStartup

_LISTS = {"slice": "slices", "group": "groups list"}
"""The commands that show what a change did."""
_MOST_SHOWN_WORKERS, _MOST_SHOWN_LINES = 3, 10
"""Most workers, and last lines of each, that are shown when startup scripts have failed."""


async def print_steps(
    steps: AsyncIterator[str], ref: str, action: str, out: Output, *, dry_run: bool, noun: str = "slice"
) -> int:
    """Print each step on stderr as it comes, and return 0; the change goes on when the wait is interrupted."""
    printed: list[str] = []
    try:
        async for step in steps:
            printed.append(step)
            out.note(step)
    except asyncio.CancelledError:
        if printed:
            out.note(f"Interrupted. The request continues in the cloud; check it with tpu-tui {_LISTS[noun]}.")
        raise
    if dry_run:
        out.note("Nothing was changed.")
    if out.as_json:
        out.document({noun: ref, "action": action, "dry_run": dry_run, "steps": printed})
    return 0


class CreationSteps:
    """Prints the steps of a creation, and keeps what the answer needs of them."""

    def __init__(self, out: Output) -> None:
        self._out = out
        self._failure: TpuTuiError | None = None
        self.texts: list[str] = []
        self.requests: list[dict[str, Any]] = []
        """The documents that were sent, or with a dry run would be."""
        self.last: CreationStep | None = None

    @property
    def startup(self) -> Sequence[WorkerStartup]:
        """The last known states of the startup script; empty where there is none, or none was awaited."""
        return self.last.startup if self.last else ()

    async def follow(self, steps: AsyncIterator[CreationStep], explain_interruption: Callable[[], str]) -> None:
        """Print each step, and on Ctrl-C the explanation, if it is not empty.

        An error of the startup scripts is kept for `finish`; raises any other.
        """
        try:
            async for step in steps:
                self.last = step
                if step.request:
                    self.requests.append(step.request)
                if step.text:
                    self.texts.append(step.text)
                    self._out.note(step.text)
        except TpuTuiError as error:
            if not self.startup:
                raise
            self._failure = error
        except asyncio.CancelledError:
            if text := explain_interruption():
                self._out.note(text)
            raise

    def finish(self) -> int:
        """Return 0; where startup scripts failed, print their last lines and raise the error."""
        if self._failure is None:
            return 0
        unlike_success = [state for state in self.startup if state.exit_code != 0]
        states = [state for state in unlike_success if state.has_failed] or unlike_success
        for state in states[:_MOST_SHOWN_WORKERS]:
            self._out.note(f"The last lines of worker {state.worker} of {state.slice_name}:")
            for line in state.lines[-_MOST_SHOWN_LINES:] or ("(it printed nothing)",):
                self._out.note(f"  {line}")
        raise self._failure
