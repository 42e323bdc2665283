"""The content of the launch form: initial values, and parsing of its fields. Pure functions."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from tui.errors import UsageError
from tui.pod.job_options import DEFAULTS, OPTIONS, JobOptions, OptionKind
from tui.pod.slice import Slice
from tui.text.numbers import parse_number

if TYPE_CHECKING:
    from pathlib import Path

    from tui.pod.run import Run


@dataclass(frozen=True)
class LaunchForm:
    """The initial content of the launch dialog."""

    slices: tuple[Slice, ...]
    chosen: str = ""
    """A slice's path."""
    job: JobOptions = field(default_factory=JobOptions)
    name: str = ""
    sync: str = ""
    earlier: tuple[str, ...] = ()
    """Commands that were launched before, newest first."""
    had_code: bool = False
    """Whether code was copied for the run that this repeats: without it the command does not find its files."""
    scale_from: str = ""
    """An accelerator type: where this was trained before."""

    @classmethod
    def from_run(cls, run: Run, slices: tuple[Slice, ...], code: Path | None = None) -> LaunchForm:
        """Return the form that repeats a run; `code` is the directory whose code it got."""
        return cls(
            slices,
            run.slice_path,
            run.job,
            run.name or "",
            sync=str(code or ""),
            had_code=run.code_hash is not None,
            scale_from=run.accelerator_type or "",
        )


def option_text(name: str, job: JobOptions) -> str:
    """Return an option of the job as the form's field shows it; empty where it has its default."""
    value, kind = getattr(job, name), OPTIONS[name].kind
    if kind is OptionKind.WORDS:
        return shlex.join(value)
    if kind is OptionKind.VARIABLES:
        return "\n".join(f"{variable}={text}" for variable, text in value.items())
    if kind in (OptionKind.COUNT, OptionKind.SECONDS):
        return "" if value == DEFAULTS[name] else f"{value:.10g}"
    return value or ""


def parse_option(name: str, text: str) -> Any:
    """Return an option of the job from the text in its field. Raises UsageError."""
    kind = OPTIONS[name].kind
    if kind is OptionKind.VARIABLES:
        return _parse_env(text)
    if kind is OptionKind.WORDS:
        return parse_words(text, label(name))
    if not text.strip():
        return DEFAULTS[name]
    if kind is OptionKind.COUNT:
        return _parse_count(text.strip(), label(name))
    if kind is OptionKind.SECONDS:
        return _parse_seconds(text.strip(), label(name))
    return text.strip()


def label(name: str) -> str:
    """Return what the form calls an option."""
    return OPTIONS[name].label or name.replace("_", " ")


def parse_words(text: str, what: str) -> tuple[str, ...]:
    """Split a field into words as a shell does. Raises UsageError."""
    try:
        return tuple(shlex.split(text))
    except ValueError as error:
        raise UsageError(f"cannot read {what}", why=str(error), remedy="close the quotes") from error


def make_job(draft: JobOptions, argv: tuple[str, ...], texts: Mapping[str, str]) -> JobOptions:
    """Return the job that the fields make; options without a field are those of the draft. Raises UsageError."""
    values = {name: parse_option(name, text) for name, text in texts.items()}
    by_name = tuple(name for name in draft.env_by_name if name in values.get("env", draft.env))
    return replace(draft, argv=argv, env_by_name=by_name, **values)


def _parse_env(text: str) -> dict[str, str]:
    """Return the variables of rows of `NAME=value`; blank rows are ignored. Raises UsageError naming the row."""
    env: dict[str, str] = {}
    for number, row in enumerate(text.splitlines(), 1):
        if not row.strip():
            continue
        name, equals, value = row.partition("=")
        if not equals or not name.strip():
            raise UsageError(f"row {number} of the environment is not NAME=value: {row.strip()!r}")
        env[name.strip()] = value
    return env


def _parse_count(text: str, name: str) -> int:
    if not text.isdecimal():
        raise UsageError(f"{name} must be a whole number, not {text!r}", remedy="0, 1, 2 …")
    return int(text)


def _parse_seconds(text: str, name: str) -> float:
    value = parse_number(text)
    if not value >= 0:
        raise UsageError(f"{name} must be a number of seconds, not {text!r}")
    return value
