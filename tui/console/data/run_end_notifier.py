"""Runs that ended while the console looked on: whoever waits for one is to hear of it, whatever is on the screen."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from tui.pod.run import LAST_WORDS, RunState

if TYPE_CHECKING:
    from tui.runs.record.run_status import RunStatus


class RunEndNotifier:
    """Remembers which runs were live, and tells each end once."""

    def __init__(self) -> None:
        self._live: set[str] = set()

    def newly_ended(self, statuses: Iterable[RunStatus]) -> list[RunStatus]:
        """Those that were live when last asked and have ended by themselves; a stop is told by who stops."""
        listed = list(statuses)
        over = [status for status in listed if status.state.is_over and status.run.id in self._live]
        self._live = {status.run.id for status in listed if not status.state.is_over}
        return [status for status in over if status.state is not RunState.STOPPED]


def format_run_end(status: RunStatus) -> str:
    """How a run ended, in a line."""
    cause = (status.cause or "").partition(LAST_WORDS)[0]
    return f"{status.run.id} {status.state}" + (f": {cause}" if cause else "")
