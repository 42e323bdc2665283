"""A run in words and rows: headline, launch phases, notes; pure functions of what the feed holds."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from typing import TYPE_CHECKING

import numpy as np

from tui.console import words
from tui.console.rows import attendance, exit_codes, run_seconds
from tui.console.text import elapsed, harmless, harmless_bytes, number
from tui.console.widgets.columns import Cell, Column
from tui.console.widgets.row_table import Row
from tui.console.widgets.trouble import Told, told_of
from tui.pod.ranks import format_ranks
from tui.pod.run import RunState

if TYPE_CHECKING:
    from tui.console.feed import Feed
    from tui.console.widgets.core_table import CoreTable
    from tui.logs.snapshot import CoreRow, Snapshot
    from tui.runs.status import RunStatus, WorkerStatus

PHASES = ("connect", "prepare", "sync", "barrier", "start", "confirm")
SHOWN_PHASES = ("connect", "prepare", "barrier", "start", "confirm")
PHASE_COLUMNS = (
    Column("worker", "wkr", 4, right=True),
    *(Column(phase, phase, 8, rank=2 if phase in ("prepare", "barrier") else 1) for phase in SHOWN_PHASES),
    Column("last", "last line, or what went wrong", 20, flexible=1),
)
_MOST_NAMED = 6
_MOST_DETAILS = 3
QUOTED = 6
"""Last lines of a failed worker's log that are quoted."""


def headline(feed: Feed, now: float) -> list[list[Cell]]:
    """Two lines: the run and its state; the figures. What is wrong is told beneath, by `trouble`."""
    snapshot = feed.snapshot
    first = _identity(feed, now)
    figures = _figures(snapshot, feed) if snapshot is not None and len(snapshot) else []
    return [first, figures] if figures else [first]


def _identity(feed: Feed, now: float) -> list[Cell]:
    status = feed.status
    if status is None:
        return [words.run_state("saved log"), Cell(feed.title), Cell("replayed, nothing here is live", "dim")]
    cells = [words.run_state(str(status.state)), Cell(status.run.id), Cell(elapsed(run_seconds(status, now)))]
    cells.append(Cell(f"on {status.run.slice}, {len(status.run.workers)} workers", "dim"))
    if status.run.is_rehearsal:
        cells.append(Cell("rehearsal, not training", "warn"))
    elif status.run.runtime == "cpu":
        cells.append(Cell("cpu", "dim"))
    if not status.state.is_over:
        cells.append(attendance(status, now))
    else:
        cells.append(Cell(f"exit {exit_codes(status).text}", exit_codes(status).tone))
    return cells


def _figures(snapshot: Snapshot, feed: Feed) -> list[Cell]:
    cells: list[Cell] = []
    if snapshot.epoch_now is not None:
        cells.append(Cell(f"epoch {snapshot.epoch_now}"))
    if snapshot.step_now is not None:
        cells.append(Cell(f"step {snapshot.step_now}"))
    spread = snapshot.loss_spread
    if spread is not None:
        cells.append(Cell(f"loss {number(spread.median, 5)}", "accent"))
        cells.append(Cell(f"({number(spread.min, 4)}–{number(spread.max, 4)})", "dim"))
    if snapshot.rate_total is not None:
        cells.append(Cell(f"{snapshot.rate_total:,.1f} ex/s", "good"))
    expected = _expected_cores(feed) or len(snapshot)
    missing = snapshot.reporting < expected
    cells.append(Cell(f"{snapshot.reporting} of {expected} cores", "warn" if missing else ""))
    if snapshot.max_accuracy is not None:
        cells.append(Cell(f"best accuracy {number(snapshot.max_accuracy, 2)} %"))
    return cells


def rows_expected(feed: Feed) -> int:
    """Rows that the core table will have, or the phases' one while no core has told anything."""
    if feed.snapshot is not None and len(feed.snapshot):
        return _expected_cores(feed) or len(feed.snapshot)
    return max(1, len(feed.workers))


def _expected_cores(feed: Feed) -> int | None:
    status = feed.status
    if status is None or not status.run.cores_per_worker:
        return None
    return max(status.run.cores_per_worker * len(status.run.workers), len(feed.snapshot or ()))


def _named(what: str, cores: tuple[int | None, ...]) -> str:
    names = ", ".join("?" if core is None else str(core) for core in cores[:_MOST_NAMED])
    return f"{what}: core {names}" + (f" and {len(cores) - _MOST_NAMED} more" if len(cores) > _MOST_NAMED else "")


def trouble(feed: Feed) -> Told:
    """What needs a person: why it failed with the worker's last lines, lost links, nan, stragglers, notes; named."""
    status, snapshot = feed.status, feed.snapshot
    said: list[tuple[str, str]] = [] if status is None else _of_the_run(status)
    if snapshot is not None and len(snapshot) and (status is None or not status.state.is_over):
        if snapshot.nan_cores:
            said.append((_named("nan", snapshot.nan_cores), "bad"))
        if snapshot.stragglers:
            said.append((_named("straggler", snapshot.stragglers), "warn"))
    if status is None:
        return told_of(said)
    if status.notes and not said:
        said.append((status.notes[-1], "dim"))
    told = told_of(said, _failed_phases(status))
    worker = failed_worker(status)
    if worker is None:
        return told
    quoted = tuple(harmless_bytes(line) for line in feed.last_lines(worker, QUOTED))
    return replace(told, worker=worker, quoted=quoted)


def failed_worker(status: RunStatus) -> int | None:
    """The worker that failed first, or whose launch failed; None where none did."""
    if status.first_failure is not None:
        return status.first_failure
    return next((worker.worker for worker in status.workers if worker.phase_status == "failed"), None)


def _of_the_run(status: RunStatus) -> list[tuple[str, str]]:
    said: list[tuple[str, str]] = []
    if status.cause:
        where = "" if status.first_failure is None else f"worker {status.first_failure}: "
        own = status.cause if status.cause.startswith(where) else where + status.cause
        if status.first_failure is not None:
            own += "; l opens its log"
        tone = "bad" if status.state in (RunState.FAILED, RunState.LOST) else "warn"
        said.append((own, tone))
        if status.remedy:
            said.append((f"→ {status.remedy}", tone))
    lost = [worker.worker for worker in status.workers if worker.link == "lost" and not worker.ended]
    if lost and not status.state.is_over:
        said.append((f"connection lost: worker {format_ranks(lost)}", "warn"))
    if status.silent and not status.state.is_over:
        said.append((f"silent: worker {format_ranks(status.silent)} has written nothing for a while", "warn"))
    return said


def _failed_phases(status: RunStatus) -> list[str]:
    """What a launch phase failed of, whole, with what to do about it."""
    failed = [worker for worker in status.workers if worker.phase_status == "failed" and worker.detail]
    told = [
        f"worker {worker.worker}, {worker.phase}: {worker.detail}"
        for worker in failed
        if (worker.detail or "") not in (status.cause or "")
    ]
    more = len(told) - _MOST_DETAILS
    return told[:_MOST_DETAILS] + ([f"and {more} more workers; d tells of each"] if more > 0 else [])


def phase_title(feed: Feed) -> str:
    """What is going on while no core has told anything."""
    status = feed.status
    if status is None:
        return "reading"
    if status.state is RunState.PREPARING:
        return "launching: nothing starts until every worker is ready"
    if status.state is RunState.RUNNING:
        return "started; compiling or loading, no step yet"
    return str(status.state)


def phase_rows(feed: Feed) -> list[Row]:
    """A row a worker: how far its launch got, and the last thing it said."""
    status = feed.status
    return [] if status is None else [_phase_row(worker, feed, status) for worker in status.workers]


def _phase_row(worker: WorkerStatus, feed: Feed, status: RunStatus) -> Row:
    reached = PHASES.index(worker.phase) if worker.phase in PHASES else -1
    cells = [Cell(str(worker.worker))]
    for phase in SHOWN_PHASES:
        place = PHASES.index(phase)
        if place < reached:
            cells.append(Cell("done", "good"))
        elif place == reached:
            cells.append(
                Cell(_PHASE_WORDS.get(worker.phase_status or "", "…"), words.phase_tone(worker.phase_status))
            )
        else:
            cells.append(Cell("·", "dim"))
    return Row(worker.worker, (*cells, _last(worker, feed, status)), (worker.worker,))


_PHASE_WORDS = {"done": "done", "started": "…", "failed": "failed"}


def _last(worker: WorkerStatus, feed: Feed, status: RunStatus) -> Cell:
    if worker.phase_status == "failed":
        return Cell(harmless(worker.detail or "failed"), "bad")
    if worker.ended:
        told = worker.exit_cause or (f"signal {worker.signal}" if worker.signal else f"exit code {worker.exit_code}")
        return Cell(harmless(told), "" if worker.exit_code == 0 else "bad")
    lines = feed.last_lines(worker.worker, 1)
    if lines:
        return Cell(harmless_bytes(lines[0]))
    return (
        Cell(harmless(worker.detail or ""), "dim")
        if status.state is RunState.PREPARING
        else Cell("no output yet", "dim")
    )


def core_note(snapshot: Snapshot, table: CoreTable) -> str:
    """How many rows, and by what they are sorted."""
    shown = table.row_count()
    every = f"{len(snapshot)} cores"
    count = f"{shown} of {every} with “{table.filter_text}”" if table.filter_text else every
    title = next((column.title for column in table.columns if column.key == table.sort_key), "core")
    return f"{count} · by {title}{' descending' if table.sort_reverse else ''}"


def core_at(snapshot: Snapshot, key: int) -> CoreRow:
    """The core with this place in the history. Raises IndexError when it is not there."""
    return snapshot.row_at(int(np.flatnonzero(snapshot.row == key)[0]))


def describe(feed: Feed) -> str:
    """Everything about the run or the saved log as a document."""
    snapshot = feed.snapshot
    document: dict[str, object] = {}
    status = feed.status
    if status is not None:
        document["run"] = status.run.to_json()
        document["state"] = str(status.state)
        document["exit_codes"] = list(status.exit_codes)
        document["started"], document["ended"], document["cause"] = status.started, status.ended, status.cause
        document["notes"] = list(status.notes)
        document["workers"] = [asdict(worker) for worker in status.workers]
    if snapshot is not None:
        document["log"] = {
            "lines": snapshot.lines,
            "bytes": snapshot.bytes,
            "samples": snapshot.samples,
            "overlong_lines": snapshot.overlong,
            "dialects": dict(snapshot.dialects),
            "workers": [worker.to_json() for worker in snapshot.workers],
            "epochs": [epoch.to_json() for epoch in snapshot.epochs],
        }
    return json.dumps(document, indent=2, ensure_ascii=False, default=str)
