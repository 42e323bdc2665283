"""Slices, workers, checks and runs as table rows: plain data in, cells out."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import replace
from datetime import timezone
from typing import TYPE_CHECKING

from tui.console.render import state_styles
from tui.console.render.safe_text import escape_line, escape_lines
from tui.console.widgets.tables.row_table import TableRow
from tui.console.widgets.tables.table_columns import Cell, Column
from tui.operator import LEGEND, exit_summary, was_stopped_on_purpose
from tui.pod.slice import Slice
from tui.pod.worker import Worker
from tui.reports.findings import marks_of_run, shown_figures
from tui.text.durations import format_elapsed
from tui.text.printable import format_count
from tui.text.ranks import format_ranks
from tui.text.timestamps import parse_time

if TYPE_CHECKING:
    from tui.operator import CheckFinding, CheckRow, Digest, LatestFigures, RunStatus

SLICE_COLUMNS = (
    Column("name", "slice", 11, flexible=1, wanted=30),
    Column("state", "state", 10),
    Column("health", "health", 9, rank=5),
    Column("type", "type", 12, rank=3),
    Column("workers", "wkrs", 5, right=True, rank=2),
    Column("cores", "cores", 6, right=True, rank=4),
    Column("zone", "zone", 14, rank=6),
    Column("spot", "spot", 5, rank=7),
    Column("runtime", "runtime", 18, rank=8, flexible=1),
)
WORKER_COLUMNS = (
    Column("index", "wkr", 4, right=True),
    Column("reachable", "ssh", 11, flexible=1, wanted=40),
    Column("address", "address", 15, rank=1),
    Column("external", "external", 15, rank=3),
    Column("hostname", "hostname", 18, rank=2, flexible=1),
)
CHECK_COLUMNS = (
    Column("status", "status", 7),
    Column("check", "check", 12, rank=2),
    Column("workers", "wkr", 7, rank=1),
    Column("detail", "detail", 16, flexible=1),
)
RUN_COLUMNS = (
    Column("id", "run", 28, flexible=1, wanted=40),
    Column("state", "state", 10),
    Column("elapsed", "elapsed", 8, right=True),
    Column("runtime", "runtime", 8, rank=2),
    Column("slice", "slice", 12, rank=3, flexible=1),
    Column("exits", "exit codes", 12, rank=5, flexible=1, wanted=30),
    Column("keeper", "keeper", 13, rank=2, collapses=True),
    Column("latest", "latest", 16, rank=1, flexible=3, wanted=36),
    Column("command", "command", 24, rank=4, flexible=1),
)
MARK = "✓"
"""The sign before a run that is marked for a comparison."""
START_REMEDIES = (
    ("gcloud auth application-default login", "log in to Google Cloud"),
    ("tpu-tui --project P --zone Z", "look in this project and zone"),
    ("tpu-tui --hosts FILE", "use SSH hosts, without Google Cloud"),
    ("tpu-tui demo", "try it without an account"),
)
CREATE_REMEDIES = (
    ("tpu-tui slices create NAME …", "create a slice"),
    ("tpu-tui --project P --zone Z", "look in another project or zone"),
    ("tpu-tui demo", "try a pod on this machine"),
)
MAX_CHECK_LINES = 200
"""Listed rows of a finding: a pod of 32 workers has thousands of pairs and ports."""


def _text(value: object, tone: str = "") -> Cell:
    return state_styles.UNKNOWN if value is None or value == "" else Cell(escape_line(str(value)), tone)


def _count(value: int | None) -> Cell:
    return state_styles.UNKNOWN if value is None else Cell(str(value))


def make_slice_row(slice_: Slice) -> TableRow:
    """Return the row of a slice."""
    spot = slice_.spot if slice_.spot is not None else slice_.preemptible
    health = state_styles.style_health(slice_.health)
    if slice_.symptoms:
        health = Cell(format_count(len(slice_.symptoms), "symptom"), "bad")
    return TableRow(
        slice_.path,
        (
            _text(slice_.name),
            state_styles.style_slice_state(slice_.state),
            health,
            _text(slice_.accelerator_type),
            _count(len(slice_.workers)),
            _count(slice_.cores),
            _text(slice_.zone, "dim"),
            state_styles.UNKNOWN if spot is None else Cell("yes" if spot else "no", "warn" if spot else "dim"),
            _text(slice_.runtime_version, "dim"),
        ),
        {"health": slice_.health},
    )


def _access(worker: Worker) -> Cell:
    """Return whether a worker is reachable over SSH, or why it is not."""
    if not worker.error:
        return state_styles.style_reachability(worker.reachable)
    return Cell(escape_line(worker.error.removeprefix(f"worker {worker.index}: ")), "bad")


def make_worker_row(worker: Worker) -> TableRow:
    """Return the row of a worker."""
    return TableRow(
        worker.index,
        (
            Cell(str(worker.index)),
            _access(worker),
            _text(worker.internal_ip or worker.external_ip),
            _text(worker.external_ip, "dim"),
            _text(worker.hostname, "dim"),
        ),
    )


def make_check_rows(found: Digest) -> list[TableRow]:
    """Return a row per finding, the worst first; equal findings of several workers share one."""
    return [_check_row(rank, finding) for rank, finding in enumerate(found.findings)]


def get_finding_key(finding: CheckFinding) -> Hashable:
    """Return the key of a finding, which stays the same as more come in."""
    return finding.status, finding.check, finding.detail


def _check_row(rank: int, finding: CheckFinding) -> TableRow:
    tone = "bad" if finding.status == "fail" else "warn" if finding.status == "warn" else "dim"
    workers = format_ranks(finding.workers)
    return TableRow(
        get_finding_key(finding),
        (
            state_styles.style_check_status(finding.status),
            _text(finding.check),
            _text(workers),
            _text(finding.detail, tone) if finding.detail else Cell(""),
        ),
        {"status": rank, "workers": finding.workers[0] if finding.workers else None},
    )


def describe_finding(found: Digest, finding: CheckFinding, rows: Iterable[CheckRow], columns: int) -> str:
    """Return a finding in full: remedy, port matrix, and the rows it stands for."""
    prefix = f"{finding.where}: " if finding.where else ""
    parts = [f"{finding.status}: {prefix}{finding.check} {finding.detail}".strip()]
    if finding.remedy:
        parts.append(f"→ {finding.remedy}")
    if finding.check == "ports":
        parts += ["\n".join([f"tcp:{matrix.port}", *matrix.lines(columns)]) for matrix in found.matrices]
        if found.matrices:
            parts.append(LEGEND)
    alike = [row for row in rows if (row.status, row.check) == (finding.status, finding.check)]
    alike.sort(key=lambda row: tuple(-1 if number is None else number for number in (row.worker, row.peer, row.port)))
    lines = [_row_line(row) for row in alike[:MAX_CHECK_LINES]] if len(alike) > 1 else []
    if len(alike) > MAX_CHECK_LINES:
        lines.append(f"and {len(alike) - MAX_CHECK_LINES:,} more (tpu-tui check --json lists them all)")
    return escape_lines("\n\n".join([*parts, "\n".join(lines)]))


def _row_line(row: CheckRow) -> str:
    ends = [f"worker {number}" for number in (row.worker, row.peer) if number is not None]
    port = f" tcp:{row.port} {row.state or 'unknown'}" if row.port is not None else ""
    endpoints = " → ".join(ends) + port
    return f"{endpoints}: {row.detail}" if endpoints else row.detail


def parse_moment(text: str | None) -> float | None:
    """Return an RFC 3339 time as Unix seconds; None for no time or an invalid one."""
    time = parse_time(text)
    return None if time is None else time.replace(tzinfo=time.tzinfo or timezone.utc).timestamp()


def get_run_seconds(status: RunStatus, now: float) -> float | None:
    """Return a run's duration in seconds; while it is being prepared, since it was requested."""
    started_at = parse_moment(status.started) or parse_moment(status.run.created)
    if started_at is None:
        return None
    ended_at = parse_moment(status.ended)
    return (ended_at if ended_at is not None else now) - started_at


def format_exit_codes(status: RunStatus) -> Cell:
    """Return the exit codes: the first failure, then the others. A deliberate stop is not marked as failure."""
    bad = any(code not in (None, 0) for code in status.exit_codes) and not was_stopped_on_purpose(status)
    return Cell(exit_summary(status), "bad" if bad else "dim")


def format_keeper_cell(status: RunStatus, now: float) -> Cell:
    """Return whether the run has a keeper, and since when not."""
    if status.state.is_over:
        return Cell("")
    if status.attended.alive:
        return Cell("running", "dim")
    since = status.attended.since
    if status.attended.stuck:
        return Cell(f"stuck, {format_elapsed(status.attended.silent_s)}", "bad")
    return Cell("none" if since is None else f"none, {format_elapsed(now - since)}", "bad")


def format_latest(status: RunStatus, latest: LatestFigures | None) -> Cell:
    """Return the news of a run: problems of its cores, why it ended, or its newest figures.

    A rehearsal is named as such.
    """
    news, marked = _latest(status, latest), marks_of_run(status, latest)
    rehearsal = "rehearsal" if status.run.is_rehearsal else ""
    tone = "bad" if marked.startswith("nan") else "warn" if marked and not status.state.is_over else news.tone
    return Cell(" · ".join(filter(None, (marked, news.text, rehearsal))), tone)


def _latest(status: RunStatus, latest: LatestFigures | None) -> Cell:
    figures = shown_figures(status, latest)
    if status.cause and not figures:
        return Cell(escape_line(status.cause), "bad" if str(status.state) in ("failed", "lost") else "dim")
    bad = latest is not None and latest.loss is not None and not math.isfinite(latest.loss)
    text = " · ".join(filter(None, (figures, escape_line(status.cause or ""))))
    return Cell(text, "bad" if bad else "dim" if status.state.is_over else "")


def make_run_row(status: RunStatus, now: float, latest: LatestFigures | None = None) -> TableRow:
    """Return the row of a run, with its newest figures if they were read."""
    seconds = get_run_seconds(status, now)
    program, *arguments = status.run.job.argv or ("",)
    command = " ".join([program.rpartition("/")[2], *arguments])
    news = format_latest(status, latest)
    return TableRow(
        status.run.id,
        (
            _text(status.run.id),
            state_styles.style_run_state(str(status.state)),
            Cell(format_elapsed(seconds)),
            _text(status.run.job.runtime, "dim"),
            _text(status.run.slice, "dim"),
            format_exit_codes(status),
            format_keeper_cell(status, now),
            news,
            _text(command, "dim"),
        ),
        {"id": status.run.id[-20:], "elapsed": seconds, "exits": None, "keeper": None},
    )


def mark_row(row: TableRow) -> TableRow:
    """Return the row of a run with a mark: it is one of those to compare."""
    name, *cells = row.cells
    return replace(row, cells=(name._replace(text=f"{MARK} {name.text}", tone="accent"), *cells))


def count_runs(statuses: Sequence[RunStatus], shown: int, filter_text: str) -> str:
    """Return how many runs are live or, with a filter, how many it shows; empty without runs."""
    if statuses and filter_text:
        return f"{shown} of {format_count(len(statuses), 'run')} with “{filter_text}”"
    live = sum(not status.state.is_over for status in statuses)
    return f"{live} of {len(statuses)} live" if statuses else ""


def explain_no_slices(where: str, *, is_known: bool, has_hosts: bool, can_create: bool) -> str:
    """Return what the empty list of slices shows: how to get one, or what to set up where listing failed."""
    if has_hosts:
        return f"No slices in {where}" if is_known else "The hosts file could not be read."
    if not is_known:
        return format_remedies("The slices could not be listed. Ways to start:", START_REMEDIES)
    key = (("N", "create a slice here"),) if can_create else ()
    return format_remedies(f"No slices in {where}", (*key, *CREATE_REMEDIES))


def format_remedies(heading: str, remedies: Sequence[tuple[str, str]]) -> str:
    """Return a heading with commands beneath it, each beside what it does."""
    width = max(len(command) for command, _ in remedies) + 2
    return "\n".join([heading, "", *(f"  {command:<{width}}{effect}" for command, effect in remedies)])


def format_check_hint(slice_: Slice | None) -> str:
    """Return what the list of checks shows before a slice was checked."""
    if slice_ is None:
        return "No slice selected"
    if slice_.state == "STOPPED":
        return f"The slice is stopped. Start it with tpu-tui slices start {escape_line(slice_.name)}"
    return "Press c to check this slice"


def format_passed(found: Digest, age: float | None) -> str:
    """Return the line that stands for checks that have all passed, `age` seconds ago."""
    passed = format_count(found.counts["pass"], "check")
    return f"✓ {passed} passed {format_elapsed(age)} ago · c checks again · 3 lists them"


def make_worker_rows(slice_: Slice | None, tried: Sequence[Worker] | None) -> list[TableRow]:
    """Return rows for the slice's workers: as reached over SSH where that was tried, else as listed."""
    if slice_ is None:
        return []
    reached = {worker.index: worker for worker in tried or ()}
    return [make_worker_row(reached.get(worker.index, worker)) for worker in slice_.workers]
