"""`runs`, `status`, `attach`, `open` and `stop`: the life of a run from a shell."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tui.commands.attach_progress import follow
from tui.commands.launch import add_launch
from tui.commands.parser.argument_types import RUN, seconds
from tui.commands.stop import stop_run
from tui.commands.terminal import stdio
from tui.commands.terminal.os_errors import by_this_machine
from tui.commands.terminal.output import Output, format_moment, to_the_second
from tui.errors import TpuTuiError, UsageError
from tui.operator.run_scope import hidden_note
from tui.pod.log_refs import names_a_log
from tui.pod.run import LAST_WORDS, RunState, is_run_id
from tui.runs.failure_rules import split_last_lines
from tui.runs.record.exit_summary import exit_summary
from tui.text.durations import format_duration
from tui.text.printable import figure

if TYPE_CHECKING:
    from tui.operator import Operator
    from tui.runs.record.damaged_record import NoRecordError
    from tui.runs.record.run_directory import RunDirectory
    from tui.runs.record.run_status import RunStatus
    from tui.settings import Settings

FIGURES_OF = 100
"""Runs of a list, the newest, whose figures are read from the ends of their logs: some milliseconds each."""
WATCH_INTERVAL = 1.0
"""Seconds between two looks of `status --watch`."""
OLD_FIGURES_S = 10.0
"""Age from which `status` tells how old a live run's figures are."""
_UNATTENDED = "unattended"


def add_commands(commands: argparse._SubParsersAction[Any]) -> None:
    """Add this family's parsers."""
    add_launch(commands)
    deleting = _deleting_options()
    runs = commands.add_parser(
        "runs",
        help="the runs known here and on the workers; runs delete RUN … asks and removes ended ones",
        parents=[deleting],
    )
    runs.add_argument(
        "words", metavar="SLICE | delete RUN …", nargs="*", help="only those on this slice; or delete, and which"
    )
    runs.add_argument("--offline", action="store_true", help="only what is on this machine")
    runs.add_argument("--all", action="store_true", help="those of other projects and hosts files, too")
    runs.set_defaults(run=runs_command, many="words", help_of={"delete": _help_of_deleting(deleting)})

    status = commands.add_parser("status", help="how a run is doing")
    status.add_argument("ref", metavar="RUN", help=RUN)
    status.add_argument("--watch", action="store_true", help="again every second until the run has ended")
    status.add_argument("--offline", action="store_true", help="only what is on this machine")
    status.set_defaults(run=show_status)

    attach = commands.add_parser("attach", help="follow a run's log until it ends; Ctrl-C leaves the run alone")
    attach.add_argument("ref", metavar="RUN", help=RUN)
    attach.set_defaults(run=attach_run)

    opened = commands.add_parser("open", help="the console on one run")
    opened.add_argument("ref", metavar="RUN", help=RUN)
    opened.set_defaults(run_blocking=open_run)

    stop = commands.add_parser("stop", help="end a run on every worker, each acknowledged by name")
    stop.add_argument("ref", metavar="RUN", help=RUN)
    stop.add_argument(
        "--grace", type=seconds, default=30.0, metavar="S", help="seconds between SIGTERM and SIGKILL (default: 30)"
    )
    stop.set_defaults(run=stop_run, changes=True)


def _deleting_options() -> argparse.ArgumentParser:
    options = argparse.ArgumentParser(add_help=False)
    group = options.add_argument_group("options of delete")
    group.add_argument("--on", choices=("workers", "here", "both"), help="where to delete (default: both)")
    group.add_argument("--older-than", metavar="T", help="delete all that ended before, as 7d or 12h")
    group.add_argument(
        "--yes", action="store_true", help="delete without asking; the runs are named then, not `last`"
    )
    return options


def _help_of_deleting(options: argparse.ArgumentParser) -> argparse.ArgumentParser:
    """Return what prints the help of `runs delete`, which `runs` itself parses."""
    helps = argparse.ArgumentParser(
        prog="tpu-tui runs delete",
        description="Remove ended runs and their logs, here and on their workers. At a terminal the command lists "
        "what goes and asks; elsewhere it needs --yes. A live run is never deleted.",
        parents=[options],
    )
    helps.add_argument("words", metavar="RUN", nargs="*", help=RUN)
    return helps


async def attach_run(args: argparse.Namespace, operator: Operator, out: Output) -> int:
    """Follow the log of a run until it ends."""
    directory = await operator.runs.find(args.ref)
    await operator.runs.ensure_keeper(directory)
    return await follow(operator, directory, out)


def open_run(args: argparse.Namespace, flags: Mapping[str, Any], _out: Output) -> int:
    """Open the console on one run."""
    from tui.commands.console import open_console, require_terminal
    from tui.runs.record.run_index import resolve
    from tui.settings import load

    require_terminal()
    settings = load(flags)
    try:
        directory = resolve(settings.runs_home, args.ref)
    except UsageError:
        if not (is_run_id(args.ref) or names_a_log(args.ref)):
            raise
        directory = asyncio.run(_found_elsewhere(settings, args.ref))
    return open_console(flags, open_run=directory)


async def _found_elsewhere(settings: Settings, ref: str) -> RunDirectory:
    """A run that another machine launched, from its workers."""
    from tui.commands.terminal.prompts import prompter_for_terminal
    from tui.operator import Operator

    operator = Operator(settings, prompter=prompter_for_terminal())
    try:
        return await operator.runs.find(ref)
    finally:
        await operator.close()


async def runs_command(args: argparse.Namespace, operator: Operator, out: Output) -> int:
    """List runs, or delete ended ones."""
    if args.words[:1] == ["delete"]:
        if args.all:
            raise UsageError("--all is for the list of runs", remedy="name the runs: tpu-tui runs delete RUN …")
        from tui.commands.runs_delete import delete_runs

        return await delete_runs(args, operator, out)
    if args.older_than or args.on or args.yes:
        only = "--older-than, --on and --yes belong to runs delete"
        raise UsageError(only, remedy="tpu-tui runs delete --older-than 7d")
    if len(args.words) > 1:
        raise UsageError("runs takes one slice", remedy="tpu-tui runs SLICE, or tpu-tui runs delete RUN …")
    slice_name = args.words[0] if args.words else None
    return await list_runs(slice_name, args.offline, operator, out, every=args.all)


async def list_runs(
    slice_name: str | None, offline: bool, operator: Operator, out: Output, *, every: bool = False
) -> int:
    """Print the runs known here, newest first, those that another machine launched among them.

    Unless `every` one is wanted, runs of other projects and hosts files are only counted.
    """
    problems = [] if offline else await _discovered(slice_name, operator)
    out.problems(problems)
    code = max((problem.exit_code for problem in problems), default=0)
    unreadable: list[NoRecordError] = []
    zone, _, name = (slice_name or "").rpartition("/")
    known = operator.runs.list_statuses(name or None, unreadable)
    in_zone = [one for one in known if not zone or one.run.zone in (None, zone)]
    scope = operator.runs.scope
    statuses = [one for one in in_zone if every or scope.includes(one.run)]
    hidden = hidden_note(len(in_zone) - len(statuses), "tpu-tui runs --all lists them")
    out.problems([problem for problem in unreadable if str(problem) not in map(str, problems)])
    if out.as_json:
        out.document([operator.reports.status_document(status, None) for status in statuses])
    elif statuses or unreadable:
        _print_runs(statuses, unreadable, operator, out)
    elif not problems and not hidden:
        where = f" of {slice_name}" if slice_name else ""
        out.note(f"No runs{where} yet. tpu-tui launch {slice_name or 'SLICE'} -- COMMAND … starts one.")
    if hidden:
        out.note(hidden)
    return code


def _print_runs(
    statuses: Sequence[RunStatus], unreadable: Sequence[NoRecordError], operator: Operator, out: Output
) -> None:
    """A row for each run, those whose records cannot be read last: nobody knows when they were."""
    out.table(
        ("run", "slice", "state", "workers", "started", "ended", "attended", "latest"),
        [
            *(_row(status, operator, with_figures=place < FIGURES_OF) for place, status in enumerate(statuses)),
            *((one.id, None, "unreadable", None, None, None, None, one.why) for one in unreadable),
        ],
        right=("workers",),
    )
    if len(statuses) > FIGURES_OF:
        out.note(f"Figures of the newest {FIGURES_OF} runs only; `tpu-tui status RUN` tells any run's.")
    if operator.logs.dialect_problem:
        out.problem(operator.logs.dialect_problem)


def _row(status: RunStatus, operator: Operator, *, with_figures: bool) -> tuple[Any, ...]:
    from tui.reports.findings import marks_of_run

    cause = (status.cause or "").partition(LAST_WORDS)[0]
    glance = operator.runs.latest_figures(status) if with_figures else None
    latest = cause or str(glance or "")
    return (
        status.run.id,
        status.run.slice,
        status.state,
        len(status.run.workers),
        to_the_second(status.started),
        to_the_second(status.ended),
        _attended(status),
        " · ".join(filter(None, (marks_of_run(status, glance), latest))) or None,
    )


async def _discovered(slice_name: str | None, operator: Operator) -> list[TpuTuiError]:
    """Ask the workers for runs of other machines; nothing where no slices are configured at all."""
    configured = operator.settings.hosts or operator.settings.project
    try:
        return await operator.runs.discover([await operator.slices.get(slice_name)] if slice_name else None)
    except UsageError as error:
        if slice_name:
            raise
        return [error] if configured else []
    except TpuTuiError as error:
        from tui.cloud.credentials import NoCredentialsError

        return [] if isinstance(error, NoCredentialsError) and not (slice_name or configured) else [error]
    except OSError as error:
        error.filename = error.filename or str(operator.settings.runs_home)
        return [by_this_machine(error, "runs of other machines cannot be kept here")]


def _attended(status: RunStatus) -> str:
    if status.state.is_over or status.attended.alive:
        return "yes" if status.attended.alive else ""

    since = status.attended.since
    how = "stuck" if status.attended.stuck else _UNATTENDED
    return f"{how} since {format_moment(since)}" if since else how


def _attended_and_remedy(status: RunStatus) -> str:
    """Return whether a run is attended and, where it is not, what to do about it."""
    from tui.runs.record.keeper_file import how_it_is_stuck, how_to_end_it

    attended = _attended(status)
    if status.attended.stuck and not status.state.is_over:
        how, remedy = how_it_is_stuck(status.attended), how_to_end_it(status.run.id, status.attended)
        return f"{attended}: {how}; {remedy}"
    if attended.startswith(_UNATTENDED):
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
        await asyncio.sleep(WATCH_INTERVAL)
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
    return "; ".join(f"{format_workers(workers)}: {told}" for told, workers in why.items()) or None


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
    from tui.reports.findings import sentences
    from tui.runs.record.findings import Finding

    findings = [Finding.from_json(row) for row in document["findings"]]
    told = sentences(findings, is_over=status.state.is_over)
    told.sort(key=lambda each: not each[1].is_straggling)
    rows, named = [], ""
    for text, finding in told:
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
