"""`logs`: print the log of a run, or a saved one, in order and byte for byte."""

from __future__ import annotations

import argparse
import math
import sys
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from io import FileIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tui.commands.log_source import add_ref, open_file, open_source, what_it_has, worker_of
from tui.commands.parser.argument_types import integer, moment, worker_or_address
from tui.commands.parser.commands import Commands
from tui.commands.terminal import stdio
from tui.commands.terminal.output import Output, to_json_text
from tui.errors import UsageError
from tui.settings.home import open_regular

if TYPE_CHECKING:
    from tui.logs.files.line_filter import Choice
    from tui.logs.files.lines import LogLine
    from tui.logs.saved_log import SavedLog
    from tui.operator import Operator, RunDirectory


def add_command(commands: Commands) -> None:
    """Add the command's parser."""
    logs = commands.add("logs", help="print a log in order, byte for byte")
    add_ref(logs)
    logs.add_argument(
        "--worker", type=worker_or_address, metavar="N|ADDRESS", help="only this worker's log, byte for byte"
    )
    logs.add_argument("--core", type=integer, metavar="N", help="only lines about this core")
    logs.add_argument("--merged", action="store_true", help="all workers' lines in order of arrival (the default)")
    logs.add_argument("-f", "--follow", action="store_true", help="continue until the run ends")
    logs.add_argument("--tail", type=integer, metavar="N", help="only the last N lines")
    since = "only lines since this time, e.g. 10m, 2h or 2026-01-31T18:00:00Z; dates in a saved log count as UTC"
    logs.add_argument("--since", metavar="T", help=since)
    logs.set_defaults(run=show_logs, run_on_file=show_file)


def show_file(args: argparse.Namespace, flags: Mapping[str, Any], out: Output) -> int | None:
    """Print lines of a saved log, byte for byte; None where the argument is not a file."""
    open_source = open_file(args.ref, flags)
    return None if open_source is None else _show_saved(*open_source, args, out)


def _show_saved(log: SavedLog, cache: Path | None, args: argparse.Namespace, out: Output) -> int:
    from tui.logs.files.line_filter import Choice

    since = moment(args.since)
    args.worker = worker_of(log, args.worker, cache)
    if args.follow:
        raise UsageError("a saved log cannot be followed", remedy=f"use tail -f {args.ref} for a file that grows")
    choice = Choice(args.worker, args.core, since)
    if out.as_json:
        has_output = _write_array(
            log.lines(worker=args.worker, core=args.core, since=since, tail=args.tail, cache=cache)
        )
    elif choice.is_everything and args.tail is None:
        has_output = _copy(log.blocks(), out)
    else:
        has_output = _copy((line.data for line in log.picked(choice, tail=args.tail, cache=cache)), out)
    if not has_output and args.tail != 0:
        out.note(_nothing_in_saved_log(log, choice, cache))
    return 0


def _nothing_in_saved_log(log: SavedLog, choice: Choice, cache: Path | None) -> str:
    """Say why no line of a saved log was printed."""
    from tui.logs.files.line_filter import Choice

    if choice.worker is not None and choice.worker not in (workers := log.workers(cache)):
        return f"No lines of worker {choice.worker} in {log.name} ({what_it_has('worker', workers)})."
    if choice.core is not None and (sentence := _no_such_core(log.name, choice.core, log.core_rows(cache=cache))):
        return sentence
    if choice.since is not None and not any(log.picked(Choice(since=-math.inf), cache=cache)):
        return f"No line of {log.name} has a date, so --since matches none."
    return f"No matching lines in {log.name}."


def _no_such_core(name: str, core: int, rows: Iterable[Mapping[str, Any]]) -> str:
    """Say that a log has no lines about this core; empty where it has some."""
    cores = [row["core"] for row in rows if row["core"] is not None]
    return "" if core in cores else f"No lines about core {core} in {name} ({what_it_has('core', cores)})."


async def show_logs(args: argparse.Namespace, operator: Operator, out: Output) -> int:
    """Print a log: one worker's bytes unchanged, or lines with their worker's number."""
    from tui.operator import RunDirectory

    since = moment(args.since)
    source, code = await open_source(args.ref, operator, out, offline=args.offline)
    if not isinstance(source, RunDirectory):
        return _show_saved(source, operator.settings.home / "cache", args, out) or code
    args.worker = worker_of(source, args.worker, None)
    if len(source.run.workers) == 1 and args.worker is None:
        args.worker = source.run.workers[0].index
    if args.follow:
        await _follow(operator, source, args, since, out)
        return code
    mirrored = None if args.merged or out.as_json or since is not None else _read_mirror(source, args)
    if mirrored is not None:
        has_output = _copy(mirrored, out)
    elif out.as_json:
        has_output = _write_array(_stored_lines(source, args, since))
    else:
        has_output = _write_each(_stored_lines(source, args, since), _line_writer(args, out))
    if not has_output and args.tail != 0:
        out.note(await _nothing_found(operator, source, args.core))
    return code


async def _nothing_found(operator: Operator, directory: RunDirectory, core: int | None) -> str:
    """Say why no line of a run was printed."""
    if core is not None and (sentence := _no_such_core(directory.id, core, await operator.logs.core_rows(directory))):
        return sentence
    yet = "" if operator.runs.status_of(directory).state.is_over else " yet"
    return f"No matching lines in {directory.id}{yet}."


def _read_mirror(directory: RunDirectory, args: argparse.Namespace) -> Iterable[bytes] | None:
    """Return one worker's bytes straight from its mirror; None where more than that is needed."""
    from tui.logs.attribution.line_owner import LineOwner
    from tui.logs.files.line_filter import Choice, Picker, forwards, last_in_file, pick
    from tui.operator import iterate_log

    if args.worker is None:
        return None
    path = directory.log_path(args.worker)
    if not path.exists():
        return None
    if args.core is None and args.tail is None:
        return iterate_log(path)
    picker = Picker(LineOwner({}), Choice(core=args.core))
    if args.tail is None:
        return (line.data for line in pick(forwards(iterate_log(path)), picker))
    file = FileIO(open_regular(path))
    found, lines = last_in_file(file, picker, args.tail)
    # The rest may be in an earlier attempt of a restarted run.
    return (line.data for line in lines) if found == args.tail else None


def _copy(blocks: Iterable[bytes], out: Output) -> bool:
    """Write bytes, on a terminal with control characters made visible; return whether there were any."""
    if sys.stdout.isatty():
        return out.remote_text(blocks)
    has_output = False
    for block in blocks:
        has_output = True
        stdio.write(block)
    return has_output


def _stored_lines(directory: RunDirectory, args: argparse.Namespace, since: float | None) -> Iterable[LogLine]:
    """Return the wanted lines of a run's mirror, reading no more than they need."""
    from tui.operator import LineReader, lines_since

    workers = None if args.worker is None else (args.worker,)
    if since is not None:
        lines = lines_since(directory, since, workers=workers, core=args.core)
        return lines if args.tail is None else deque(lines, maxlen=args.tail)
    return LineReader(directory, workers=workers, core=args.core, tail=args.tail).poll(final=True)


def _line_writer(args: argparse.Namespace, out: Output) -> Callable[[LogLine], None]:
    """Return the function that writes one line, as JSON or with its worker's number where several are wanted."""
    if out.as_json:
        return lambda line: out.line(line.to_json())
    numbered = args.worker is None
    to_terminal = sys.stdout.isatty()

    def write(line: LogLine) -> None:
        mark = f"[{line.worker}] " if numbered else ""
        if to_terminal:
            out.text(mark + line.text)
        else:
            stdio.write(mark.encode() + line.data + b"\n")

    return write


def _write_each(lines: Iterable[LogLine], write: Callable[[LogLine], None]) -> bool:
    """Write lines one by one; return whether there were any."""
    has_output = False
    for line in lines:
        write(line)
        has_output = True
    return has_output


def _write_array(lines: Iterable[Any]) -> bool:
    """Write lines as a JSON array; return whether there were any."""
    before = "["
    for line in lines:
        stdio.write(f"{before}{to_json_text(line.to_json())}".encode())
        before = ",\n"
    stdio.write(b"]\n" if before != "[" else b"[]\n")
    return before != "["


async def _follow(
    operator: Operator, directory: RunDirectory, args: argparse.Namespace, since: float | None, out: Output
) -> None:
    from tui.commands.attach import EventPrinter
    from tui.operator import KeeperStatus

    await operator.runs.ensure_keeper(directory)
    write, printer = _line_writer(args, out), EventPrinter(directory, out)
    workers = None if args.worker is None else (args.worker,)
    watcher = operator.runs.watch(directory)
    async for item in watcher.lines(workers=workers, core=args.core, tail=args.tail):
        if isinstance(item, KeeperStatus):
            printer.print(item)
        elif since is None or (item.time is not None and item.time >= since):
            write(item)
        if not out.as_json:
            sys.stdout.flush()
