"""Explain why `logs` printed nothing: what the log lacks, and what it has instead."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tui.text.ranks import name_ranks

if TYPE_CHECKING:
    from pathlib import Path

    from tui.logs.files.line_filter import Choice
    from tui.logs.saved_log import SavedLog


def in_saved_log(log: SavedLog, choice: Choice, cache: Path | None) -> str:
    """Return the explanation for a saved log."""
    from tui.commands.logs_export_times import has_dates

    if choice.worker is not None and choice.worker not in (there_are := log.workers(cache)):
        return f"No lines of worker {choice.worker} in {log.name} ({list_existing('worker', there_are)})."
    if choice.core is not None and (sentence := about_core(log.name, choice.core, log.core_rows(cache=cache))):
        return sentence
    if choice.since is not None and not has_dates(log, cache):
        return f"No line of {log.name} has a date, so --since matches none."
    return f"No matching lines in {log.name}."


def about_core(name: str, core: int, rows: Iterable[Mapping[str, Any]]) -> str:
    """Return the explanation where the log has no lines about this core; empty where it has some."""
    cores = [row["core"] for row in rows if row["core"] is not None]
    if core in cores:
        return ""
    return f"No lines about core {core} in {name} ({list_existing('core', cores)})."


def list_existing(what: str, known: Sequence[int]) -> str:
    """Return which workers or cores there are: `it has workers 0-3`."""
    return f"it has {name_ranks(what, known)}" if known else f"no line names a {what}"
