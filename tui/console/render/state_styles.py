"""The words and tones of states, in one place."""

from __future__ import annotations

from collections.abc import Mapping

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
_HEALTH_TONES = {"HEALTHY": "good", "TIMEOUT": "warn"}
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
_CHECK_TONES = {"pass": "good", "warn": "warn", "fail": "bad", "unknown": "dim"}
_CORE_TONES = {
    "training": "good",
    "waiting": "busy",
    "silent": "warn",
    "straggler": "warn",
    "nan": "bad",
    "ended": "dim",
}
_PHASE_CELLS = {"done": Cell("done", "good"), "started": Cell("…", "busy"), "failed": Cell("failed", "bad")}


def _cell(text: str | None, tones: Mapping[str, str], otherwise: str = "") -> Cell:
    return UNKNOWN if text is None else Cell(text, tones.get(text, otherwise))


def style_slice_state(state: str | None) -> Cell:
    """Return a slice's state; an unknown one is a warning."""
    return _cell(state, _SLICE_TONES, "warn")


def style_health(word: str | None) -> Cell:
    """Return a slice's health; everything but HEALTHY and TIMEOUT is bad."""
    return _cell(word, _HEALTH_TONES, "bad")


def style_run_state(word: str) -> Cell:
    """Return a run's state."""
    return _cell(word, _RUN_TONES, "warn")


def style_check_status(word: str) -> Cell:
    """Return the result of a check."""
    return _cell(word, _CHECK_TONES, "warn")


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
