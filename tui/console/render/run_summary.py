"""A run as text: headline, problems, description. Pure functions of the feed."""

from __future__ import annotations

import re
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, NamedTuple

from tui.console.render import state_styles
from tui.console.render.describe import format_document
from tui.console.render.finding_lines import find_live_core_problems, format_marks, list_ended_run_findings
from tui.console.render.freshness import (
    find_lost_links,
    format_keeper_status,
    is_launching,
    is_live,
    is_unattended,
    stale_workers,
)
from tui.console.render.pod_rows import format_exit_codes, get_run_seconds
from tui.console.render.safe_text import decode_visible_line, format_number
from tui.console.widgets.problem_panel import Problem, make_problem
from tui.console.widgets.tables.table_columns import Cell
from tui.pod.run import RunState
from tui.reports.rates import rate_in_short
from tui.reports.status import missing_of_run
from tui.text.durations import format_elapsed
from tui.text.printable import format_count
from tui.text.ranks import format_ranks, name_ranks

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tui.console.data.run_feed import Feed
    from tui.errors import TpuTuiError
    from tui.logs.snapshot import Snapshot
    from tui.operator import RunStatus, WorkerStatus

NO_KEEPER_TEXT = "No keeper is running: logs and figures are frozen"
DISK_FULL_TEXT = "The disk here is full: logs and figures are frozen, the run goes on"
_MOST_DETAILS = 3
_PROCESS = re.compile(r"\bpid \d+")
QUOTED_LINES = 6
"""Quoted lines from the end of a failed worker's log."""


class Pace(NamedTuple):
    """The seconds that a step takes, and those until the run is done; None is unknown."""

    seconds_per_step: float | None = None
    seconds_left: float | None = None


def format_headline(feed: Feed, now: float, pace: Pace | None = None) -> list[list[Cell]]:
    """Return two lines: the run and its state, and the figures. `find_problem` returns what is wrong."""
    snapshot = feed.snapshot
    first = _identity(feed, now)
    if not feed.has_caught_up:
        figures = _format_reading(feed)
    else:
        figures = _figures(snapshot, feed, pace or Pace()) if snapshot is not None and len(snapshot) else []
    return [first, figures] if figures else [first]


def format_reading_progress(feed: Feed) -> str:
    """Return `reading 4 %` while logs are read for the first time, when figures are old; else an empty text."""
    if feed.has_caught_up:
        return ""
    share = feed.progress
    return "reading …" if share is None else f"reading {min(99, int(share * 100))} %"


def _format_reading(feed: Feed) -> list[Cell]:
    """Return how far the logs were read, and the newest figures, found at their ends."""
    figures = feed.newest
    newest = "" if figures is None or is_launching(feed.status) else str(figures)
    progress = Cell(format_reading_progress(feed), "busy")
    return [progress, Cell(f"newest: {newest}")] if newest else [progress]


def _identity(feed: Feed, now: float) -> list[Cell]:
    status = feed.status
    if status is None:
        return [state_styles.style_run_state("replay of a saved log"), Cell(feed.title)]
    cells = [
        state_styles.style_run_state(str(status.state)),
        Cell(status.run.id),
        Cell(format_elapsed(get_run_seconds(status, now))),
    ]
    cells.append(Cell(f"on {status.run.slice}, {format_count(len(status.run.workers), 'worker')}", "dim"))
    if not status.state.is_over:
        cells.append(format_keeper_status(status, now))
    if status.run.is_rehearsal:
        cells.append(Cell("rehearsal", "warn"))
    elif status.run.job.runtime == "cpu":
        cells.append(Cell("cpu", "dim"))
    if status.state.is_over:
        cells.append(Cell(f"exit {format_exit_codes(status).text}", format_exit_codes(status).tone))
        cells.append(Cell(*format_marks(feed)))
    if status.run.is_rehearsal:
        cells.append(Cell("figures are made up", "dim"))
    return cells


def _figures(snapshot: Snapshot, feed: Feed, pace: Pace) -> list[Cell]:
    cells = _format_progress(snapshot, pace if is_live(feed.status) else None)
    if pace.seconds_per_step is not None and is_live(feed.status):
        cells.append(Cell(f"{pace.seconds_per_step:#.3g}".rstrip(".") + " s/step", "dim"))
    spread = snapshot.loss_spread
    if spread is not None:
        cells.append(Cell(f"loss {format_number(spread.median, 5)}", "accent"))
        if spread.min < spread.max:
            cells.append(Cell(f"({format_number(spread.min, 4)}–{format_number(spread.max, 4)})", "dim"))
    expected = _expected_cores(feed) or len(snapshot)
    reporting = _reporting(snapshot, feed)
    if reporting:
        cells.append(Cell(rate_in_short(snapshot), "good"))
    are_missing = reporting < expected and feed.has_caught_up
    cells.append(Cell(f"{reporting} of {expected} {snapshot.noun}s", "warn" if are_missing else ""))
    if snapshot.data_wait_share is not None:
        cells.append(Cell(f"waited for data {snapshot.data_wait_share * 100:.1f} %"))
    if snapshot.max_accuracy is not None:
        cells.append(Cell(f"best accuracy {format_number(snapshot.max_accuracy, 2)} %"))
    return cells


def _format_progress(snapshot: Snapshot, pace: Pace | None) -> list[Cell]:
    """Return epoch and step with their totals; of a live run, with the share that is done and the time left."""
    progress, cells = snapshot.progress, []
    for name, number in (("epoch", snapshot.median_epoch), ("step", snapshot.median_step)):
        if number is None:
            continue
        total = None if progress is None else progress.epochs if name == "epoch" else progress.steps
        cells.append(Cell(f"{name} {number}" if total is None else f"{name} {number}/{total}"))
        if pace is not None and progress is not None and progress.of == f"{name}s" and progress.share is not None:
            left = "" if pace.seconds_left is None else f", {format_elapsed(pace.seconds_left)} left"
            cells.append(Cell(f"({int(progress.share * 100)} %{left})"))
    return cells


def _reporting(snapshot: Snapshot, feed: Feed) -> int:
    """Return the number of reporting cores: in a live run those that print lines now, none during a launch."""
    if feed.status is None or feed.status.state.is_over:
        return snapshot.reporting
    return 0 if is_launching(feed.status) else snapshot.going_on


def count_expected_rows(feed: Feed) -> int:
    """Return the number of rows of the core table, or of the phase table while there are no metrics."""
    if feed.snapshot is not None and len(feed.snapshot):
        return _expected_cores(feed) or len(feed.snapshot)
    return max(1, len(feed.workers))


def _expected_cores(feed: Feed) -> int | None:
    status = feed.status
    if status is None or not status.run.cores_per_worker:
        return None
    snapshot = feed.snapshot
    are_cores = snapshot is None or snapshot.noun == "core"
    per_worker = status.run.cores_per_worker if are_cores else 1  # a stream without core numbers is one row
    return max(per_worker * len(status.run.workers), len(snapshot or ()))


def find_problem(feed: Feed, now: float, *, attends: bool, reads: bool, problem: TpuTuiError | None) -> Problem:
    """Return what needs attention: the failure with the worker's last lines, lost links, NaN, stragglers, notes.

    For an unattended run, `attends` means that this console starts a keeper by itself, `reads` that it reads
    the logs itself meanwhile. `problem` is the error that prevents reading them.
    """
    status = feed.status
    sentence, *remedy = str(problem).splitlines() if problem else [""]
    error = [(sentence, "bad")] if sentence else []
    if status is None:
        return make_problem([*_core_problems(feed, frozenset()), *error], remedy)
    worker = find_failed_worker(status)
    last_lines = [] if worker is None else feed.last_lines(worker, QUOTED_LINES)
    lines: list[tuple[str, str]] = []
    if is_unattended(status, now):
        lines.append(_explain_unattended(status.run.id, attends=attends, reads=reads))
    if status.disk_is_full and not status.state.is_over:
        lines.append((DISK_FULL_TEXT, "bad"))
    lines += _list_run_problems(status, bool(last_lines))
    if status.state.is_over:
        lines += [*list_ended_run_findings(feed), *_list_missing_cores(feed)]
    elif is_live(status):
        lines += _core_problems(feed, frozenset() if reads else stale_workers(status, now))
    lines += error
    if status.notes and not lines and not _is_outdated(status, status.notes[-1]):
        lines.append((status.notes[-1], "dim"))
    return replace(
        make_problem(lines, [*_failed_phases(status), *remedy]),
        worker=worker,
        quoted=tuple(map(decode_visible_line, last_lines)),
        is_partial=not feed.has_caught_up,
    )


def _is_outdated(status: RunStatus, note: str) -> bool:
    """Return whether a note explains lost connections, some of which are restored."""
    return note == status.slice_note and any(worker.link == "restored" for worker in status.workers)


def _core_problems(feed: Feed, unseen: frozenset[int]) -> list[tuple[str, str]]:
    """Return what is wrong with the cores of a live run or a saved log, once all of it was read."""
    if feed.snapshot is None or not len(feed.snapshot) or not feed.has_caught_up:
        return []
    return [*find_live_core_problems(feed.status, feed.snapshot, unseen), *_list_missing_cores(feed)]


def _list_missing_cores(feed: Feed) -> list[tuple[str, str]]:
    """Return the cores of the slice without a single line, once all logs were read."""
    if feed.status is None or not feed.has_caught_up:
        return []
    missing = missing_of_run(feed.status, feed.snapshot).sentence
    return [(missing, "warn")] if missing else []


def find_failed_worker(status: RunStatus) -> int | None:
    """Return the worker that failed first or failed to launch; None if none did."""
    if status.first_failure is not None:
        return status.first_failure
    return next((worker.worker for worker in status.workers if worker.phase_status == "failed"), None)


def explain_failed_launch(status: RunStatus | None, worker: object) -> tuple[str, str] | None:
    """Return title and text of a worker's launch failure; None if it did not fail."""
    for worker_status in status.workers if status else ():
        if worker_status.worker == worker and worker_status.phase_status == "failed":
            text = "\n→ ".join(filter(None, (worker_status.detail, worker_status.remedy)))
            return f"worker {worker}, {worker_status.phase} failed", text
    return None


def _explain_unattended(run_id: str, *, attends: bool, reads: bool) -> tuple[str, str]:
    if reads:
        return "No keeper: restarts and on-end actions are off. This console copies the logs itself", "warn"
    soon = ". This console starts one within ten minutes" if attends else ""
    return f"{NO_KEEPER_TEXT}{soon}. tpu-tui attach {run_id} starts one now", "bad"


def _list_run_problems(status: RunStatus, is_quoted: bool) -> list[tuple[str, str]]:
    lines: list[tuple[str, str]] = []
    if status.cause:
        cause = status.short_cause if is_quoted or status.is_training_again else status.cause
        prefix = "" if status.first_failure is None else f"worker {status.first_failure}"
        own = cause if cause.startswith(prefix) else f"{prefix}: {cause}"
        if is_quoted:
            own += "; press l for its log"
        tone = "bad" if status.state in (RunState.FAILED, RunState.LOST) else "warn"
        lines.append((own, tone))
        if status.remedy:
            lines.append((f"→ {status.remedy}", tone))
    lost = find_lost_links(status)
    if lost:
        lines.append((f"connection lost: worker {format_ranks(lost)}; its figures are frozen", "warn"))
    if status.silent and not status.state.is_over:
        lines.append((f"worker {format_ranks(status.silent)}: no output for a while", "warn"))
    return lines


def _failed_phases(status: RunStatus) -> list[str]:
    """Return why launch phases failed and what to do, one line per group of workers with the same failure."""
    alike: dict[tuple[str | None, str], list[WorkerStatus]] = {}
    for worker in status.workers:
        if worker.phase_status == "failed" and worker.detail:
            alike.setdefault((worker.phase, _of_any_process(worker.detail)), []).append(worker)
    cause = _of_any_process(status.cause or "")
    lines = [line for (_, detail), group in alike.items() if (line := _failed_alike(status, group, detail in cause))]
    hidden = len(lines) - _MOST_DETAILS
    return lines[:_MOST_DETAILS] + ([f"and {hidden} more; press d for every worker"] if hidden > 0 else [])


def _of_any_process(text: str) -> str:
    """Return the text without process IDs, which differ on every worker."""
    return _PROCESS.sub("pid", text)


def _failed_alike(status: RunStatus, group: Sequence[WorkerStatus], is_in_cause: bool) -> str:
    """Return one line for a group of workers with the same launch failure."""
    ranks = [worker.worker for worker in group if not (is_in_cause and worker.worker == find_failed_worker(status))]
    if not ranks:
        return ""
    named, first = name_ranks("worker", ranks), group[0]
    line = f"same on {named}" if is_in_cause else f"{named}, {first.phase}: {first.detail}"
    return line + (f" → {first.remedy}" if first.remedy and first.remedy != status.remedy else "")


def describe_feed(feed: Feed) -> str:
    """Return everything known of the run or the saved log as text."""
    snapshot = feed.snapshot
    fields = {} if feed.status is None else list_status_fields(feed.status)
    if snapshot is not None:
        fields["log"] = {
            "lines": snapshot.lines,
            "bytes": snapshot.bytes,
            "samples": snapshot.samples,
            "overlong_lines": snapshot.overlong,
            "dialects": dict(snapshot.dialects),
            "workers": [worker.to_json() for worker in snapshot.workers],
            "epochs": [epoch.to_json() for epoch in snapshot.epochs],
        }
    return format_document(fields)


def list_status_fields(status: RunStatus) -> dict[str, object]:
    """Return a run as named fields: its outcome, then each worker's part, then the request."""
    return {
        "state": str(status.state),
        "cause": status.cause,
        "started": status.started,
        "ended": status.ended,
        "exit_codes": list(status.exit_codes),
        "notes": list(status.notes),
        "workers": [_drop_unset(asdict(worker)) for worker in status.workers],
        "run": status.run.to_json(),
    }


def _drop_unset(fields: dict[str, object]) -> dict[str, object]:
    """Return the fields that are set: most never are."""
    return {name: value for name, value in fields.items() if value is not None and value is not False and value != ""}
