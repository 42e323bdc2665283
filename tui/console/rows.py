"""The pod screen's nouns as table rows: plain data in, cells out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timezone
from typing import TYPE_CHECKING

from tui.console import words
from tui.console.text import elapsed, harmless
from tui.console.widgets.line_table import Cell, Column
from tui.console.widgets.row_table import Row
from tui.pod.slice import Slice
from tui.pod.worker import Worker

if TYPE_CHECKING:
    from tui.checks.row import CheckRow
    from tui.runs.status import RunStatus

SLICE_COLUMNS = (
    Column("name", "slice", 12, flexible=True),
    Column("state", "state", 10),
    Column("health", "health", 9, rank=3),
    Column("type", "type", 12, rank=1),
    Column("workers", "wkrs", 5, right=True),
    Column("cores", "cores", 6, right=True, rank=2),
    Column("zone", "zone", 14, rank=4),
    Column("spot", "spot", 5, rank=5),
    Column("runtime", "runtime", 18, rank=6),
)
WORKER_COLUMNS = (
    Column("index", "wkr", 4, right=True),
    Column("reachable", "ssh", 12, flexible=True),
    Column("address", "address", 15, rank=1),
    Column("external", "external", 15, rank=3),
    Column("hostname", "hostname", 18, rank=2, flexible=True),
)
CHECK_COLUMNS = (
    Column("status", "status", 7),
    Column("check", "check", 12, rank=3),
    Column("worker", "wkr", 4, right=True),
    Column("peer", "peer", 5, right=True, rank=1),
    Column("port", "port", 6, right=True),
    Column("state", "state", 9, rank=2),
    Column("detail", "detail", 16, flexible=True),
)
CODES_WIDTH = 12
RUN_COLUMNS = (
    Column("id", "run", 28, flexible=True),
    Column("state", "state", 10),
    Column("elapsed", "elapsed", 8, right=True),
    Column("kind", "kind", 9),
    Column("slice", "slice", 12, rank=3),
    Column("exits", "exit codes", CODES_WIDTH, rank=2),
    Column("kept", "attended", 16, rank=4),
    Column("cause", "cause", 16, rank=1, flexible=True),
    Column("command", "command", 24, rank=5, flexible=True),
)
_MOST_CODES = 8
_URGENCY = {"fail": 0, "warn": 1, "unknown": 2, "pass": 3}


def _text(value: object, tone: str = "") -> Cell:
    return words.UNKNOWN if value is None or value == "" else Cell(harmless(str(value)), tone)


def _count(value: int | None) -> Cell:
    return words.UNKNOWN if value is None else Cell(str(value))


def slice_row(slice_: Slice) -> Row:
    """A slice of the list."""
    spot = slice_.spot if slice_.spot is not None else slice_.preemptible
    symptoms = len(slice_.symptoms)
    health = words.health(slice_.health)
    if symptoms:
        health = Cell(f"{symptoms} symptom{'s' if symptoms > 1 else ''}", "bad")
    return Row(
        slice_.path,
        (
            _text(slice_.name),
            words.slice_state(slice_.state),
            health,
            _text(slice_.accelerator_type),
            _count(len(slice_.workers)),
            _count(slice_.cores),
            _text(slice_.zone, "dim"),
            words.UNKNOWN if spot is None else Cell("yes" if spot else "no", "warn" if spot else "dim"),
            _text(slice_.runtime_version, "dim"),
        ),
        (
            slice_.name,
            slice_.state,
            slice_.health,
            slice_.accelerator_type,
            len(slice_.workers),
            slice_.cores,
            slice_.zone,
        ),
    )


def _access(worker: Worker) -> Cell:
    """Whether SSH leads to it, and where not, why."""
    cell = words.reachable(worker.reachable)
    return Cell(f"{cell.text}: {harmless(worker.error)}", "bad") if worker.error else cell


def worker_row(worker: Worker) -> Row:
    """A worker of the chosen slice."""
    return Row(
        worker.index,
        (
            Cell(str(worker.index)),
            _access(worker),
            _text(worker.internal_ip or worker.external_ip),
            _text(worker.external_ip, "dim"),
            _text(worker.hostname, "dim"),
        ),
        (worker.index,),
    )


def check_rows(rows: Iterable[CheckRow]) -> list[Row]:
    """Check results: what failed first, else in the order they came."""
    numbered = sorted(enumerate(rows), key=lambda entry: _URGENCY.get(entry[1].status, 0))
    return [_check_row(number, row) for number, row in numbered]


def _check_row(number: int, row: CheckRow) -> Row:
    tone = "bad" if row.status == "fail" else "warn" if row.status == "warn" else "dim"
    return Row(
        number,
        (
            words.check_status(row.status),
            _text(row.check),
            _count(row.worker),
            _text(row.peer),
            _count(row.port),
            _text(row.state, "dim"),
            _text(row.detail, tone) if row.detail else Cell(""),
        ),
        (row.status, row.check, row.worker, row.peer, row.port, row.state, row.detail),
    )


def moment_of(text: str | None) -> float | None:
    """An RFC 3339 time as Unix seconds; None for none and for what is none."""
    if not text:
        return None
    try:
        moment = datetime.fromisoformat(text.replace("Z", "+00:00"))
    except ValueError:
        return None
    return moment.replace(tzinfo=moment.tzinfo or timezone.utc).timestamp()


def run_seconds(status: RunStatus, now: float) -> float | None:
    """How long a run has gone on or went on, in seconds; since it was asked for while it is being prepared."""
    begun = moment_of(status.started) or moment_of(status.run.created)
    if begun is None:
        return None
    ended = moment_of(status.ended)
    return (ended if ended is not None else now) - begun


def kind(status: RunStatus) -> Cell:
    """On what it runs; a rehearsal, which trains nothing, is called that."""
    return Cell("rehearsal", "warn") if status.run.is_rehearsal else Cell(status.run.runtime, "dim")


def exit_codes(status: RunStatus, width: int | None = None) -> Cell:
    """The workers' exit codes in worker order, `–` where none is known; counted where they are too many to list."""
    codes = ["–" if code is None else str(code) for code in status.exit_codes]
    text = " ".join(codes)
    if len(codes) > _MOST_CODES or (width is not None and len(text) > width):
        counts = {code: codes.count(code) for code in sorted(set(codes))}
        text = " ".join(f"{code}×{count}" if count > 1 else code for code, count in counts.items())
    bad = any(code not in (None, 0) for code in status.exit_codes)
    return Cell(text, "bad" if bad else "dim")


def attendance(status: RunStatus, now: float) -> Cell:
    """Whether a keeper looks after the run, and since when not."""
    if status.state.is_over:
        return Cell("")
    if status.attended.alive:
        return Cell("attended", "good")
    since = status.attended.since
    return Cell("unattended" if since is None else f"not for {elapsed(now - since)}", "bad")


def run_row(status: RunStatus, now: float) -> Row:
    """A run of the list."""
    seconds = run_seconds(status, now)
    command = " ".join(status.run.argv)
    cause = harmless(status.cause or "")
    return Row(
        status.run.id,
        (
            _text(status.run.id),
            words.run_state(str(status.state)),
            Cell(elapsed(seconds)),
            kind(status),
            _text(status.run.slice, "dim"),
            exit_codes(status, CODES_WIDTH),
            attendance(status, now),
            Cell(cause, "bad" if str(status.state) in ("failed", "lost") else "dim"),
            _text(command, "dim"),
        ),
        (
            status.run.id[-20:],
            str(status.state),
            seconds,
            kind(status).text,
            status.run.slice,
            None,
            None,
            cause,
            command,
        ),
    )


def worker_rows(slice_: Slice | None, tried: Sequence[Worker] | None) -> list[Row]:
    """The chosen slice's workers: as tried where they were, else as the source tells them."""
    if slice_ is None:
        return []
    known = {worker.index: worker for worker in tried or ()}
    return [worker_row(known.get(worker.index, worker)) for worker in slice_.workers]
