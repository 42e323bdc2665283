"""The tpu-tui commands that do in a shell what a form or another command does. They contain no secret."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import Any

from tui.pod.creation.gcloud_commands import list_create_options
from tui.pod.creation.slice_request import SliceRequest
from tui.pod.job_options import LAUNCH_OPTIONS, OPTIONS, JobOptions, OptionKind
from tui.pod.secrets import is_secret
from tui.settings.fields import EVERY_ZONE, FIELDS, Settings

_FLAGS = {"profile": "profile"} | {field.name: field.flag for field in FIELDS if field.flag}


def command_line(settings: Settings, *words: str) -> str:
    """Return a tpu-tui command with the global options that this process was started with."""
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
    """Return an option and its value; joined by `=` if the value begins with a dash, as an option does."""
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
    """Return the command that launches a job; it names secret variables, whose values the shell provides."""
    arguments = ["launch", where]
    arguments += _with_value("name", name) if name else ()
    arguments += _with_value("sync", str(sync)) if sync else ()
    for option in LAUNCH_OPTIONS:
        value = getattr(job, option)
        if value != (settings.runtime if option == "runtime" else getattr(JobOptions(), option)):
            for text in _texts(option, value, job):
                arguments += _with_value(option, text)
    arguments += ["--skip-checks"] if skips_checks else []
    return command_line(settings, *arguments, "--", *(job.argv or ("COMMAND",)))


def create_command(settings: Settings, request: SliceRequest) -> str:
    """Return the command that creates the slice of a request."""
    arguments = ["slices", "create", f"{request.zone}/{request.name}"]
    for name, value in list_create_options(request):
        arguments += (_flag(name),) if value is None else _with_value(name, value)
    return command_line(settings, *arguments)


def _texts(option: str, value: Any, job: JobOptions) -> Iterator[str]:
    """Yield the option's values, one for each time that it is given."""
    kind = OPTIONS[option].kind
    if kind is OptionKind.VARIABLES:
        for name, text in value.items():
            yield name if is_secret(name) or name in job.env_by_name else f"{name}={text}"
    elif kind is OptionKind.WORDS:
        yield from value
    elif kind is OptionKind.SECONDS:
        yield str(value).removesuffix(".0")
    else:
        yield str(value)
