"""`runs`: list the runs known here and on the workers."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tui.commands.parser.commands import Commands
from tui.commands.runs_delete import add_delete_options, delete_parser
from tui.commands.terminal.output import Output, format_moment
from tui.commands.terminal.refusals import explain_os_error
from tui.errors import TpuTuiError, UsageError
from tui.text.timestamps import format_utc

if TYPE_CHECKING:
    from tui.operator import NoRecordError, Operator, RunStatus

FIGURES_OF = 100
"""Number of newest runs whose figures are read from the ends of their logs, which takes milliseconds each."""
UNATTENDED = "unattended"


def add_command(commands: Commands) -> None:
    """Add the command's parser."""
    runs = commands.add(
        "runs",
        help="list runs, or delete ended ones (runs delete)",
        description="List the runs known here and on the workers. `tpu-tui runs delete RUN …` deletes ended ones.",
        usage="%(prog)s [-h] [--offline] [--all] [SLICE]\n       %(prog)s delete RUN …",
    )
    add_delete_options(runs, shown=False)
    runs.add_argument(
        "words", metavar="SLICE | delete RUN …", nargs="*", help="list only runs on this slice; or delete runs"
    )
    runs.add_argument("--offline", action="store_true", help="use only what is on this machine")
    runs.add_argument("--all", action="store_true", help="include runs of other projects and hosts files")
    runs.set_defaults(run=runs_command, many="words", help_of={"delete": delete_parser()})


async def runs_command(args: argparse.Namespace, operator: Operator, out: Output) -> int:
    """List runs, or delete ended ones."""
    if args.words[:1] == ["delete"]:
        if args.all or args.offline:
            option = "--all" if args.all else "--offline"
            raise UsageError(f"runs delete does not take {option}", remedy="tpu-tui runs delete --help")
        from tui.commands.runs_delete import delete_runs

        return await delete_runs(args, operator, out)
    if args.older_than or args.on or args.yes:
        only = "--older-than, --on and --yes are options of runs delete"
        raise UsageError(only, remedy="tpu-tui runs delete --older-than 7d")
    if len(args.words) > 1:
        raise UsageError("runs takes only one slice", remedy="tpu-tui runs SLICE, or tpu-tui runs delete RUN …")
    return await _list_runs(args, operator, out)


async def _list_runs(args: argparse.Namespace, operator: Operator, out: Output) -> int:
    """Print the runs known here, newest first, including those that another machine launched.

    Without --all, runs of other projects and hosts files are only counted.
    """
    from tui.operator.runs import hidden_note

    slice_name = args.words[0] if args.words else None
    problems = [] if args.offline else await _discover(slice_name, operator)
    code = out.problems(problems)
    unreadable: list[NoRecordError] = []
    zone, _, name = (slice_name or "").rpartition("/")
    listed = operator.runs.list_statuses(name or None, unreadable)
    in_zone = [status for status in listed if not zone or status.run.zone in (None, zone)]
    scope = operator.runs.scope
    statuses = [status for status in in_zone if args.all or scope.includes(status.run)]
    hidden = hidden_note(len(in_zone) - len(statuses), "list them with tpu-tui runs --all")
    out.problems([problem for problem in unreadable if str(problem) not in map(str, problems)])
    if out.as_json:
        out.document([operator.reports.status_document(status, None) for status in statuses])
    elif statuses or unreadable:
        _print_runs(statuses, unreadable, operator, out)
    elif not problems and not hidden:
        location = f" on {slice_name}" if slice_name else ""
        out.note(f"No runs{location} yet. Start one with tpu-tui launch {slice_name or 'SLICE'} -- COMMAND …")
    if hidden:
        out.note(hidden)
    return code


def _print_runs(
    statuses: Sequence[RunStatus], unreadable: Sequence[NoRecordError], operator: Operator, out: Output
) -> None:
    """Print a row for each run; unreadable records come last, because their time is unknown."""
    out.table(
        ("run", "slice", "state", "workers", "started", "ended", "attended", "latest"),
        [
            *(_row(status, operator, with_figures=index < FIGURES_OF) for index, status in enumerate(statuses)),
            *((error.id, None, "unreadable", None, None, None, None, error.why) for error in unreadable),
        ],
        right=("workers",),
    )
    if len(statuses) > FIGURES_OF:
        out.note(f"Figures are shown for the newest {FIGURES_OF} runs; tpu-tui status RUN shows those of any run.")
    if operator.logs.dialect_problem:
        out.problem(operator.logs.dialect_problem)


def _row(status: RunStatus, operator: Operator, *, with_figures: bool) -> tuple[Any, ...]:
    from tui.reports.findings import marks_of_run, shown_figures

    figures = operator.runs.latest_figures(status) if with_figures else None
    news = (marks_of_run(status, figures), shown_figures(status, figures), status.short_cause)
    return (
        status.run.id,
        status.run.slice,
        status.state,
        len(status.run.workers),
        format_utc(status.started),
        format_utc(status.ended),
        describe_keeper(status),
        " · ".join(filter(None, news)) or None,
    )


async def _discover(slice_name: str | None, operator: Operator) -> list[TpuTuiError]:
    """Query the workers for runs of other machines; return the errors, none where no slices are configured."""
    configured = operator.settings.hosts or operator.settings.project
    try:
        return await operator.runs.discover([await operator.slices.get(slice_name)] if slice_name else None)
    except UsageError as error:
        if slice_name:
            raise
        return [error] if configured else []
    except TpuTuiError as error:
        from tui.operator import NoCredentialsError

        return [] if isinstance(error, NoCredentialsError) and not (slice_name or configured) else [error]
    except OSError as error:
        error.filename = error.filename or str(operator.settings.runs_home)
        return [explain_os_error(error, "runs of other machines cannot be recorded here")]


def describe_keeper(status: RunStatus) -> str:
    """Describe whether a live run has a keeper; empty for an ended run without one."""
    if status.state.is_over or status.attended.alive:
        return "yes" if status.attended.alive else ""
    since = status.attended.since
    how = "stuck" if status.attended.stuck else UNATTENDED
    return f"{how} since {format_moment(since)}" if since else how
