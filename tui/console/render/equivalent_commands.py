"""What the console can do, as commands for a shell. Pure functions; nothing secret is in them."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

from tui.console.widgets.tables.row_table import TableRow
from tui.console.widgets.tables.table_columns import Cell, Column
from tui.pod.creation.gcloud_commands import list_create_options
from tui.pod.creation.slice_request import SliceRequest
from tui.pod.job_options import ASKED_OPTIONS, OPTIONS, JobOptions, OptionKind
from tui.pod.secrets import is_secret
from tui.pod.slice_commands import explain_impossible
from tui.settings.fields import EVERY_ZONE, FIELDS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tui.pod.run import Run
    from tui.pod.slice import Slice
    from tui.settings import Settings

COLUMNS = (Column("action", "action", 12), Column("command", "command", 20, flexible=1))
_FLAGS = {"profile": "profile"} | {field.name: field.flag for field in FIELDS if field.flag}


def command_line(settings: Settings, *words: str) -> str:
    """Return a tpu-tui command, with the global options that this console was started with."""
    return shlex.join(["tpu-tui", *_global_options(settings), *words])


def _global_options(settings: Settings) -> Iterator[str]:
    for name, flag in _FLAGS.items():
        setting = settings.origins.get(name)
        if setting is None or setting.origin != "flag":
            continue
        if setting.value is True:
            yield _flag(flag)
            continue
        values = (setting.value or (EVERY_ZONE,)) if name == "zones" else setting.value
        for value in values if isinstance(values, (list, tuple)) else (values,):
            yield from _with_value(flag, str(value))


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _with_value(name: str, value: str) -> tuple[str, ...]:
    """Return an option and its value, in one word where the value would be read as an option itself."""
    if value.startswith("-") and value != "-":
        return (f"{_flag(name)}={value}",)
    return (_flag(name), value)


def launch_command(
    settings: Settings,
    where: str,
    job: JobOptions,
    name: str | None = None,
    sync: object = None,
    *,
    skips_checks: bool = False,
) -> str:
    """Return the command that launches a job; variables with secret values are taken from the shell."""
    words = ["launch", where]
    words += _with_value("name", name) if name else ()
    words += _with_value("sync", str(sync)) if sync else ()
    for option in ASKED_OPTIONS:
        value = getattr(job, option)
        if value != (settings.runtime if option == "runtime" else getattr(JobOptions(), option)):
            for text in _texts(option, value, job):
                words += _with_value(option, text)
    words += ["--skip-checks"] if skips_checks else []
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
        yield str(value).removesuffix(".0")


def create_command(settings: Settings, request: SliceRequest) -> str:
    """Return the command that creates what a request names."""
    words = ["slices", "create", f"{request.zone}/{request.name}"]
    for name, value in list_create_options(request):
        words += (_flag(name),) if value is None else _with_value(name, value)
    return command_line(settings, *words)


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
            where = f"{run.zone}/{run.slice}" if run.zone else run.slice
            sync = code or ("DIR" if run.code_hash else None)
            yield "launch again", launch_command(settings, where, run.job, run.name, sync)
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


def make_command_rows(commands: Iterator[tuple[str, str]]) -> list[TableRow]:
    """Return a row for each command; its key is the command."""
    return [TableRow(command, (Cell(action, "dim"), Cell(command))) for action, command in commands]
