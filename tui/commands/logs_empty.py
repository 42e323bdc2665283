"""Why not one line of a log was printed: what was asked for that it does not have, and what it has instead."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tui.text.ranks import format_ranks

if TYPE_CHECKING:
    from pathlib import Path

    from tui.logs.files.line_filter import Choice
    from tui.logs.saved_log import SavedLog


def in_saved_log(log: SavedLog, choice: Choice, cache: Path | None) -> str:
    """The sentence for a saved log."""
    from tui.commands.logs_export_times import has_dates

    if choice.worker is not None and choice.worker not in (there_are := log.workers(cache)):
        return f"No line of {log.name} is {_of_worker(choice.worker, there_are)}."
    if choice.core is not None and (sentence := about_core(log.name, choice.core, log.core_rows(cache=cache))):
        return sentence
    if choice.since is not None and not has_dates(log, cache):
        return f"No line of {log.name} tells its date, so none is known to be since then."
    return f"No line of {log.name} is such a one."


def about_core(name: str, core: int, rows: Iterable[Mapping[str, Any]]) -> str:
    """The sentence where a log tells of cores, and not of this one; else nothing."""
    cores = [row["core"] for row in rows if row["core"] is not None]
    if core in cores:
        return ""
    return f"No line of {name} is about core {core}: {_there_are('core', cores)}."


def workers_of(workers: Sequence[int]) -> str:
    """What is said of a run that has these workers: "it has workers 0-3"."""
    return _there_are("worker", workers)


def _of_worker(worker: int, known: Sequence[int]) -> str:
    return f"of worker {worker}: {_there_are('worker', known)}"


def _there_are(what: str, known: Sequence[int]) -> str:
    if not known:
        return f"none names a {what}"
    return f"it has {what}{'s' if len(known) > 1 else ''} {format_ranks(known)}"
