"""The content of the launch form: initial values, parsing of its fields, and notes. Pure functions."""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import TYPE_CHECKING, Any

from tui.errors import UsageError
from tui.operator import digest
from tui.planning.plan import make_plan
from tui.pod.job_options import DEFAULTS, OPTIONS, JobOptions, OptionKind
from tui.pod.slice import Slice
from tui.text.ranks import format_ranks

if TYPE_CHECKING:
    from pathlib import Path

    from tui.operator import CheckRow
    from tui.pod.run import Run

_MOST_ALIKE = 2
"""Results of one check that are shown in full; of the others, only the workers."""
_SHELLS = frozenset({"sh", "bash", "dash", "zsh", "fish", "ksh"})
_SHELL_SIGNS = frozenset({"|", "||", "&&", "&", ";", ">", ">>", "<", "2>&1"})
_VARIABLE = re.compile(r"\$\w|\$\{\w|\$\(")
_MARKS = {"fail": "✗", "warn": "!", "unknown": "?"}


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
    """Whether code was copied for the run that this repeats: without it the command finds no file of its own."""
    scale_from: str = ""
    """An accelerator type: where this was trained before."""

    @classmethod
    def from_run(cls, run: Run, slices: tuple[Slice, ...], code: Path | None = None) -> LaunchForm:
        """Return the form that repeats a run; `code` is the directory whose code it got."""
        return cls(
            slices,
            f"{run.zone}/{run.slice}" if run.zone else run.slice,
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
    return name.replace("_", " ")


def parse_words(text: str, what: str) -> tuple[str, ...]:
    """Return a field's words as a shell reads them. Raises UsageError."""
    try:
        return tuple(shlex.split(text))
    except ValueError as error:
        raise UsageError(f"cannot read {what}", why=str(error), remedy="close the quotes") from error


def make_job(draft: JobOptions, argv: tuple[str, ...], texts: Mapping[str, str]) -> JobOptions:
    """Return the job by the form's fields; what the form has no field for is as in the draft. Raises UsageError."""
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


def _parse_count(text: str, what: str) -> int:
    if not text.isdecimal():
        raise UsageError(f"{what} must be a whole number, not {text!r}", remedy="0, 1, 2 …")
    return int(text)


def _parse_seconds(text: str, what: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value < math.inf:
        raise UsageError(f"{what} must be a number of seconds, not {text!r}")
    return value


def format_scaling(source: str, target: str | None, written: str) -> str:
    """Return the figures of a training on `source` scaled to `target`; empty if there are none to scale.

    `written` holds the global batch, then optionally steps and learning rate. Raises UsageError.
    """
    words = written.replace(",", " ").split()
    if not source.strip() or not words:
        return ""
    plan = make_plan(
        source.strip(),
        target or "",
        batch_size=int(_number(words[0], "batch")),
        steps=int(_number(words[1], "number of steps")) if len(words) > 1 else None,
        lr=_number(words[2], "learning rate") if len(words) > 2 else None,
    )
    figures = [f"global batch {plan.global_batch:,} ({plan.batch_per_core:,} per core)"]
    figures += [f"{plan.steps:,} steps"] * (plan.steps is not None)
    figures += [f"learning rate {plan.lr:g}"] * (plan.lr is not None)
    lines = [f"{plan.source} → {plan.target}: " + ", ".join(figures)]
    return "\n".join([*lines, *(f"  {note}" for note in plan.notes), *(f"  ! {text}" for text in plan.warnings)])


def _number(word: str, what: str) -> float:
    try:
        return float(word)
    except ValueError:
        raise UsageError(
            f"{word!r} is not a {what}", remedy="enter batch, steps and learning rate, e.g. 1024 5000 0.1"
        ) from None


def warn_about_shell(argv: Sequence[str]) -> str:
    """Return a warning for a command that seems to need a shell; empty if it does not."""
    signs = [word for word in argv if word in _SHELL_SIGNS or word.endswith(";") or _VARIABLE.search(word)]
    if not signs or any(word.rpartition("/")[2] in _SHELLS for word in argv):
        return ""
    return f"! No shell interprets this command: {signs[0]} is passed on as it is. To use a shell, write sh -c '…'."


def format_checks(rows: Sequence[CheckRow], *, done: bool) -> str:
    """Return what the checks before a launch found: failures and warnings, worst first, and a count of the rest.

    Where a check differs on every worker, the first results are shown in full and the other workers by number.
    """
    found = digest(rows)
    shown = [finding for finding in found.findings if finding.status in _MARKS]
    lines = []
    for _, alike in groupby(shown, lambda finding: (finding.status, finding.check)):
        accounts = list(alike)
        for finding in accounts[:_MOST_ALIKE]:
            where = f"{finding.where}: " if finding.where else ""
            lines.append(f"{_MARKS[finding.status]} {where}{finding.check}: {finding.detail}")
            lines += [f"  → {finding.remedy}"] * bool(finding.remedy)
        if rest := [worker for finding in accounts[_MOST_ALIKE:] for worker in finding.workers]:
            lines.append(f"  same on workers {format_ranks(rest)}")
    passed = found.counts["pass"]
    lines.append(
        f"{passed} check{'s' * (passed != 1)} passed" if done else f"checking the workers… {passed} passed so far"
    )
    return "\n".join(lines)
