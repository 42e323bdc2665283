"""Runs that ended while the console was open: their ends are announced on every screen."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from tui.pod.run import RunState

if TYPE_CHECKING:
    from tui.operator import RunStatus


class RunEndNotifier:
    """Remembers which runs were live, and reports each end once."""

    def __init__(self) -> None:
        self._live: set[str] = set()

    def newly_ended(self, statuses: Iterable[RunStatus]) -> list[RunStatus]:
        """Return the runs that were live at the last call and have ended since; not those that were stopped."""
        listed = list(statuses)
        ended = [status for status in listed if status.state.is_over and status.run.id in self._live]
        self._live = {status.run.id for status in listed if not status.state.is_over}
        return [status for status in ended if status.state is not RunState.STOPPED]


def format_run_end(status: RunStatus) -> str:
    """Return one line on how a run ended."""
    cause = status.short_cause
    return f"{status.run.id} {status.state}" + (f": {cause}" if cause else "")
