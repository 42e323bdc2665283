"""`status`: how a run is doing."""

from __future__ import annotations

import argparse
import asyncio
import sys
from typing import TYPE_CHECKING, Any

from tui.commands.parser.argument_types import RUN
from tui.commands.terminal import stdio
from tui.commands.terminal.output import Output, to_the_second
from tui.operator import exit_summary, split_last_lines
from tui.pod.run import LAST_WORDS, RunState
from tui.text.durations import format_duration
from tui.text.printable import figure

if TYPE_CHECKING:
    from tui.operator import Operator, RunDirectory, RunStatus
from tui.commands.parser.commands import Commands
from tui.commands.runs import UNATTENDED, describe_keeper

WATCH_INTERVAL_S = 1.0
"""Seconds between two looks of `status --watch`."""
OLD_FIGURES_S = 10.0
"""Age from which `status` tells how old a live run's figures are."""


def add_command(commands: Commands) -> None:
    """Add the command's parser."""
    status = commands.add("status", help="how a run is doing")
    status.add_argument("ref", metavar="RUN", help=RUN)
    status.add_argument("--watch", action="store_true", help="refresh every second until the run ends")
    status.add_argument("--offline", action="store_true", help="only what is on this machine")
    status.set_defaults(run=show_status)


def _attended_and_remedy(status: RunStatus) -> str:
    """Return whether a run is attended and, where it is not, what to do about it."""
    from tui.operator import describe_stuck_keeper, describe_stuck_remedy

    attended = describe_keeper(status)
    if status.attended.stuck and not status.state.is_over:
        how, remedy = describe_stuck_keeper(status.attended), describe_stuck_remedy(status.run.id, status.attended)
        return f"{attended}: {how}; {remedy}"
    if attended.startswith(UNATTENDED):
        return f"{attended}; tpu-tui attach {status.run.id} looks after it again"
    return attended


async def show_status(args: argparse.Namespace, operator: Operator, out: Output) -> int:
    """Print a run's state, figures and exit codes; with --watch until it ends."""
    directory = await operator.runs.find(args.ref)
    behind = None if args.offline else await operator.runs.refresh(directory)
    while True:
        document = await operator.reports.read_status(directory)
        if out.as_json:
            (out.line if args.watch else out.document)(document)
        else:
            status = operator.runs.status_of(directory)
            _print_status(document, status, _attended_and_remedy(status), directory, out)
        if not args.watch or RunState(document["state"]).is_over:
            break
        sys.stdout.flush()
        await asyncio.sleep(WATCH_INTERVAL_S)
        if not out.as_json and stdio.obeys(sys.stdout):
            print("\x1b[H\x1b[2J", end="")
    problem = behind or operator.logs.dialect_problem
    if problem:
        out.problem(problem)
    return problem.exit_code if problem else 0


def _out_of_reach(status: RunStatus) -> str | None:
    """The workers that cannot be reached, with why; alike ones together."""
    from tui.text.ranks import format_workers

    why: dict[str, list[int]] = {}
    for part in status.workers:
        if part.link == "lost" and not part.ended:
            why.setdefault(part.link_detail or "", []).append(part.worker)
    return "; ".join(f"{format_workers(workers)}: {reason}" for reason, workers in why.items()) or None


def _print_status(
    document: dict[str, Any],
    status: RunStatus,
    attended: str,
    directory: RunDirectory,
    out: Output,
) -> None:
    from tui.reports.rates import rate_in_words

    loss, age = document["loss"], document["figures_age_s"]
    cause, _, last_lines = (document["cause"] or "").partition(LAST_WORDS)
    rows = [
        ("run", document["run"]),
        ("slice", document["slice"]),
        ("state", document["state"]),
        ("cause", cause or None),
        *_quoted(last_lines, status, directory),
        ("remedy", document["remedy"]),
        ("attended", attended or None),
        ("started", to_the_second(document["started"])),
        ("ended", to_the_second(document["ended"])),
        ("epoch", document["epoch"]),
        ("step", document["step"]),
        ("loss", loss and _spread_to_read(loss)),
        ("rate", rate_in_words(document["rate_total"], document["rate_median"], document["rate_unit"])),
        ("cores", document["cores"]),
        ("missing", _missing_to_read(document)),
        *_found(document, status),
        ("newest byte", None if age is None or age < OLD_FIGURES_S else f"came {format_duration(age)} ago"),
        ("out of reach", _out_of_reach(status)),
        ("silent", ", ".join(f"worker {worker}" for worker in document["silent"]) or None),
        ("exit codes", exit_summary(status) if any(code is not None for code in status.exit_codes) else None),
        ("directory", directory.path),
    ]
    out.facts([row for row in rows if row[1] is not None])


def _missing_to_read(document: dict[str, Any]) -> str | None:
    """The cores that no line has come from, and where they are; None where none is missing."""
    if not document["missing_cores"]:
        return None
    from tui.logs.state.missing_cores import MissingCores

    return MissingCores(tuple(document["missing_cores"]), tuple(document["missing_on_workers"])).sentence


def _found(document: dict[str, Any], status: RunStatus) -> list[tuple[str, str]]:
    """What was found wrong with single cores, stragglers first; what was over stays among it."""
    from tui.operator import Finding
    from tui.reports.findings import sentences

    findings = [Finding.from_json(row) for row in document["findings"]]
    found = sentences(findings, is_over=status.state.is_over)
    found.sort(key=lambda each: not each[1].is_straggling)
    rows, named = [], ""
    for text, finding in found:
        name = "stragglers" if finding.is_straggling else "nan"
        rows.append(("" if name == named else name, text))
        named = name
    return rows


def _quoted(last_lines: str, status: RunStatus, directory: RunDirectory) -> list[tuple[str, str]]:
    """The last lines of the worker that failed first, one below the other."""
    if not last_lines:
        return []
    first = status.first_failure
    lines = [last_lines] if first is None else split_last_lines(directory.log_path(first), last_lines)
    return [("last lines" if not place else "", line) for place, line in enumerate(lines)]


def _spread_to_read(loss: dict[str, Any]) -> str:
    median, low, high = (_to_read(loss[name], 5) for name in ("median", "min", "max"))
    return f"{median} (median of the cores; {low} to {high})"


def _to_read(value: Any, decimals: int) -> str:
    """A figure of a document, where `nan` and `inf` are words."""
    return figure(value, decimals, apart=True) if isinstance(value, float) else str(value)
