"""`check`: check that a slice is ready for a run; the worst findings come first."""

from __future__ import annotations

import argparse
import shutil
import sys
import textwrap
from collections.abc import Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING

from tui.commands.parser.argument_types import SLICE, string
from tui.commands.parser.commands import Commands
from tui.commands.terminal.output import ANSWER_IS_NO, Output
from tui.commands.terminal.waiting_notice import notice_of_missing_workers
from tui.errors import UsageError
from tui.pod.worker import MOST_PORT
from tui.text.numbers import parse_integer

if TYPE_CHECKING:
    from tui.operator import CheckFinding, CheckRow, Digest, Matrix, Operator
    from tui.pod.slice import Slice

_WORDS = {"fail": "FAIL", "unknown": "????", "warn": "warn", "pass": "pass"}
_INDENT = 6
"""Width of the first word with the blanks after it."""
_WIDEST_MATRIX = 200
MOST_PORTS = 64
"""Most ports of one check: each is probed between every two workers."""


def add_command(commands: Commands) -> None:
    """Add the command's parser."""
    check = commands.add("check", help="check that a slice is ready for a run")
    check.add_argument("slice", metavar="SLICE", help=SLICE)
    check.add_argument("--ports", type=string, metavar="LIST", help="more TCP ports to probe, e.g. 8470,8476-8479")
    check.add_argument(
        "--bucket",
        action="append",
        type=string,
        default=[],
        metavar="gs://BUCKET",
        help="also check that this bucket is in the slice's region; repeatable",
    )
    check.set_defaults(run=check_slice)


async def check_slice(args: argparse.Namespace, operator: Operator, out: Output) -> int:
    """Print the findings, or with --json a row per check; return 1 when one failed."""
    from tui.operator import digest

    ports = parse_ports(args.ports or "")
    slice_ = await operator.slices.get(args.slice)
    rows = await _check_slice(slice_, ports, operator, out)
    if args.bucket:
        rows += await operator.launches.check_buckets(slice_, [_address(text) for text in args.bucket])
    check_digest = digest(rows)
    if out.as_json:
        out.document({"slice": slice_.name, "ok": check_digest.ok, "checks": [row.to_json() for row in rows]})
    else:
        _print_digest(slice_.path, check_digest, out)
    return 0 if check_digest.ok else ANSWER_IS_NO


async def _check_slice(slice_: Slice, ports: Sequence[int], operator: Operator, out: Output) -> list[CheckRow]:
    """Return all rows; at a terminal, a notice names the workers that have not answered yet."""
    rows: list[CheckRow] = []
    answered: set[int | None] = set()

    def missing() -> list[int]:
        return [worker.index for worker in slice_.workers if worker.index not in answered]

    async with notice_of_missing_workers(missing, out):
        async for row in operator.slices.check(slice_, ports):
            rows.append(row)
            answered.add(row.worker)
    return rows


def parse_ports(text: str) -> tuple[int, ...]:
    """Parse `8470,8476-8479`. Raises UsageError, also for more than `MOST_PORTS` ports."""
    ports: list[int] = []
    for part in (part.strip() for part in text.split(",") if part.strip()):
        first, dash, last = part.partition("-")
        least = parse_integer(first, MOST_PORT)
        most = parse_integer(last, MOST_PORT) if dash else least
        if not least or not most or least > most:
            raise UsageError(f"{part!r} is not a TCP port", remedy="use e.g. --ports 8470,8476-8479")
        ports += range(least, most + 1)
    if len(ports) > MOST_PORTS:
        why = "each one is probed between all pairs of workers"
        raise UsageError(f"{len(ports)} ports are too many", why=why, remedy=f"give at most {MOST_PORTS}")
    return tuple(dict.fromkeys(ports))


def _address(bucket: str) -> str:
    """Return a bucket's URL, also for its bare name."""
    return bucket if bucket.startswith("gs://") else f"gs://{bucket}"


def _print_digest(name: str, digest: Digest, out: Output) -> None:
    columns = shutil.get_terminal_size((sys.maxsize, 0)).columns
    out.text(f"{name}: {digest.summary}")
    for finding, following in zip_longest(digest.findings, digest.findings[1:]):
        _print_finding(finding, columns, out, with_remedy=following is None or following.remedy != finding.remedy)
    for matrix in digest.matrices:
        _print_matrix(matrix, min(columns, _WIDEST_MATRIX), out)
    if digest.matrices:
        from tui.operator import LEGEND

        out.text(" " * _INDENT + LEGEND)


def _print_finding(finding: CheckFinding, columns: int, out: Output, *, with_remedy: bool) -> None:
    """Print a finding, wrapped to the screen; its remedy is never wrapped, because it may be a command to copy."""
    prefix = f"{finding.where}: " if finding.where and finding.detail else finding.where
    text = f"{finding.check:<12} {prefix}{finding.detail}"
    lines = textwrap.wrap(
        text, max(columns - _INDENT, 20), subsequent_indent=" " * 13, break_long_words=False, break_on_hyphens=False
    )
    for index, line in enumerate(lines):
        out.text(f"{_WORDS[finding.status] if not index else '':<{_INDENT}}{line}")
    if finding.remedy and with_remedy:
        out.text(f"{'':<{_INDENT}}→ {finding.remedy}")


def _print_matrix(matrix: Matrix, columns: int, out: Output) -> None:
    out.text()
    out.text(f"tcp:{matrix.port}")
    for line in matrix.lines(columns - 2):
        out.text(f"  {line}")
