"""`status`: print the state and figures of a run."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from tui.commands.log_source import note_foreign
from tui.commands.parser.argument_types import RUN
from tui.commands.parser.commands import Commands
from tui.commands.runs import UNATTENDED, describe_keeper
from tui.commands.terminal import stdio
from tui.commands.terminal.output import Output
from tui.operator import exit_summary, restart_sentences, split_last_lines
from tui.pod.run import LAST_WORDS, RunState
from tui.text.durations import format_duration
from tui.text.numbers import format_figure
from tui.text.timestamps import format_utc

if TYPE_CHECKING:
    from tui.operator import Operator, RunDirectory, RunStatus

WATCH_INTERVAL_S = 1.0
"""Interval of `status --watch`."""
_IS_GONE = "is gone: "
"""Beginning of the reason for a worker whose machine the API no longer has."""
OLD_FIGURES_S = 10.0
"""Age of a live run's figures from which it is shown."""


def add_command(commands: Commands) -> None:
    """Add the command's parser."""
    status = commands.add("status", help="show the state, figures and exit codes of a run")
    status.add_argument("ref", metavar="RUN", help=RUN)
    status.add_argument("--watch", action="store_true", help="refresh every second until the run ends")
    status.add_argument("--offline", action="store_true", help="use only what is on this machine")
    status.set_defaults(run=show_status)


def _attended_and_remedy(status: RunStatus, directory: RunDirectory) -> str:
    """Describe whether a run has a keeper and, if not, what to do."""
    from tui.operator import describe_stuck_keeper, describe_stuck_remedy

    attended = describe_keeper(status)
    if status.attended.stuck and not status.state.is_over:
        how, remedy = describe_stuck_keeper(status.attended), describe_stuck_remedy(status.run.id, status.attended)
        return f"{attended}: {how}; {remedy}"
    if attended.startswith(UNATTENDED) and directory.foreign is None:
        return f"{attended}; start a keeper with tpu-tui attach {status.run.id}"
    return attended


async def show_status(args: argparse.Namespace, operator: Operator, out: Output) -> int:
    """Print a run's state, figures and exit codes; with --watch, repeat until it ends."""
    directory = await operator.runs.find(args.ref)
    note_foreign(directory, out)
    refresh_problem = None if args.offline else await operator.runs.refresh(directory)
    while True:
        document = await operator.reports.read_status(directory)
        if out.as_json:
            (out.line if args.watch else out.document)(document)
        else:
            status = operator.runs.status_of(directory)
            _print_status(document, status, _attended_and_remedy(status, directory), directory, out)
        if not args.watch or RunState(document["state"]).is_over:
            break
        sys.stdout.flush()
        await asyncio.sleep(WATCH_INTERVAL_S)
        if not out.as_json and stdio.understands_controls(sys.stdout):
            print("\x1b[H\x1b[2J", end="")
    problem = refresh_problem or operator.logs.dialect_problem
    if problem:
        out.problem(problem)
    return problem.exit_code if problem else 0


def _unreachable(status: RunStatus) -> str | None:
    """List the unreachable workers, grouped by reason."""
    from tui.text.ranks import format_workers

    why: dict[str, list[int]] = {}
    for part in status.workers:
        if part.link == "lost" and not part.ended:
            why.setdefault(part.link_detail or "", []).append(part.worker)
    texts = []
    for reason, workers in why.items():
        text = f"{format_workers(workers)}: {reason}"
        if reason.startswith(_IS_GONE):
            loss = reason.removeprefix(_IS_GONE)
            text = f"{format_workers(workers)} {'is' if len(workers) == 1 else 'are'} gone"
            text += "" if loss in status.short_cause else f": {loss}"
        texts.append(text)
    return "; ".join(texts) or None


def _print_status(
    document: dict[str, Any], status: RunStatus, attended: str, directory: RunDirectory, out: Output
) -> None:
    from tui.reports.rates import rate_in_words

    loss, age = document["loss"], document["figures_age_s"]
    cause, _, last_lines = (document["cause"] or "").partition(LAST_WORDS)
    rows = [
        ("run", document["run"]),
        ("slice", document["slice"]),
        ("state", document["state"]),
        ("cause", cause or status.short_cause or None),
        *_quote_lines(last_lines, status, directory),
        ("remedy", document["remedy"]),
        *_rows_of("restarts", restart_sentences(status.restarts)),
        ("attended", attended or None),
        ("started", format_utc(document["started"])),
        ("ended", format_utc(document["ended"])),
        ("epoch", document["epoch"]),
        ("step", document["step"]),
        ("progress", _format_progress(document["progress"])),
        ("loss", loss and _format_spread(loss)),
        (
            "rate",
            rate_in_words(*(document[f"rate_{name}"] for name in ("total", "median", "unit", "source"))),
        ),
        ("waited for data", _format_share(document["data_wait_share"])),
        (f"{document['cores_are']}s", document["cores"]),
        ("missing", _format_missing(document)),
        *_found(document, status),
        ("newest byte", None if age is None or age < OLD_FIGURES_S else f"{format_duration(age)} ago"),
        ("unreachable", _unreachable(status)),
        ("silent", ", ".join(f"worker {worker}" for worker in document["silent"]) or None),
        ("newest note", None if status.state.is_over else next(reversed(status.notes_without_findings), None)),
        ("exit codes", exit_summary(status) if any(code is not None for code in status.exit_codes) else None),
        ("directory", directory.path),
    ]
    out.facts([row for row in rows if row[1] is not None])


def _rows_of(name: str, texts: Iterable[str]) -> list[tuple[str, str]]:
    """Return a row for each text, of which the first has the name."""
    return [("" if index else name, text) for index, text in enumerate(texts)]


def _format_progress(progress: dict[str, Any] | None) -> str | None:
    """Return the share of the run that is done and the time that is left; None if unknown."""
    if progress is None or progress["share"] is None:
        return None
    of = progress["share_of"]
    text = f"{int(progress['share'] * 100)} % of {progress[of]} {of}"
    left = progress["seconds_left"]
    return text if left is None else f"{text}, about {format_duration(left)} left"


def _format_share(share: float | None) -> str | None:
    return None if share is None else f"{share * 100:.1f} % of the newest epoch"


def _format_missing(document: dict[str, Any]) -> str | None:
    """Describe the cores without any line, and their workers; None where none is missing."""
    if not document["missing_cores"]:
        return None
    from tui.logs.state.missing_cores import MissingCores

    return MissingCores(tuple(document["missing_cores"]), tuple(document["missing_on_workers"])).sentence


def _found(document: dict[str, Any], status: RunStatus) -> list[tuple[str, str]]:
    """Return rows about problems of single cores, stragglers first, including those that are over."""
    from tui.operator import Finding
    from tui.reports.findings import sentences

    findings = [Finding.from_json(row) for row in document["findings"]]
    pairs = sentences(findings, is_over=status.state.is_over)
    stragglers = [text for text, finding in pairs if finding.is_straggling]
    others = [text for text, finding in pairs if not finding.is_straggling]
    return [*_rows_of("stragglers", stragglers), *_rows_of("nan", others)]


def _quote_lines(last_lines: str, status: RunStatus, directory: RunDirectory) -> list[tuple[str, str]]:
    """Return a row for each of the last lines of the worker that failed first."""
    if not last_lines:
        return []
    first = status.first_failure
    lines = [last_lines] if first is None else split_last_lines(directory.log_path(first), last_lines)
    return _rows_of("last lines", lines)


def _format_spread(loss: dict[str, Any]) -> str:
    median, low, high = (_format_figure(loss[name], 5) for name in ("median", "min", "max"))
    return f"{median} (median; {low} to {high})"


def _format_figure(value: Any, decimals: int) -> str:
    """Format a figure of a document, in which `nan` and `inf` are strings."""
    return format_figure(value, decimals, apart=True) if isinstance(value, float) else str(value)
