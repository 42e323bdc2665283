"""The sections of a report, the same in every format: sentences and tables in their order."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from datetime import timezone

from tui.logs.core_row import CoreRow
from tui.pod.run import is_rehearsal_command
from tui.reports.rates import rate_in_words, rate_title
from tui.reports.summary import Summary
from tui.runs.record.exit_summary import core_state_in_words
from tui.text.durations import UNKNOWN, format_clock
from tui.text.numbers import format_figure
from tui.text.printable import format_count, one_line
from tui.text.timestamps import parse_time

MOST_CORES = 128
"""Most rows of the per-core table; the JSON and CSV reports have every core."""

REPORT_OF = "report_of"
"""The name under which every format states its source."""

_STRANGE = re.compile(r"[^A-Za-z0-9._:-]+")


@dataclass(frozen=True)
class ReportTable:
    """Columns and rows as text; `right` holds the indices of the columns with numbers."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    right: frozenset[int] = frozenset()
    code: frozenset[tuple[int, int]] = frozenset()
    """Cells (row, column) to be shown verbatim: commands, hashes."""


@dataclass(frozen=True)
class Section:
    """A heading with sentences and perhaps a table. Texts are printable single lines, not escaped."""

    title: str
    sentences: tuple[str, ...] = ()
    table: ReportTable | None = None


def sections(summary: Summary) -> tuple[Section, ...]:
    """Return the sections, the most important first."""
    parts = (
        _outcome(summary),
        _where(summary),
        _notes(summary),
        _epochs(summary),
        _workers(summary),
        _cores(summary),
        _log(summary),
    )
    return tuple(part for part in parts if part.sentences or (part.table and part.table.rows))


def title(summary: Summary) -> str:
    """Return the report's heading."""
    return f"{'Run' if summary.facts.is_run else 'Log'} {one_line(summary.facts.title)}"


REHEARSAL = "Rehearsal: no model was trained. The job printed made-up trainer output."


def report_of(summary: Summary) -> str:
    """Return the source that every format states, so that a report never replaces another run's file."""
    return _STRANGE.sub("-", summary.facts.source or summary.facts.title).lstrip("-.") or "report"


def warning(summary: Summary) -> str | None:
    """Return what a reader must know before anything else, if anything."""
    return REHEARSAL if is_rehearsal_command(summary.facts.argv) else None


def _outcome(summary: Summary) -> Section:
    snapshot = summary.snapshot
    sentences = [_verdict(summary), *summary.remarks]
    if snapshot.samples:
        sentences.append(_describe_end(summary))
    if snapshot.max_accuracy is not None:
        sentences.append(f"Best accuracy: {number(snapshot.max_accuracy)} %.")
    if (seconds := snapshot.facts.get("total_train_time")) is not None:
        sentences.append(f"Total training time reported by the job: {format_clock(seconds)}.")
    if (rate := snapshot.facts.get("average_global_rate")) is not None:
        sentences.append(f"Average rate, reported by the job: {number(rate)} examples/s.")
    if snapshot.data_wait_share is not None:
        sentences.append(f"Waited for data in the last epoch: {snapshot.data_wait_share * 100:.1f} % of the time.")
    if summary.rate_check is not None and summary.rate_check.rates_agree:
        check = summary.rate_check
        sentences.append(
            f"Sum of per-core GlobalRate in epoch {check.epoch}: {number(check.cores_sum)} examples/s "
            f"(job reports {number(check.reported)}, consistent)."
        )
    return Section("Outcome", tuple(map(one_line, sentences)))


def _verdict(summary: Summary) -> str:
    facts = summary.facts
    lasted = f" after {format_clock(summary.seconds)}" if summary.seconds is not None else ""
    if not facts.is_run:
        covers = f"Duration: {format_clock(summary.seconds)}." if summary.seconds is not None else ""
        lines = format_count(summary.snapshot.lines, "line")
        samples = format_count(summary.snapshot.samples, "training sample")
        return f"A saved log of {lines} with {samples}. {covers}".strip()
    verdicts = {
        "succeeded": _success(lasted, facts.attempt),
        "failed": f"Failed{lasted}.",
        "stopped": f"Stopped by the user{lasted}.",
        "lost": f"Lost{lasted}." if facts.cause else f"Ended{lasted}; the outcome was not recorded.",
    }
    return verdicts.get(facts.state or "", f"Still {facts.state}." if facts.state else "The state is unknown.")


def _success(lasted: str, restarts: int) -> str:
    if not restarts:
        return f"Succeeded{lasted}: every worker exited with code 0."
    when = f"{lasted} and" if lasted else " after"
    return f"Succeeded{when} {format_count(restarts, 'restart')}: in the end every worker exited with code 0."


def _describe_end(summary: Summary) -> str:
    snapshot = summary.snapshot
    position = ", ".join(snapshot.place)
    begin = "Ended at" if summary.facts.is_final else "At"
    text = f"{begin} {position or 'an unknown step'}, on {format_count(len(summary.cores), snapshot.noun)}"
    if summary.loss is not None:
        low, high = number(summary.loss.min, 5), number(summary.loss.max, 5)
        text += f"; loss {number(summary.loss.median, 5)} (median; {low} to {high})"
    rate = rate_in_words(snapshot.rate_total, snapshot.rate_median, snapshot.rate_unit, snapshot.rate_source)
    if rate is not None:
        text += f"; {rate}"
    return text + "."


_VERBATIM = ("Command", "Environment", "Code")


def moment(text: str | None) -> str:
    """Format a time as `2026-11-21 12:01:51 UTC`, a log's own without a zone; empty where unknown."""
    time = parse_time(text)
    if time is None:
        return text or ""
    if time.tzinfo is None:
        return f"{time:%Y-%m-%d %H:%M:%S}"
    return f"{time.astimezone(timezone.utc):%Y-%m-%d %H:%M:%S} UTC"


def _where(summary: Summary) -> Section:
    facts = summary.facts
    rows = [
        ("Slice", "/".join(part for part in (facts.zone, facts.slice) if part)),
        ("Accelerator", facts.accelerator_type or ""),
        ("Spot", "" if facts.spot is None else "yes" if facts.spot else "no"),
        ("Runtime", facts.runtime_version or ""),
        ("Versions", ", ".join(f"{name} {version}" for name, version in facts.versions.items())),
        ("Workers", str(len(summary.workers)) if summary.workers else ""),
        ("Command", shlex.join(facts.argv)),
        ("Environment", " ".join(f"{name}={value}" for name, value in sorted(facts.env.items()))),
        ("Code", facts.code_hash or ""),
        ("Started", moment(facts.started)),
        ("Ended", moment(facts.ended)),
        ("Restarts", str(facts.attempt) if facts.attempt else ""),
    ]
    filled = tuple((name, one_line(value)) for name, value in rows if value)
    code = frozenset((index, 1) for index, (name, _) in enumerate(filled) if name in _VERBATIM)
    table = ReportTable(("What", "Value"), filled, code=code)
    return Section("Setup", table=table)


def _notes(summary: Summary) -> Section:
    return Section("Notes", tuple(one_line(note) for note in summary.facts.notes))


def _epochs(summary: Summary) -> Section:
    rows = tuple(
        (
            str(epoch.epoch),
            epoch.train_began or UNKNOWN,
            epoch.train_ended or UNKNOWN,
            format_clock(epoch.seconds),
            number(epoch.reduced_global_rate),
            number(epoch.accuracy),
        )
        for epoch in summary.snapshot.epochs
    )
    columns = ("Epoch", "Train begin", "Train end", "Epoch time", "Examples/s", "Accuracy %")
    return Section("Epochs", table=ReportTable(columns, rows, frozenset({0, 3, 4, 5})))


def _workers(summary: Summary) -> Section:
    rows = tuple(
        (
            UNKNOWN if worker.worker is None else str(worker.worker),
            one_line(worker.hostname or "") or UNKNOWN,
            one_line(worker.address or "") or UNKNOWN,
            _exit(worker.exit_code, worker.signal),
            str(worker.cores),
            f"{worker.lines:,}",
            number(worker.loss, 5),
            number(worker.rate),
        )
        for worker in summary.workers
    )
    columns = ("Worker", "Host", "Address", "Exit", "Cores", "Lines", "Loss", rate_title(summary.snapshot.rate_unit))
    return Section("Workers", table=ReportTable(columns, rows, frozenset({0, 3, 4, 5, 6, 7})))


def _exit(code: int | None, signal: str | None) -> str:
    return one_line(signal) if signal else (UNKNOWN if code is None else str(code))


_WELL = ("training", "ended")
"""States of a core that need no attention."""


def _cores(summary: Summary) -> Section:
    def state(row: CoreRow) -> str:
        return core_state_in_words(row.state, row.worker, summary.facts.first_failure)

    shown = sorted(summary.cores, key=lambda row: state(row) in _WELL)[:MOST_CORES]
    rows = tuple(
        (
            _integer(row.core),
            _integer(row.worker),
            _integer(row.epoch),
            _integer(row.step),
            number(row.loss, 5),
            number(row.rate),
            number(row.global_rate),
            _integer(row.lag),
            state(row),
        )
        for row in shown
    )
    columns = ("Core", "Worker", "Epoch", "Step", "Loss", "Rate", "GlobalRate", "Lag", "State")
    text = f"{len(shown)} of {len(summary.cores)}, those with problems first; the JSON and CSV reports have all."
    sentences = (text,) if len(summary.cores) > MOST_CORES else ()
    return Section("Cores", sentences, ReportTable(columns, rows, frozenset(range(8))))


def _log(summary: Summary) -> Section:
    snapshot = summary.snapshot
    read = ((snapshot.lines, "line"), (snapshot.bytes, "byte"), (snapshot.samples, "training sample"))
    sentences = [", ".join(format_count(count, noun) for count, noun in read) + "."]
    if snapshot.dialects:
        counts = ", ".join(f"{one_line(name)} {count:,}" for name, count in sorted(snapshot.dialects.items()))
        sentences.append(f"Lines by dialect: {counts}.")
    elif snapshot.lines:
        sentences.append("No training lines found. If this is a training log, add a dialect for it to your profile.")
    return Section("Log", tuple(sentences))


def _integer(value: int | None) -> str:
    return UNKNOWN if value is None else str(value)


def number(value: float | None, digits: int = 2) -> str:
    """Format a figure with separated thousands; a dash where it is unknown."""
    return UNKNOWN if value is None else format_figure(value, digits, apart=True)
