"""Open the run or the saved log that a command reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tui.commands.parser.argument_types import LOG, string
from tui.commands.parser.commands import Parser
from tui.commands.terminal.output import Output
from tui.errors import OutOfReachError, UsageError
from tui.pod.log_refs import names_a_file, path_of
from tui.text.ranks import name_ranks

if TYPE_CHECKING:
    from tui.logs.dialects.dialect import Dialect
    from tui.logs.saved_log import SavedLog
    from tui.operator import Operator, RunDirectory


def add_ref(parser: Parser) -> None:
    """Add the arguments of every command that reads a run or a log."""
    parser.add_argument("ref", metavar="RUN|FILE", type=string, help=LOG)
    parser.add_argument("--offline", action="store_true", help="use only what is on this machine")


def note_foreign(source: RunDirectory | SavedLog, out: Output) -> None:
    """Say why a run is only read, if it is."""
    foreign = getattr(source, "foreign", None)
    if foreign is not None:
        out.note(foreign.sentence)


async def open_source(
    ref: str, operator: Operator, out: Output, *, offline: bool
) -> tuple[RunDirectory | SavedLog, int]:
    """Return the run (its mirror brought up to date) or log that `ref` names, and the exit code so far."""
    from tui.operator import RunDirectory

    source = await operator.runs.find_source(ref, offline=offline, note=out.note)
    note_foreign(source, out)
    if isinstance(source, RunDirectory):
        problem = None if offline else await operator.runs.refresh(source)
    else:
        problem = source.staleness_error
    if problem is None:
        return source, 0
    out.problem(problem)
    return source, OutOfReachError.exit_code


def worker_of(source: RunDirectory | SavedLog, worker: int | str | None, cache: Path | None) -> int | None:
    """Return a worker's number, also for its address or host name.

    Raises UsageError for an unknown address, and for a number that no worker of a run has.
    """
    if worker is None:
        return None
    from tui.logs.saved_log import SavedLog

    if isinstance(worker, int):
        if not isinstance(source, SavedLog):
            _require_worker(source, worker)
        return worker
    if isinstance(source, SavedLog):
        name, number = source.name, source.worker_at(worker, cache)
    else:
        name = source.id
        names = ((vm.index, (vm.internal_ip, vm.external_ip, vm.hostname)) for vm in source.run.workers)
        number = next((index for index, addresses in names if worker in addresses), None)
    if number is None:
        remedy = f"tpu-tui cores {name} shows workers and addresses"
        raise UsageError(f"{name} has no worker at {worker}", remedy=remedy)
    return number


def _require_worker(directory: RunDirectory, worker: int) -> None:
    indices = [vm.index for vm in directory.run.workers]
    if worker not in indices:
        raise UsageError(f"{directory.id} has no worker {worker}", remedy=what_it_has("worker", indices))


def what_it_has(noun: str, known: Sequence[int]) -> str:
    """Return which workers or cores a log has: `it has workers 0-3`."""
    return f"it has {name_ranks(noun, known)}" if known else f"no line names a {noun}"


def print_read_problem(source: RunDirectory | SavedLog, out: Output) -> int:
    """Print why a saved log could not be read to its end, if so; return the resulting exit code."""
    problem: UsageError | None = getattr(source, "problem", None)
    if problem is None:
        return 0
    out.problem(problem)
    return problem.exit_code


def open_file(ref: str, flags: Mapping[str, Any]) -> tuple[SavedLog, Path] | None:
    """Open a saved log (`-`: stdin) with the profile's dialects; return it and the cache directory.

    Returns None where `ref` is not a file.
    """
    if not names_a_file(ref):
        return None
    path = path_of(ref)
    from tui.logs.saved_log import open_log
    from tui.settings import load

    settings = load(flags)
    dialects: tuple[Dialect, ...] = ()
    if settings.dialects:
        from tui.logs.dialects.user_dialects import user_dialects

        dialects = user_dialects(settings.dialects)
    return open_log(path, dialects=dialects, thresholds=settings.thresholds), settings.home / "cache"
