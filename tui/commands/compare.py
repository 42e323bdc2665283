"""`compare`: show two or more runs or saved logs side by side."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from tui.commands.log_source import open_source, print_read_problem
from tui.commands.parser.argument_types import LOG, string
from tui.commands.parser.commands import Commands
from tui.commands.terminal.output import Output
from tui.errors import OutOfReachError, UsageError

if TYPE_CHECKING:
    from tui.operator import Operator


def add_command(commands: Commands) -> None:
    """Add the command's parser."""
    compare = commands.add("compare", help="compare runs or saved logs: loss, rate per core, efficiency")
    refs = f"the first one is the baseline; {LOG}"
    compare.add_argument("refs", metavar="RUN|FILE", nargs="+", type=string, help=refs)
    compare.add_argument("--offline", action="store_true", help="use only what is on this machine")
    compare.set_defaults(run=compare_runs, many="refs")


async def compare_runs(args: argparse.Namespace, operator: Operator, out: Output) -> int:
    """Print a column for each run; as JSON an object for each, in the given order."""
    from tui.reports.comparison import comparison_rows, comparison_texts

    if len(args.refs) < 2:
        raise UsageError("compare needs at least two runs or logs", remedy=f"tpu-tui compare {args.refs[0]} OTHER")
    opened = [await open_source(ref, operator, out, offline=args.offline) for ref in args.refs]
    compared = await operator.reports.compare([source for source, _ in opened])
    is_partial = [source_code or print_read_problem(source, out) for source, source_code in opened]
    code = OutOfReachError.exit_code if any(is_partial) else 0
    if out.as_json:
        out.document([run.to_json() for run in compared])
        return code
    numbers = [str(number) for number in range(1, len(compared) + 1)]
    names = ("run", *(run.summary.facts.title for run in compared))
    out.table(("figure", *numbers), [names, *comparison_rows(compared)], right=numbers)
    for name, *texts in comparison_texts(compared):
        out.text()
        out.facts((f"{name} {number}", text) for number, text in zip(numbers, texts, strict=True))
    return code
