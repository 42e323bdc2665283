"""`cores`, `logs`, `replay` and `dialect`: what a run's log, or any saved log, says.

Saved logs are files or `gs://bucket/object`.
"""

from __future__ import annotations

import argparse
import sys
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tui.commands.parser.argument_types import FILE, LOG, given, moment, whole
from tui.commands.terminal import stdio
from tui.commands.terminal.output import Output, in_json
from tui.errors import OutOfReachError, UsageError
from tui.pod.log_refs import names_a_file, path_of
from tui.text.printable import figure

if TYPE_CHECKING:
    from tui.logs.files.lines import LogLine
    from tui.logs.saved_log import SavedLog
    from tui.operator import Operator
    from tui.runs.record.run_directory import RunDirectory

SORT_KEYS = ("core", "worker", "epoch", "step", "loss", "rate", "lag")
CORE_COLUMNS = (
    *("core", "device", "worker", "address", "epoch", "step"),
    *("loss", "rate", "global rate", "clock", "lag", "state"),
)


def add_commands(commands: argparse._SubParsersAction[Any]) -> None:
    """Add this family's parsers."""
    cores = commands.add_parser("cores", help="loss, rate and lag of every core, sorted")
    add_ref(cores)
    cores.add_argument("--sort", choices=SORT_KEYS, default="core", help="by what, ascending (default: core)")
    cores.add_argument("--reverse", action="store_true", help="descending; nan and unknown stay last")
    cores.set_defaults(run=show_cores, run_on_file=show_cores_of_file)

    logs = commands.add_parser("logs", help="a log in order, byte for byte")
    add_ref(logs)
    logs.add_argument("--worker", type=whole, metavar="N", help="only this worker's, byte for byte")
    logs.add_argument("--core", type=whole, metavar="N", help="only lines about this core")
    logs.add_argument("--merged", action="store_true", help="all workers' in order of arrival (the default)")
    logs.add_argument("-f", "--follow", action="store_true", help="go on until the run ends")
    logs.add_argument("--tail", type=whole, metavar="N", help="only the last N lines")
    since = "only lines since then: 10m, 2h, or 2026-01-31T18:00:00Z; dates in a saved log count as UTC"
    logs.add_argument("--since", metavar="T", help=since)
    logs.set_defaults(run=show_logs, run_on_file=show_file)

    dialect = commands.add_parser(
        "dialect",
        help="which lines of a log each dialect understands",
        description="Counts the lines of a log that each dialect (form of logs) understands: your profile's own, "
        "with examples, and those built in.",
    )
    dialect.add_argument("action", metavar="test", choices=("test",))
    dialect.add_argument("ref", metavar="FILE", type=given, help=FILE)
    dialect.set_defaults(run=try_dialects)

    replay = commands.add_parser("replay", help="the console on a saved log")
    replay.add_argument("ref", metavar="FILE", type=given, help=FILE)
    replay.set_defaults(run_blocking=replay_log)


def add_ref(parser: argparse.ArgumentParser) -> None:
    """Add what every command that reads a run or a log takes."""
    parser.add_argument("ref", metavar="RUN|FILE", type=given, help=LOG)
    parser.add_argument("--offline", action="store_true", help="only what is on this machine")


async def opened(args: argparse.Namespace, operator: Operator, out: Output) -> tuple[RunDirectory | SavedLog, int]:
    """What the argument names, a run's mirror brought up to date; and the exit code that this alone gives."""
    from tui.runs.record.run_directory import RunDirectory

    source = await operator.runs.find_source(args.ref, offline=args.offline, note=out.note)
    if isinstance(source, RunDirectory):
        behind = None if args.offline else await operator.runs.refresh(source)
    else:
        behind = source.doubt
    if behind is None:
        return source, 0
    out.problem(behind)
    return source, OutOfReachError.exit_code


async def show_cores(args: argparse.Namespace, operator: Operator, out: Output) -> int:
    """Print a row for every core."""
    source, code = await opened(args, operator, out)
    rows = await operator.logs.core_rows(source, args.sort, reverse=args.reverse)
    _print_cores(rows, out)
    return told_to_its_end(source, out) or code


def told_to_its_end(source: RunDirectory | SavedLog, out: Output) -> int:
    """Tell why a saved log could not be read to its end; the exit code that this gives."""
    problem: UsageError | None = getattr(source, "problem", None)
    if problem is None:
        return 0
    out.problem(problem)
    return problem.exit_code


def show_cores_of_file(args: argparse.Namespace, flags: Mapping[str, Any], out: Output) -> int | None:
    """Print a row for every core of a saved log; None where the argument names no file."""
    opened = _open_file(args.ref, flags)
    if opened is None:
        return None
    log, cache = opened
    rows = log.core_rows(by=args.sort, reverse=args.reverse, cache=cache)
    _print_cores(rows, out)
    return told_to_its_end(log, out)


def _open_file(ref: str, flags: Mapping[str, Any]) -> tuple[SavedLog, Path] | None:
    """A saved log, `-` for what is piped in, and where to keep what it comes to; None where no file is named.

    It is read with the profile's dialects too.
    """
    if not names_a_file(ref):
        return None
    path = path_of(ref)
    from tui.logs.saved_log import open_log
    from tui.settings import load

    settings = load(flags)
    cache = settings.home / "cache"
    if not settings.dialects:
        return open_log(path), cache
    from tui.logs.dialects.registry import user_dialects

    return open_log(path, dialects=user_dialects(settings.dialects)), cache


def show_file(args: argparse.Namespace, flags: Mapping[str, Any], out: Output) -> int | None:
    """Print lines of a saved log, byte for byte; None where the argument names no file."""
    opened = _open_file(args.ref, flags)
    return None if opened is None else _show_saved(*opened, args, out)


def _show_saved(log: SavedLog, cache: Path | None, args: argparse.Namespace, out: Output) -> int:
    from tui.commands.logs_empty import in_saved_log
    from tui.commands.logs_export_times import numbered_lines, picked_lines
    from tui.logs.files.line_filter import Choice

    since = moment(args.since)
    if args.follow:
        raise UsageError("a saved log does not grow", remedy=f"tail -f {args.ref} follows a file")
    choice = Choice(args.worker, args.core, since)
    if out.as_json:
        found = _write_lines(numbered_lines(log, choice, args.tail, cache), out.line, out)
    elif choice.is_everything and args.tail is None:
        found = _copy(log.blocks(), out)
    else:
        found = _copy((line.data for line in picked_lines(log, choice, args.tail, cache)), out)
    if not found and args.tail != 0:
        out.note(in_saved_log(log, choice, cache))
    return 0


def _print_cores(rows: Sequence[Mapping[str, Any]], out: Output) -> None:
    if out.as_json:
        out.document(rows)
        return
    if not rows:
        out.note("No line of this log is about a core yet.")
        return
    names = [column.replace(" ", "_") for column in CORE_COLUMNS]
    cells = [[_shown_loss(row[name]) if name == "loss" else row[name] for name in names] for row in rows]
    rate = _rate_title(rows)
    titles = [rate if column == "rate" else column for column in CORE_COLUMNS]
    out.table(titles, cells, right=("core", "worker", "epoch", "step", "loss", rate, "global rate", "lag"))


def _rate_title(rows: Sequence[Mapping[str, Any]]) -> str:
    """The title of the column of rates, with the unit that all of them have."""
    units = {row["rate_unit"] for row in rows if row["rate"] is not None}
    unit = units.pop() if len(units) == 1 else None
    return f"rate {unit}" if unit else "rate"


def _shown_loss(loss: Any) -> Any:
    return figure(loss, 5) if isinstance(loss, float) else loss


async def show_logs(args: argparse.Namespace, operator: Operator, out: Output) -> int:
    """Print a log: one worker's bytes as they are, or lines with their worker."""
    from tui.runs.record.run_directory import RunDirectory

    since = moment(args.since)
    source, code = await opened(args, operator, out)
    if not isinstance(source, RunDirectory):
        return _show_saved(source, operator.settings.home / "cache", args, out) or code
    _require_worker(source, args.worker)
    if len(source.run.workers) == 1 and args.worker is None:
        args.worker = source.run.workers[0].index
    if args.follow:
        await _follow(operator, source, args, since, out)
        return code
    mirrored = None if args.merged or out.as_json or since is not None else _mirrored(source, args)
    if mirrored is not None:
        found = _copy(mirrored, out)
    else:
        found = _write_lines(_stored_lines(source, args, since), _line_writer(args, out), out)
    if not found and args.tail != 0:
        out.note(await _nothing_found(operator, source, args.core))
    return code


async def _nothing_found(operator: Operator, directory: RunDirectory, core: int | None) -> str:
    """Why no line of a run was printed."""
    from tui.commands.logs_empty import about_core

    rows = [] if core is None else await operator.logs.core_rows(directory, "core", reverse=False)
    yet = "" if operator.runs.status_of(directory).state.is_over else " yet"
    such = f"No line of {directory.id} is such a one{yet}."
    return such if core is None else about_core(directory.id, core, rows) or such


def _require_worker(directory: RunDirectory, worker: int | None) -> None:
    known = [each.index for each in directory.run.workers]
    if worker is not None and worker not in known:
        from tui.commands.logs_empty import workers_of

        raise UsageError(f"{directory.id} has no worker {worker}", remedy=workers_of(known))


def _mirrored(directory: RunDirectory, args: argparse.Namespace) -> Iterable[bytes] | None:
    """One worker's bytes, straight from its mirror; None where more than that is asked for."""
    from tui.logs.attribution.line_owner import Owners
    from tui.logs.files.line_filter import Choice, Picker, backwards, forwards, last_of, pick
    from tui.runs.record.run_directory import iterate_log

    if args.worker is None:
        return None
    path = directory.log_path(args.worker)
    if not path.exists():
        return None
    if args.core is None and args.tail is None:
        return iterate_log(path)
    picker = Picker(Owners({}), Choice(core=args.core))
    if args.tail is None:
        return (line.data for line in pick(forwards(iterate_log(path)), picker))
    with path.open("rb", buffering=0) as file:
        found = last_of(backwards(file.fileno(), path.stat().st_size), picker, args.tail)
    # An earlier attempt of a run that was restarted may hold the rest.
    return [line.data for line in found] if len(found) == args.tail else None


def _copy(blocks: Iterable[bytes], out: Output) -> bool:
    """Bytes as they are into a file or pipe; on a terminal with control characters made visible. Whether any came."""
    found = False
    for block in blocks:
        found = True
        if sys.stdout.isatty():
            out.text(block.decode("utf-8", "replace").removesuffix("\n"))
        else:
            stdio.write(block)
    return found


def _stored_lines(directory: RunDirectory, args: argparse.Namespace, since: float | None) -> Iterable[LogLine]:
    """A run's wanted lines that are here by now; no more is read than they take."""
    from tui.runs.read.line_reader import LineReader, last_lines, lines_since

    workers = None if args.worker is None else (args.worker,)
    if since is not None:
        lines = lines_since(directory, since, workers=workers, core=args.core)
        return lines if args.tail is None else deque(lines, maxlen=args.tail)
    if args.tail is not None:
        return last_lines(directory, args.tail, workers=workers, core=args.core)
    return LineReader(directory, workers=workers, core=args.core).poll(final=True)


def _line_writer(args: argparse.Namespace, out: Output) -> Callable[[Any], None]:
    numbered = args.worker is None
    to_terminal = sys.stdout.isatty()

    def write(line: LogLine) -> None:
        if out.as_json:
            out.line(line.to_json())
            return
        mark = f"[{line.worker}] " if numbered else ""
        if to_terminal:
            out.text(mark + line.text)
        else:
            stdio.write(mark.encode() + line.data + b"\n")

    return write


def _write_lines(lines: Iterable[Any], write: Callable[[Any], None], out: Output) -> bool:
    """Each line as it comes, or all as a JSON array; whether there were any."""
    found = False
    if not out.as_json:
        for line in lines:
            write(line)
            found = True
        return found
    before = "["
    for line in lines:
        stdio.write(f"{before}{in_json(line.to_json())}".encode())
        before = ",\n"
    stdio.write(b"]\n" if before != "[" else b"[]\n")
    return before != "["


async def _follow(
    operator: Operator,
    directory: RunDirectory,
    args: argparse.Namespace,
    since: float | None,
    out: Output,
) -> None:
    from tui.commands.attach_progress import Teller
    from tui.runs.record.run_directory import Attendance

    await operator.runs.ensure_keeper(directory)
    write, teller = _line_writer(args, out), Teller(directory.id, out, directory)
    workers = None if args.worker is None else (args.worker,)
    shown: AsyncIterator[Any] = operator.runs.watch_lines(directory, workers=workers, core=args.core)
    if args.tail is not None:
        for line in _stored_lines(directory, args, since):
            write(line)
        shown = operator.runs.watch_lines(directory, workers=workers, core=args.core, fresh_only=True)
    async for line in shown:
        if isinstance(line, Attendance):
            teller.tell(line)
        elif since is None or (line.time is not None and line.time >= since):
            write(line)
        if not args.everywhere.json:
            sys.stdout.flush()


async def try_dialects(args: argparse.Namespace, operator: Operator, out: Output) -> int:
    """Print how many lines each dialect matches, the profile's own first, with examples of those."""
    from tui.logs.dialects.registry import BUILT_IN, try_dialects

    own = operator.logs.dialects
    log = await operator.logs.open(args.ref, note=out.note)
    total, trials = try_dialects((line.data for line in log.lines()), (*own, *BUILT_IN))
    if out.as_json:
        out.document({"file": log.name, "lines": total, "dialects": [trial.to_json() for trial in trials]})
        return 0
    out.note(f"{total} line{'' if total == 1 else 's'}")
    told = [
        (trial.name, trial.matched) for trial in trials if trial.matched or trial.name in {one.name for one in own}
    ]
    if told:
        out.table(("dialect", "lines"), told, right=("lines",))
    else:
        out.note("No dialect understands any of them.")
    for trial in trials[: len(own)]:
        for text, columns in trial.examples:
            out.text(f"{trial.name}: {text}")
            out.text("    " + "  ".join(f"{name}={value}" for name, value in columns.items()))
    return 0


def replay_log(args: argparse.Namespace, flags: Mapping[str, Any], out: Output) -> int:
    """Open the console on a saved log."""
    import asyncio

    from tui.commands.console import open_console, require_terminal
    from tui.operator import Operator
    from tui.settings import load

    require_terminal()
    log = asyncio.run(Operator(load(flags)).logs.open(args.ref, note=out.note))
    if log.doubt is not None:
        out.problem(log.doubt)
    return open_console(flags, replay=log)
