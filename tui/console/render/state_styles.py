"""The words and tones of states, in one place."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from tui.console.widgets.tables.table_columns import Cell

UNKNOWN = Cell("–", "dim")

_SLICE_TONES = {
    "READY": "good",
    "ACTIVE": "good",
    "STABLE": "good",
    "CHANGING": "busy",
    "CREATING": "busy",
    "STARTING": "busy",
    "RESTARTING": "busy",
    "REIMAGING": "busy",
    "ACCEPTED": "busy",
    "PROVISIONING": "busy",
    "WAITING_FOR_RESOURCES": "busy",
    "DELETING": "warn",
    "STOPPING": "warn",
    "REPAIRING": "warn",
    "SUSPENDING": "warn",
    "STOPPED": "dim",
    "HIDDEN": "dim",
    "PREEMPTED": "bad",
    "TERMINATED": "bad",
    "FAILED": "bad",
    "SUSPENDED": "bad",
}
_RUN_TONES = {
    "preparing": "busy",
    "running": "good",
    "stopping": "warn",
    "succeeded": "good",
    "failed": "bad",
    "stopped": "dim",
    "lost": "bad",
    "replay of a saved log": "accent",
}
_CORE_TONES = {
    "training": "good",
    "waiting": "busy",
    "silent": "warn",
    "straggler": "warn",
    "nan": "bad",
    "ended": "dim",
}
_PHASE_CELLS = {"done": Cell("done", "good"), "started": Cell("…", "busy"), "failed": Cell("failed", "bad")}


def _style(tones: Mapping[str, str], otherwise: str, word: str | None) -> Cell:
    """Return a word in its tone; `otherwise` is the tone of words without one."""
    return UNKNOWN if word is None else Cell(word, tones.get(word, otherwise))


style_slice_state = partial(_style, _SLICE_TONES, "warn")
style_health = partial(_style, {"HEALTHY": "good", "TIMEOUT": "warn"}, "bad")
style_run_state = partial(_style, _RUN_TONES, "warn")
style_check_status = partial(_style, {"pass": "good", "warn": "warn", "fail": "bad", "unknown": "dim"}, "warn")


def get_core_tone(word: str) -> str:
    """Return the tone of a core's state."""
    return _CORE_TONES.get(word, "")


def style_phase(status: str | None) -> Cell:
    """Return how far the launch phase is that a worker has reached."""
    return _PHASE_CELLS.get(status or "", Cell("…", "dim"))


def style_reachability(value: bool | None) -> Cell:
    """Return whether a worker can be reached over SSH; None is not checked yet."""
    if value is None:
        return Cell("not checked", "dim")
    return Cell("reachable", "good") if value else Cell("unreachable", "bad")
