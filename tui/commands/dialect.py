"""`dialect test`: count the lines of a log that each dialect understands."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from tui.commands.parser.argument_types import FILE, string
from tui.commands.parser.commands import Commands
from tui.commands.terminal.output import Output
from tui.text.printable import format_count

if TYPE_CHECKING:
    from tui.operator import Operator


def add_command(commands: Commands) -> None:
    """Add the command's parser."""
    dialect = commands.add("dialect", help="test which lines of a log each dialect (log format) understands")
    test = commands.actions_of(dialect).add(
        "test",
        help="count the lines of a log that each dialect understands",
        description="Count the lines of a log that each dialect (log format) understands: those of your profile, "
        "with examples, and the built-in ones.",
    )
    test.add_argument("ref", metavar="FILE", type=string, help=FILE)
    test.set_defaults(run=try_dialects)


async def try_dialects(args: argparse.Namespace, operator: Operator, out: Output) -> int:
    """Print how many lines each dialect matches, the profile's own first and with examples."""
    from tui.logs.dialects.dialect import slow_dialect_error
    from tui.logs.dialects.registry import BUILT_IN, try_dialects

    own = operator.logs.dialects
    log = await operator.logs.open(args.ref, note=out.note)
    total, trials = try_dialects((line.data for line in log.lines()), (*own, *BUILT_IN))
    if error := slow_dialect_error(own):
        raise error
    if out.as_json:
        out.document({"file": log.name, "lines": total, "dialects": [trial.to_json() for trial in trials]})
        return 0
    out.note(f"{format_count(total, 'line')}")
    rows = [
        (trial.name, trial.matched)
        for trial in trials
        if trial.matched or trial.name in {dialect.name for dialect in own}
    ]
    if rows:
        out.table(("dialect", "lines"), rows, right=("lines",))
    else:
        out.note("No dialect understands any of these lines.")
    for trial in trials[: len(own)]:
        for text, columns in trial.examples:
            out.text(f"{trial.name}: {text}")
            out.text("    " + "  ".join(f"{name}={value}" for name, value in columns.items()))
    return 0
