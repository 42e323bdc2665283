"""What the console can do, as commands for a shell. Pure functions; nothing secret is in them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tui.console.widgets.tables.row_table import TableRow
from tui.console.widgets.tables.table_columns import Cell, Column
from tui.pod.creation.slice_request import SliceRequest
from tui.pod.job_options import JobOptions
from tui.pod.slice_commands import explain_impossible
from tui.settings.command_line import command_line, create_command, launch_command

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from tui.pod.run import Run
    from tui.pod.slice import Slice
    from tui.settings import Settings

COLUMNS = (Column("action", "action", 12), Column("command", "command", 20, flexible=1))


def list_commands(
    settings: Settings, slice_: Slice | None, run: Run | None, worker: int | None, code: Path | None = None
) -> Iterator[tuple[str, str]]:
    """Yield (action, command) for a slice, and for a run with the worker whose log is shown.

    `code` is the directory that was copied for the run, if it is known.
    """
    if run is not None:
        of_worker = () if worker is None else ("--worker", str(worker))
        yield "open", command_line(settings, "open", run.id)
        yield "read status", command_line(settings, "status", run.id)
        yield "follow logs", command_line(settings, "logs", run.id, "--follow", *of_worker)
        yield "report", command_line(settings, "report", run.id, "--format", "html")
        if not settings.read_only:
            yield "stop", command_line(settings, "stop", run.id)
            sync = code or ("DIR" if run.code_hash else None)
            yield "launch again", launch_command(settings, run.slice_path, run.job, run.name, sync)
    if slice_ is not None:
        yield "check", command_line(settings, "check", slice_.path)
        if not settings.read_only:
            yield "launch", launch_command(settings, slice_.path, JobOptions(runtime=settings.runtime))
            yield "exec", command_line(settings, "exec", slice_.path, "--", "COMMAND")
            for action in ("start", "stop", "delete"):
                if not explain_impossible(slice_, action):
                    name = action if action == "delete" else f"{action} slice"
                    yield name, command_line(settings, "slices", action, slice_.path)
    if not (settings.read_only or settings.hosts):
        zone = (slice_.zone if slice_ else None) or next(iter(settings.zones), "ZONE")
        kind = slice_.accelerator_type if slice_ else None
        version = slice_.runtime_version if slice_ else None
        request = SliceRequest("NAME", zone, accelerator_type=kind or "TYPE", runtime_version=version or "RUNTIME")
        yield "create slice", create_command(settings, request)
    yield "list slices", command_line(settings, "slices")
    yield "list runs", command_line(settings, "runs")


def make_command_rows(commands: Iterable[tuple[str, str]]) -> list[TableRow]:
    """Return a row for each command; its key is the command."""
    return [TableRow(command, (Cell(action, "dim"), Cell(command))) for action, command in commands]
