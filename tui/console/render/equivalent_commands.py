"""What the console can do, as commands for a shell. Pure functions; nothing secret is in them."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

from tui.console.widgets.tables.row_table import TableRow
from tui.console.widgets.tables.table_columns import Cell, Column
from tui.pod.job_options import ASKED_OPTIONS, OPTIONS, JobOptions, OptionKind
from tui.pod.secrets import is_secret
from tui.settings.fields import FIELDS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tui.pod.run import Run
    from tui.pod.slice import Slice
    from tui.settings import Settings

COLUMNS = (Column("what", "to", 12), Column("command", "type", 20, flexible=1))
_FLAGS = {"profile": "profile"} | {field.name: field.flag for field in FIELDS if field.flag}


def command_line(settings: Settings, *words: str) -> str:
    """Return a tpu-tui command, with the global options that this console was started with."""
    return shlex.join(["tpu-tui", *_global_options(settings), *words])


def _global_options(settings: Settings) -> Iterator[str]:
    for name, flag in _FLAGS.items():
        setting = settings.origins.get(name)
        if setting is None or setting.origin != "flag" or not setting.value:
            continue
        option = f"--{flag.replace('_', '-')}"
        if setting.value is True:
            yield option
            continue
        for value in setting.value if isinstance(setting.value, (list, tuple)) else (setting.value,):
            yield from (option, str(value))


def launch_command(
    settings: Settings, where: str, job: JobOptions, name: str | None = None, sync: object = None
) -> str:
    """Return the command that launches a job; variables with secret values are taken from the shell."""
    words = ["launch", where]
    words += ["--name", name] if name else []
    words += ["--sync", str(sync)] if sync else []
    for option in ASKED_OPTIONS:
        value = getattr(job, option)
        if value != (settings.runtime if option == "runtime" else getattr(JobOptions(), option)):
            for text in _texts(option, value, job):
                words += [f"--{option.replace('_', '-')}", text]
    return command_line(settings, *words, "--", *(job.argv or ("COMMAND",)))


def _texts(option: str, value: Any, job: JobOptions) -> Iterator[str]:
    """Yield the option's values, one for each time that it is given."""
    kind = OPTIONS[option].kind
    if kind is OptionKind.VARIABLES:
        for name, text in value.items():
            yield name if is_secret(name) or name in job.env_by_name else f"{name}={text}"
    elif kind is OptionKind.WORDS:
        yield from value
    else:
        yield f"{value:g}" if isinstance(value, float) else str(value)


def list_commands(
    settings: Settings, slice_: Slice | None, run: Run | None, worker: int | None
) -> Iterator[tuple[str, str]]:
    """Yield (purpose, command) for a slice, and for a run with the worker whose log is shown."""
    if run is not None:
        of_worker = () if worker is None else ("--worker", str(worker))
        yield "open", command_line(settings, "open", run.id)
        yield "read status", command_line(settings, "status", run.id)
        yield "follow logs", command_line(settings, "logs", run.id, "--follow", *of_worker)
        yield "report", command_line(settings, "report", run.id, "--format", "html")
        if not settings.read_only:
            yield "stop", command_line(settings, "stop", run.id)
            where = f"{run.zone}/{run.slice}" if run.zone else run.slice
            yield "launch again", launch_command(settings, where, run.job, run.name)
    if slice_ is not None:
        yield "check", command_line(settings, "check", slice_.path)
        if not settings.read_only:
            yield "launch", launch_command(settings, slice_.path, JobOptions(runtime=settings.runtime))
            yield "exec", command_line(settings, "exec", slice_.path, "--", "COMMAND")
            yield "delete", command_line(settings, "slices", "delete", slice_.path)
    yield "list slices", command_line(settings, "slices")
    yield "list runs", command_line(settings, "runs")


def make_command_rows(commands: Iterator[tuple[str, str]]) -> list[TableRow]:
    """Return a row for each command; its key is the command."""
    return [TableRow(command, (Cell(what, "dim"), Cell(command))) for what, command in commands]
