"""`cores`: print loss, rate and lag of every core, sorted."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tui.commands.log_source import add_ref, open_file, open_source, print_read_problem, worker_of
from tui.commands.parser.argument_types import worker_or_address
from tui.commands.parser.commands import Commands
from tui.commands.terminal.output import Output
from tui.text.numbers import format_figure
from tui.text.ranks import name_ranks

if TYPE_CHECKING:
    from tui.operator import Operator

SORT_KEYS = ("core", "worker", "epoch", "step", "loss", "rate", "lag")
"""Those of `tui.logs.snapshot`, which the parser does not load: it needs NumPy."""
_COLUMNS = (
    *("core", "device", "worker", "address", "epoch", "step"),
    *("loss", "rate", "global_rate", "clock", "lag", "state"),
)


def add_command(commands: Commands) -> None:
    """Add the command's parser."""
    cores = commands.add("cores", help="show loss, rate and lag of every core, sorted")
    add_ref(cores)
    cores.add_argument("--sort", choices=SORT_KEYS, default="core", help="sort column, ascending (default: core)")
    cores.add_argument("--reverse", action="store_true", help="sort descending; NaN and unknown stay last")
    cores.add_argument("--worker", type=worker_or_address, metavar="N|ADDRESS", help="only the cores of this worker")
    cores.set_defaults(run=show_cores, run_on_file=show_cores_of_file)


async def show_cores(args: argparse.Namespace, operator: Operator, out: Output) -> int:
    """Print a row for every core."""
    from tui.operator import RunDirectory

    source, code = await open_source(args.ref, operator, out, offline=args.offline)
    worker = worker_of(source, args.worker, operator.settings.home / "cache")
    rows = await operator.logs.core_rows(source, args.sort, reverse=args.reverse)
    status = operator.runs.status_of(source) if isinstance(source, RunDirectory) else None
    _print_cores(rows, worker, out, None if status is None else status.first_failure)
    return print_read_problem(source, out) or code


def show_cores_of_file(args: argparse.Namespace, flags: Mapping[str, Any], out: Output) -> int | None:
    """Print a row for every core of a saved log; None where the argument is not a file."""
    open_source = open_file(args.ref, flags)
    if open_source is None:
        return None
    log, cache = open_source
    worker = worker_of(log, args.worker, cache)
    _print_cores(log.core_rows(by=args.sort, reverse=args.reverse, cache=cache), worker, out)
    return print_read_problem(log, out)


def _print_cores(
    every_row: Sequence[Mapping[str, Any]], worker: int | None, out: Output, first_failure: int | None = None
) -> None:
    """Print the rows of one worker, or all."""
    rows = [row for row in every_row if worker in (None, row["worker"])]
    if out.as_json:
        out.document(rows)
        return
    if not rows and every_row:
        known = {row["worker"] for row in every_row} - {None}
        others = f"there are some of {name_ranks('worker', known)}" if known else "no line names a worker"
        out.note(f"No training lines of worker {worker}: {others}.")
        return
    if not rows:
        out.note("No training lines found in this log.")
        return
    cells = [[_cell(row, name, first_failure) for name in _COLUMNS] for row in rows]
    rate = _rate_title(rows)
    titles = [rate if name == "rate" else name.replace("_", " ") for name in _COLUMNS]
    out.table(titles, cells, right=("core", "worker", "epoch", "step", "loss", rate, "global rate", "lag"))


def _rate_title(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return the title of the rate column, with the unit if all rates share one."""
    units = {row["rate_unit"] for row in rows if row["rate"] is not None}
    unit = units.pop() if len(units) == 1 else None
    return f"rate {unit}" if unit else "rate"


def _cell(row: Mapping[str, Any], name: str, first_failure: int | None) -> Any:
    """Return a cell of the table: the loss with its usual digits, the state in words."""
    value = row[name]
    if name == "loss" and isinstance(value, float):
        return format_figure(value, 5)
    if name == "state" and first_failure is not None:
        from tui.operator import core_state_in_words

        return core_state_in_words(value, row["worker"], first_failure)
    return value
