"""Which workers of a live run are not being followed, so that their figures are frozen. Pure functions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tui.console.widgets.tables.table_columns import Cell
from tui.pod.run import RunState
from tui.text.durations import format_elapsed

if TYPE_CHECKING:
    from tui.operator import RunStatus

UNATTENDED_AFTER_S = 3.0
"""Seconds without a keeper after which a run is unattended: a keeper that takes over needs a moment."""


def is_unattended(status: RunStatus | None, now: float) -> bool:
    """Return whether a live run had a keeper and has lost it."""
    if status is None or status.state.is_over or status.attended.alive or status.attended.since is None:
        return False
    return now - status.attended.since >= UNATTENDED_AFTER_S


def is_launching(status: RunStatus | None) -> bool:
    """Return whether the gang is being launched: figures shown then belong to the attempt before."""
    return status is not None and status.state is RunState.PREPARING


def is_live(status: RunStatus | None) -> bool:
    """Return whether a run goes on and its gang has been launched."""
    return status is not None and not status.state.is_over and not is_launching(status)


def find_lost_links(status: RunStatus | None) -> list[int]:
    """Return the workers of a live run with a lost connection."""
    if status is None or status.state.is_over:
        return []
    return [worker.worker for worker in status.workers if worker.link == "lost" and not worker.ended]


def stale_workers(status: RunStatus | None, now: float) -> frozenset[int]:
    """Return the workers with possibly old figures: all without a keeper or room here, else those without a link."""
    if status is not None and (is_unattended(status, now) or status.disk_is_full):
        return frozenset(worker.worker for worker in status.workers if not worker.ended)
    return frozenset(find_lost_links(status))


def format_keeper_status(status: RunStatus, now: float) -> Cell:
    """Return since when a live run has no working keeper; an empty cell if it has one."""
    if status.attended.alive:
        return Cell("")
    since = status.attended.since
    if status.attended.stuck:
        return Cell(f"keeper stuck for {format_elapsed(status.attended.silent_s)}", "bad")
    return Cell("unattended" if since is None else f"unattended for {format_elapsed(now - since)}", "bad")
