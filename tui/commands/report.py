"""`report`: write a report of a run or of a saved log."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from tui.commands.log_source import add_ref, open_source, print_read_problem
from tui.commands.parser.argument_types import directory, string
from tui.commands.parser.commands import Commands
from tui.commands.terminal.output import Output
from tui.commands.terminal.refusals import read_only_error
from tui.errors import TpuTuiError

if TYPE_CHECKING:
    from tui.operator import Operator

REPORT_FORMATS = ("html", "md", "json", "csv", "txt")
"""Those of `tui.reports.write`, which the parser does not load: it takes long."""


def add_command(commands: Commands) -> None:
    """Add the command's parser."""
    report = commands.add("report", help="write a report of a run or a log")
    add_ref(report)
    report.add_argument(
        "--format",
        action="append",
        choices=REPORT_FORMATS,
        help="format of the report; repeatable (default: md); csv writes cores and curves",
    )
    report.add_argument(
        "--out", type=directory, metavar="DIR", help="where to write (default: the run's directory; for a log, here)"
    )
    report.add_argument("--logs", action="store_true", help="also write each worker's log, byte for byte")
    report.add_argument("--force", action="store_true", help="also replace reports of other runs and logs")
    report.add_argument("--upload", type=string, metavar="gs://…", help="also copy the files to this folder")
    report.set_defaults(run=write_report)


async def write_report(args: argparse.Namespace, operator: Operator, out: Output) -> int:
    """Write the report in each format and print the names of its files."""
    if args.upload:
        if operator.settings.read_only:
            raise read_only_error("report --upload", operator.settings)
        operator.reports.check_destination(args.upload)
    source, code = await open_source(args.ref, operator, out, offline=args.offline)
    formats = list(dict.fromkeys(args.format or ["md"]))
    written = await operator.reports.write(source, formats, args.out, logs=args.logs, force=args.force)
    files = [str(path) for path in written]
    if args.upload:
        try:
            files += await operator.reports.upload(source, written, args.upload, force=args.force)
        except TpuTuiError:
            out.note(f"Written here: {', '.join(files)}")
            raise
    if out.as_json:
        out.document({"files": files})
    else:
        for name in files:
            out.text(name)
    return print_read_problem(source, out) or code
